"""Handing out runs: leases with a growing epoch, renewals, take-overs, stops.

Invariants:

1. A live run has one lease: an agent, an epoch, an expiry. Every claim or take-over raises the epoch.
2. Only the newest epoch may report (`muster.service.observe`); anything older is refused.
3. A claim is durable before the agent hears of it. One that never arrived is sent again, because the
   agent lists what it holds with every request and the server knows what it gave.
4. A run whose lease ran out is handed to an agent that can see its processes (same locality), which
   finds them or finds that there are none. Elsewhere it starts again only after `LOST_AFTER`.
5. A restarted agent is a new incarnation: the old one's requests are refused from then on, and its
   runs are open for take-over at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.agent import Agent
from muster.domain.errors import Conflict, NotFound
from muster.domain.observation import AttemptKey
from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL, EventType, Run, RunHead, RunState
from muster.domain.schedule import Candidate, Capacity, pick
from muster.service.journal import Entry, write
from muster.store import agents, attempts, runs
from muster.store.database import Tx

LOOK_AHEAD = 64  #: waiting runs of a queue looked at for one that fits
RENEW_SLACK = timedelta(seconds=2)  #: a lease that would gain less by it is not written again
TOUCH_EVERY = timedelta(seconds=1)  #: nor that an agent was seen


@dataclass(frozen=True, kw_only=True)
class Held:
    """A run the agent says it has."""

    key: AttemptKey
    epoch: int
    stopping: bool = False  #: it knows of the stop already


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A run handed to an agent."""

    run: Run
    queue: str
    adopt: bool  #: somebody may have started it already: look first
    report_seq: int = 0  #: newest report of this epoch that was applied


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What an agent is to do."""

    claims: tuple[Claim, ...] = ()
    stops: tuple[AttemptKey, ...] = ()
    drops: tuple[AttemptKey, ...] = ()  #: no longer its own: forget, touch nothing

    def __bool__(self) -> bool:
        return bool(self.claims or self.stops or self.drops)


@dataclass(kw_only=True)
class _Books:
    """What the agent holds, sorted by what is to be done about it."""

    resend: list[RunHead] = field(default_factory=list)
    reclaim: list[RunHead] = field(default_factory=list)  # orphaned while held: it is alive after all
    stops: list[AttemptKey] = field(default_factory=list)
    drops: list[AttemptKey] = field(default_factory=list)
    released: int = 0  # ended since the request was made
    freed: Resources = field(default_factory=Resources)


def require_agent(conn: Connection, actor: Actor, agent_id: str, incarnation: str) -> Agent:
    return checked_agent(agents.find(conn, agent_id), actor, agent_id, incarnation)


def checked_agent(agent: Agent | None, actor: Actor, agent_id: str, incarnation: str) -> Agent:
    """The agent, if it is known, the actor may speak for it, and nothing has taken its place."""
    if agent is None or not actor.may(Action.SERVE, agent.entity):
        raise NotFound("agent", agent_id, hint="It was removed. Start it again to register anew.")
    if agent.incarnation != incarnation:
        raise Conflict(
            f"Agent {agent.name!r} was started again elsewhere; this one is overtaken.",
            hint="Give each agent its own name with --name.",
            facts={"reason": "overtaken"},
        )
    return agent


def assign(
    tx: Tx,
    actor: Actor,
    agent_id: str,
    incarnation: str,
    *,
    held: Sequence[Held],
    slots: int,
    free: Resources,
    now: datetime,
    heard: datetime | None = None,
    draining: bool = False,
) -> Assignment:
    """Renew the agent's leases and give it whatever there is for it.

    Leases last from when the agent was `heard`, which is now unless its request was held: an agent that
    died meanwhile must not live on through the request it left.
    """
    heard = heard or now
    known, serving = agents.hold_serving(tx.conn, agent_id)
    agent = checked_agent(known, actor, agent_id, incarnation)
    if agent.left_at is not None:  # its last request was still waiting when it said good-bye
        return Assignment()
    if abs(heard - agent.seen_at) > TOUCH_EVERY or agent.free != free:
        agents.touch(tx.conn, agent.id, at=heard, free=free)
    living = runs.hold_live_of_agent(tx.conn, agent.id)
    if any(_is_due(head, heard) for head, _ in living):
        runs.extend_leases(tx.conn, agent.id, until=heard + LEASE_TTL)
    books = _balance(tx, agent, [head for head, _ in living], held)
    entries = [_taken_back(agent, head, now) for head in books.reclaim]
    adopted = _adopt(tx, agent, runs.hold_orphans(tx.conn, agent.locality), now, entries)
    write(tx, entries)
    taken = runs.find_many(tx.conn, [*(head.id for head in books.reclaim), *adopted])
    resent = runs.find_many(tx.conn, [head.id for head in books.resend])
    unheard = [*resent.values(), *(taken[run_id] for run_id in adopted)]
    given = [needs for _, needs in living] + [run.spec.resources for run in taken.values()]
    capacity = _room(agent, books, unheard, given, slots=slots, free=free)
    claimed: list[Run] = []
    if capacity.slots > 0 and serving and not draining:
        claimed = _claim_waiting(tx, agent, serving, capacity, now)
    tries = attempts.find_many(tx.conn, [_key(run) for run in unheard])
    claims = [
        Claim(run=run, queue=run.queue, adopt=True, report_seq=tries[_key(run)].report_seq) for run in unheard
    ]
    claims += [Claim(run=run, queue=run.queue, adopt=False) for run in claimed]
    return Assignment(claims=tuple(claims), stops=tuple(books.stops), drops=tuple(books.drops))


def _key(run: Run) -> AttemptKey:
    return AttemptKey(run_id=run.id, attempt=run.head.attempt)


def _is_due(head: RunHead, now: datetime) -> bool:
    """Is it worth a write to renew this lease? A busy agent asks many times a second."""
    return head.lease_expires_at is None or head.lease_expires_at < now + LEASE_TTL - RENEW_SLACK


def _balance(tx: Tx, agent: Agent, living: Sequence[RunHead], held: Sequence[Held]) -> _Books:
    """Compare what the agent says it has with what it was given."""
    books = _Books()
    live = {head.id: head for head in living}
    said = {item.key.run_id: item for item in held}
    books.resend = [
        head for head in live.values() if head.id not in said or said[head.id].epoch != head.epoch
    ]
    elsewhere = [run_id for run_id in said if run_id not in live]
    if elsewhere:
        runs.hold(tx.conn, elsewhere)
    others = runs.find_many(tx.conn, elsewhere)
    for run_id, item in said.items():
        head = live.get(run_id) or (others[run_id].head if run_id in others else None)
        if head is None or head.epoch != item.epoch or head.state is RunState.QUEUED:
            books.drops.append(item.key)
            continue
        if head.state.terminal:
            books.released += 1
            books.freed += others[run_id].spec.resources
            continue
        if run_id not in live:
            if not _was_given_to(tx, agent, item):
                books.drops.append(item.key)
                continue
            books.reclaim.append(head)
        if head.state is RunState.STOPPING and not item.stopping:
            books.stops.append(item.key)
    return books


def _was_given_to(tx: Tx, agent: Agent, item: Held) -> bool:
    """Saying that one holds a run is not enough: the claim must have been this agent's own."""
    attempt = attempts.find_many(tx.conn, [item.key]).get(item.key)
    return attempt is not None and (attempt.agent_id, attempt.epoch) == (agent.id, item.epoch)


