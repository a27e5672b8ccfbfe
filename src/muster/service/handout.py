"""Handing out what waits: which of the asking agents gets which runs.

The order is the queue's (`muster.domain.share`); what an agent has room for is its own
(`muster.domain.schedule`). Agents that ask at the same time are served in turn from the same lines.
What another server is just handing out is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from muster.domain.agent import Agent
from muster.domain.policy import QueueOrder
from muster.domain.resources import Resources
from muster.domain.run import Run
from muster.domain.schedule import Candidate, Capacity, pick
from muster.domain.share import Budget, Line, Merged, Standing
from muster.store import runs, shares
from muster.store.agents import Served
from muster.store.database import Tx

LOOK_AHEAD = 64  #: waiting runs looked at for one that fits
FEW_USERS = 8  #: looked at first; where they have nothing that fits, more and more are
_EVERYBODY = 1_000_000
_FIRST_PAGE, _PAGE = 4, 64


@dataclass(frozen=True, kw_only=True)
class Wish:
    """An agent that could start something."""

    agent: Agent
    queues: Sequence[Served]
    capacity: Capacity


@dataclass(frozen=True, kw_only=True)
class Handed:
    """What was found for whom."""

    given: Mapping[str, Sequence[Run]] = field(default_factory=dict)  #: agent → runs, in order; held
    #: queue → users of whom something was taken, or nothing was found: to be refreshed after the claim
    changed: Mapping[str, Collection[str]] = field(default_factory=dict)


def hand_out(tx: Tx, wishes: Sequence[Wish], *, now: datetime) -> Handed:
    wishes = [wish for wish in wishes if wish.capacity.slots > 0 and wish.queues]
    queues = {queue.id: queue for wish in wishes for queue in wish.queues}
    for entity in sorted({queue.entity for queue in queues.values() if queue.limited}):
        tx.alone(f"limits of {entity}")  # what is counted here, nobody else adds to meanwhile
    passed: set[str] = set()
    known: dict[str, dict[str, Standing]] = {}
    users = max(FEW_USERS, min(LOOK_AHEAD, 2 * sum(wish.capacity.slots for wish in wishes)))
    handed = _from_the_front(tx, wishes, queues, known, now, users) if len(queues) == 1 else None
    while handed is None:
        walk = _Walk(tx, queues, now=now, users=users, passed=passed, standings=known)
        handed = walk.hand_out(wishes)
        if walk.ran_out:  # those next in order have nothing for these machines: others may
            users, handed = users * 8 if users < LOOK_AHEAD else _EVERYBODY, None
        known = {}  # a walk changes them
    return handed


def _users(tx: Tx, queue: Served, now: datetime, limit: int) -> dict[str, Standing]:
    """Who is next in the queue, in order; all that wait, where limits may hold some of them back."""
    share = queue.policy.order is QueueOrder.SHARE
    if queue.limited:
        limit = _EVERYBODY
    return shares.first_waiting(tx.conn, queue.id, now=now, share=share, limit=limit)


@dataclass
class _Row:
    """Runs in a given order, as a line."""

    candidates: Iterator[Candidate]

    def next(self) -> Candidate | None:
        return next(self.candidates, None)

    def took(self, candidate: Candidate) -> None:
        pass


def _from_the_front(
    tx: Tx,
    wishes: Sequence[Wish],
    queues: Mapping[str, Served],
    known: dict[str, dict[str, Standing]],
    now: datetime,
    look: int,
) -> Handed | None:
    """Mostly one user waits, or the order is that of rank, and the first runs fit: then one look is enough.
    None: it is not so; whoever was found to wait is `known` then."""
    [queue] = queues.values()
    if queue.limited or len({wish.agent.total for wish in wishes}) > 1:
        return None
    users: dict[str, Standing] = {}
    if queue.policy.order is QueueOrder.SHARE:
        users = known[queue.id] = _users(tx, queue, now, look)
        if not users:
            return Handed()
        if len(users) > 1:
            return None
    slots = sum(wish.capacity.slots for wish in wishes)
    left = found = runs.take_first(tx.conn, queue.id, room=wishes[0].agent.total, limit=slots)
    given: dict[str, Sequence[Run]] = {}
    for wish in wishes:
        row = _Row(iter([Candidate(run_id=run.id, needs=run.spec.resources) for run in left]))
        count = len(pick(row, wish.capacity, look=wish.capacity.slots))
        given[wish.agent.id], left = left[:count], left[count:]
        if count < wish.capacity.slots and left:
            return None  # one of them does not fit
    return Handed(given=given, changed={queue.id: set(users)} if users and len(found) < slots else {})


@dataclass
class _Walk:
    """One way along all lines, for all agents that ask."""

    tx: Tx
    queues: Mapping[str, Served]
    now: datetime = field(kw_only=True)
    users: int = field(kw_only=True)  #: of a queue that are looked at
    passed: set[str] = field(kw_only=True)  #: handed out by another server
    standings: dict[str, dict[str, Standing]] = field(kw_only=True)  #: by queue; those known already
    budgets: dict[str, Budget] = field(default_factory=dict)  #: of a queue or an entity, by what it is of
    taken: dict[str, Candidate] = field(default_factory=dict)
    changed: dict[str, set[str]] = field(default_factory=dict)
    looked_at: int = 0  #: runs

    @property
    def ran_out(self) -> bool:
        """Was nothing handed out, although there are more users than were asked for? However many runs of a
        few users were looked at: one of somebody else may have room."""
        cut = any(len(standings) == self.users for standings in self.standings.values())
        return cut and not self.taken and (self.users < LOOK_AHEAD or self.looked_at < LOOK_AHEAD)

    def hand_out(self, wishes: Sequence[Wish]) -> Handed | None:
        """None: some were handed out by another server meanwhile; they are among the `passed` now."""
        chosen: dict[str, list[str]] = {}
        for wish in wishes:
            lines = [self._line(queue, wish.agent.total) for queue in wish.queues]
            look = max(LOOK_AHEAD, 2 * wish.capacity.slots)
            picked = pick(lines[0] if len(lines) == 1 else Merged(lines), wish.capacity, look=look)
            chosen[wish.agent.id] = [candidate.run_id for candidate in picked]
            self.taken |= {candidate.run_id: candidate for candidate in picked}
        found = runs.take_waiting(self.tx.conn, self.taken) if self.taken else {}
        if len(found) < len(self.taken):
            self.passed |= self.taken.keys() - found.keys()
            return None
        for run_id, run in found.items():
            self.changed.setdefault(run.head.queue_id, set()).add(self.taken[run_id].user)
        given = {agent_id: [found[run_id] for run_id in ids] for agent_id, ids in chosen.items()}
        return Handed(given=given, changed=self.changed)

    def _line(self, queue: Served, room: Resources) -> Line:
        return Line(
            self._pages(queue.id, room),
            now=self.now,
            standings=self._standings(queue),
            share=queue.policy.order is QueueOrder.SHARE,
            each=queue.policy.limits.user,
            budgets=self._budgets(queue),
        )

    def _standings(self, queue: Served) -> dict[str, Standing]:
        if queue.id not in self.standings:
            self.standings[queue.id] = _users(self.tx, queue, self.now, self.users)
        return self.standings[queue.id]

    def _budgets(self, queue: Served) -> list[Budget]:
        limit = queue.policy.limits.queue
        if limit and queue.id not in self.budgets:
            count, gpus = shares.live_of_queue(self.tx.conn, queue.id)
            self.budgets[queue.id] = Budget.of(limit, runs=count, gpus=gpus)
        name = f"entity {queue.entity}"
        if queue.entity_limit and name not in self.budgets:
            count, gpus = shares.live_of_entity(self.tx.conn, queue.entity)
            self.budgets[name] = Budget.of(queue.entity_limit, runs=count, gpus=gpus)
        return [self.budgets[key] for key in (queue.id, name) if key in self.budgets]

    def _pages(self, queue_id: str, room: Resources) -> Callable[[str], Iterable[Candidate]]:
        def pages(user: str) -> Iterator[Candidate]:
            last: Candidate | None = None
            limit = _FIRST_PAGE
            while True:
                page = runs.waiting(self.tx.conn, queue_id, user, room=room, after=last, limit=limit)
                if not page and last is None:
                    self.changed.setdefault(queue_id, set()).add(user)
                for candidate in page:
                    if candidate.run_id not in self.taken and candidate.run_id not in self.passed:
                        self.looked_at += 1
                        yield candidate
                if len(page) < limit:
                    return
                last, limit = page[-1], _PAGE

        return pages
