"""Handing out what waits: which of the asking agents gets which runs.

The order is the queue's (`muster.domain.share`); what an agent has room for is its own
(`muster.domain.schedule`). Agents that ask at the same time are served in turn from the same lines.
What another server is just handing out is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from muster.domain.agent import Agent
from muster.domain.policy import QueueOrder
from muster.domain.resources import Resources
from muster.domain.run import Run
from muster.domain.schedule import Candidate, Capacity, Merged, pick
from muster.domain.share import Budget, Line, Standing
from muster.store import runs, shares
from muster.store.agents import Served
from muster.store.database import Tx

LOOK_AHEAD = 64  #: waiting runs looked at for one that fits
_FIRST_PAGE, _PAGE = 4, 64


@dataclass(frozen=True, kw_only=True)
class Wish:
    """An agent that could start something."""

    agent: Agent
    queues: Sequence[Served]
    capacity: Capacity


def hand_out(tx: Tx, wishes: Sequence[Wish], *, now: datetime) -> dict[str, list[Run]]:
    """Agent → the runs it gets, in order; held, to be changed."""
    wishes = [wish for wish in wishes if wish.capacity.slots > 0 and wish.queues]
    if not wishes:
        return {}
    queues = {queue.id: queue for wish in wishes for queue in wish.queues}
    for entity in sorted({queue.entity for queue in queues.values() if queue.limited}):
        tx.alone(f"limits of {entity}")  # what is counted here, nobody else adds to meanwhile
    waiting = {queue_id: _users(tx, queue) for queue_id, queue in queues.items()}
    queues = {queue_id: queue for queue_id, queue in queues.items() if waiting[queue_id] != {}}
    if not queues:
        return {}
    given = _from_the_front(tx, wishes, queues, waiting)
    passed: set[str] = set()
    while given is None:
        given = _Walk(tx, queues, waiting, now=now, passed=passed).hand_out(wishes)
    return given


def _users(tx: Tx, queue: Served) -> dict[str, int] | None:
    """Who waits; None: it does not matter, the order is that of rank alone."""
    if queue.policy.order is QueueOrder.FIFO and not queue.limited:
        return None
    return shares.waiting_users(tx.conn, queue.id)


@dataclass
class _Row:
    """Runs in a given order, as a line."""

    candidates: Iterator[Candidate]

    def next(self) -> Candidate | None:
        return next(self.candidates, None)

    def took(self, candidate: Candidate) -> None:
        pass


def _from_the_front(
    tx: Tx, wishes: Sequence[Wish], queues: dict[str, Served], waiting: dict[str, dict[str, int] | None]
) -> dict[str, list[Run]] | None:
    """Mostly there is one queue, one user waits, and the first runs fit: then one look is enough.
    None: it is not so."""
    queue = next(iter(queues.values()))
    users = waiting[queue.id]
    alike = len(queues) == 1 and len({wish.agent.total for wish in wishes}) == 1
    if not alike or queue.limited or (users is not None and len(users) > 1):
        return None
    slots = sum(wish.capacity.slots for wish in wishes)
    found = runs.take_first(tx.conn, queue.id, room=wishes[0].agent.total, limit=slots)
    left = list(found)
    given: dict[str, list[Run]] = {}
    for wish in wishes:
        row = _Row(iter([Candidate(run_id=run.id, needs=run.spec.resources) for run in left]))
        count = len(pick(row, wish.capacity, look=wish.capacity.slots))
        given[wish.agent.id], left = left[:count], left[count:]
        if count < wish.capacity.slots and left:
            return None  # one of them does not fit
    return given


@dataclass
class _Walk:
    """One way along all lines, for all agents that ask."""

    tx: Tx
    queues: dict[str, Served]
    waiting: dict[str, dict[str, int] | None]
    now: datetime = field(kw_only=True)
    passed: set[str] = field(kw_only=True)  #: handed out by another server
    standings: dict[str, dict[str, Standing]] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)  #: of a queue or an entity, by what it is of
    taken: set[str] = field(default_factory=set)

    def hand_out(self, wishes: Sequence[Wish]) -> dict[str, list[Run]] | None:
        """None: some were handed out by another server meanwhile; they are among the `passed` now."""
        chosen: dict[str, list[str]] = {}
        for wish in wishes:
            lines = [self._line(queue, wish.agent.total) for queue in wish.queues if queue.id in self.queues]
            look = max(LOOK_AHEAD, 2 * wish.capacity.slots)
            picked = pick(lines[0] if len(lines) == 1 else Merged(lines), wish.capacity, look=look)
            chosen[wish.agent.id] = [candidate.run_id for candidate in picked]
            self.taken.update(chosen[wish.agent.id])
        found = runs.take_waiting(self.tx.conn, self.taken) if self.taken else {}
        if len(found) < len(self.taken):
            self.passed |= self.taken - found.keys()
            return None
        return {agent_id: [found[run_id] for run_id in ids] for agent_id, ids in chosen.items()}

    def _line(self, queue: Served, room: Resources) -> Line:
        return Line(
            self._pages(queue.id, room),
            now=self.now,
            standings=self._standings(queue.id),
            share=queue.policy.order is QueueOrder.SHARE,
            each=queue.policy.limits.user,
            budgets=self._budgets(queue),
        )

    def _standings(self, queue_id: str) -> dict[str, Standing]:
        """Of those that wait."""
        if queue_id not in self.standings:
            waiting = self.waiting[queue_id]
            if waiting is None:
                waiting = shares.waiting_users(self.tx.conn, queue_id)
            everybody = shares.standings(self.tx.conn, queue_id, waiting, now=self.now)
            self._open_budget(queue_id, everybody)
            self.standings[queue_id] = {user: everybody[user] for user in waiting}
        return self.standings[queue_id]

    def _open_budget(self, queue_id: str, everybody: dict[str, Standing]) -> None:
        limit = self.queues[queue_id].policy.limits.queue
        if limit:
            self.budgets[queue_id] = Budget.of(
                limit,
                runs=sum(standing.runs for standing in everybody.values()),
                gpus=sum(standing.gpus for standing in everybody.values()),
            )

    def _budgets(self, queue: Served) -> list[Budget]:
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
                for candidate in page:
                    if candidate.run_id not in self.taken and candidate.run_id not in self.passed:
                        yield candidate
                if len(page) < limit:
                    return
                last, limit = page[-1], _PAGE

        return pages