def _room(
    agent: Agent,
    books: _Books,
    unheard: Sequence[Run],
    given: Sequence[Resources],
    *,
    slots: int,
    free: Resources,
) -> Capacity:
    """What the agent can take on: what it said, with what ended since and less what it has not heard
    of yet; and never more than its machine less the runs it was given."""
    promised = sum((run.spec.resources for run in unheard), start=Resources())
    used = sum(given, start=Resources())
    return Capacity(
        slots=min(slots + books.released - len(unheard), agent.max_jobs - len(given)),
        free=(free + books.freed - promised).at_most(agent.total - used),
        total=agent.total,
    )


def _taken_back(agent: Agent, head: RunHead, now: datetime) -> Entry:
    entry = Entry(head, now, agent.name)
    entry.note(EventType.LEASE, {"agent": agent.name, "epoch": head.epoch, "what": "back"})
    entry.set(agent_id=agent.id, lease_expires_at=now + LEASE_TTL)
    return entry


def _adopt(
    tx: Tx, agent: Agent, orphans: Sequence[RunHead], now: datetime, entries: list[Entry]
) -> list[str]:
    """Take over runs whose agent went silent and whose processes this agent can see."""
    if not orphans:
        return []
    known = {entry.head.id for entry in entries}
    mine = set(agents.queue_ids(tx.conn, agent.id))
    adopted = []
    for head in orphans:
        if head.id in known or head.queue_id not in mine:
            continue
        epoch = head.epoch + 1
        entry = Entry(head, now, agent.name)
        entry.note(EventType.LEASE, {"agent": agent.name, "epoch": epoch, "what": "taken over"})
        entry.set(epoch=epoch, agent_id=agent.id, lease_expires_at=now + LEASE_TTL)
        entries.append(entry)
        key = AttemptKey(run_id=head.id, attempt=head.attempt)
        values = {"epoch": epoch, "report_seq": 0, "agent_id": agent.id, "agent_name": agent.name}
        attempts.change(tx.conn, {key: values})
        adopted.append(head.id)
    return adopted


def _claim_waiting(
    tx: Tx, agent: Agent, serving: Sequence[str], capacity: Capacity, now: datetime
) -> list[Run]:
    picked = _first(tx, agent, serving, capacity) or _picked(tx, agent, serving, capacity)
    if not picked:
        return []
    entries = [_claimed(agent, run.head, now) for run in picked]
    attempts.add(tx.conn, [_attempt_row(agent, entry.head, now) for entry in entries])
    write(tx, entries)
    return [replace(run, head=entry.head, claimed_at=now) for run, entry in zip(picked, entries, strict=True)]


def _first(tx: Tx, agent: Agent, serving: Sequence[str], capacity: Capacity) -> list[Run]:
    """Mostly an agent has one queue and the first that wait there fit; then one look is enough."""
    if len(serving) > 1:
        return []
    found = runs.take_first(tx.conn, serving[0], room=agent.total, limit=capacity.slots)
    candidates = [Candidate(run_id=run.id, needs=run.spec.resources) for run in found]
    return found if len(pick(candidates, capacity)) == len(found) else []


def _picked(tx: Tx, agent: Agent, serving: Sequence[str], capacity: Capacity) -> list[Run]:
    """The runs to be handed out, in order. What another server is just handing out is passed over."""
    passed: set[str] = set()
    while True:
        chosen = _choose(tx, agent, serving, capacity, passed)
        found = runs.take_waiting(tx.conn, chosen) if chosen else {}
        if len(found) == len(chosen):
            return [found[run_id] for run_id in chosen]
        passed.update(run_id for run_id in chosen if run_id not in found)


def _choose(
    tx: Tx, agent: Agent, serving: Sequence[str], capacity: Capacity, passed: Collection[str]
) -> list[str]:
    limit = max(LOOK_AHEAD, 2 * capacity.slots) + len(passed)
    candidates: list[Candidate] = []
    for queue_id in serving:
        candidates += runs.waiting(tx.conn, queue_id, room=agent.total, limit=limit)
    candidates = [candidate for candidate in candidates if candidate.run_id not in passed]
    candidates.sort(key=lambda candidate: (candidate.rank, candidate.seq))
    return pick(candidates, capacity)


def _claimed(agent: Agent, head: RunHead, now: datetime) -> Entry:
    entry = Entry(head, now, agent.name)
    entry.set(
        attempt=head.attempt + 1,
        epoch=head.epoch + 1,
        agent_id=agent.id,
        locality=agent.locality,
        lease_expires_at=now + LEASE_TTL,
        claimed_at=now,
    )
    entry.move(RunState.CLAIMED, reason=f"Taken by agent {agent.name} on {agent.host}.")
    return entry


def _attempt_row(agent: Agent, head: RunHead, now: datetime) -> Mapping[str, object]:
    return {
        "run_id": head.id,
        "attempt": head.attempt,
        "epoch": head.epoch,
        "agent_id": agent.id,
        "agent_name": agent.name,
        "host": agent.host,
        "claimed_at": now,
    }
