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
6. An agent was heard of after every lease that it was renewed. A lease that is newer than the last word
   of its agent is a claim, or a take-over, which nobody has confirmed; after `UNHEARD_AFTER` its run is
   open for take-over like one whose lease ran out, if there is somebody else of its place to take it
   (`muster.service.sweep`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.agent import Agent
from muster.domain.errors import Conflict, MusterError, NotFound
from muster.domain.observation import AttemptKey
from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL, EventType, Run, RunHead, RunState
from muster.domain.schedule import Capacity
from muster.service.handout import Wish, hand_out
from muster.service.journal import Entry, write
from muster.store import agents, attempts, runs, shares
from muster.store.agents import Served
from muster.store.database import Tx

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


@dataclass(frozen=True, kw_only=True)
class Ask:
    """An agent's request: what it has, and room for how much more."""

    actor: Actor
    agent_id: str
    incarnation: str
    held: Sequence[Held]
    slots: int
    free: Resources
    heard: datetime  #: leases last from here on, not from when the request is answered: see `assign`
    draining: bool = False


@dataclass(kw_only=True)
class _Turn:
    """An agent that is being served."""

    ask: Ask
    agent: Agent
    queues: Sequence[Served]
    orphans: bool  #: does its machine have runs that nobody speaks for?
    living: list[tuple[RunHead, Resources]] = field(default_factory=list)
    books: _Books = field(default_factory=_Books)
    adopted: list[str] = field(default_factory=list)
    noted: datetime  #: when it was last heard of, as the store has it

    @property
    def heard(self) -> datetime:
        """When it was heard of. Who names a run was heard of after that was given to it, also if the
        server that gave it had a clock that is ahead of ours."""
        named = {item.key.run_id: item.epoch for item in self.ask.held}
        given = (head.leased_at for head, _ in self.living if named.get(head.id) == head.epoch)
        return max([self.ask.heard, *filter(None, given)])

    @property
    def is_unheard(self) -> bool:
        """Would what it has seem to be unconfirmed?"""
        return any(head.leased_at is not None and head.leased_at > self.noted for head, _ in self.living)


def assign(tx: Tx, asks: Sequence[Ask], *, now: datetime) -> list[Assignment | MusterError]:
    """Renew the agents' leases and give each whatever there is for it.

    All that ask at the same time are served with the same few statements. Leases last from when an agent
    was heard, which is before now if its request was held: an agent that died meanwhile must not live on
    through the request it left.
    """
    answers: dict[int, Assignment | MusterError] = {}
    rest = list(enumerate(asks))
    while rest:  # an agent with two requests is served twice: the second knows what the first was given
        first: dict[str, tuple[int, Ask]] = {}
        for place, ask in rest:
            first.setdefault(ask.agent_id, (place, ask))
        rest = [(place, ask) for place, ask in rest if first[ask.agent_id][0] != place]
        served = _serve(tx, [ask for _, ask in first.values()], now)
        answers |= zip((place for place, _ in first.values()), served, strict=True)
    return [answers[place] for place in range(len(asks))]


def _serve(tx: Tx, asks: Sequence[Ask], now: datetime) -> list[Assignment | MusterError]:
    answers: dict[str, Assignment | MusterError] = {}
    turns: dict[str, _Turn] = {}
    known = agents.hold_serving(tx.conn, [ask.agent_id for ask in asks])
    for ask in asks:
        found = known.get(ask.agent_id)
        try:
            agent = checked_agent(found.agent if found else None, ask.actor, ask.agent_id, ask.incarnation)
        except MusterError as error:
            answers[ask.agent_id] = error
            continue
        if agent.left_at is not None:  # its last request was still waiting when it said good-bye
            answers[ask.agent_id] = Assignment()
            continue
        serving = known[agent.id]
        turns[agent.id] = _Turn(
            ask=ask, agent=agent, queues=serving.queues, orphans=serving.orphans, noted=agent.seen_at
        )
    if turns:
        answers |= _take_turns(tx, turns, now)
    return [answers[ask.agent_id] for ask in asks]


def _take_turns(tx: Tx, turns: Mapping[str, _Turn], now: datetime) -> dict[str, Assignment]:
    _renew(tx, turns)
    _balance(tx, turns)
    entries = [_taken_back(turn, head, now) for turn in turns.values() for head in turn.books.reclaim]
    entries += _adopt(tx, turns, {entry.head.id for entry in entries}, now)
    write(tx, entries)
    resent = [head.id for turn in turns.values() for head in turn.books.resend]
    whole = runs.find_many(tx.conn, [*(entry.head.id for entry in entries), *resent])
    unheard = {
        agent_id: [whole[run_id] for run_id in (*(h.id for h in turn.books.resend), *turn.adopted)]
        for agent_id, turn in turns.items()
    }
    wishes = [
        Wish(agent=turn.agent, queues=turn.queues, capacity=_room(turn, unheard[agent_id], whole))
        for agent_id, turn in turns.items()
        if not turn.ask.draining and turn.agent.paused_at is None
    ]
    handed = hand_out(tx, wishes, now=now)
    claimed = _claim(tx, handed.given, turns, now)
    for queue_id in sorted(handed.changed):
        shares.refresh(tx.conn, queue_id, handed.changed[queue_id])
    tries = attempts.find_many(tx.conn, [_key(run) for found in unheard.values() for run in found])
    assignments = {
        agent_id: Assignment(
            claims=(
                *(
                    Claim(run=run, queue=run.queue, adopt=True, report_seq=tries[_key(run)].report_seq)
                    for run in unheard[agent_id]
                ),
                *(Claim(run=run, queue=run.queue, adopt=False) for run in claimed.get(agent_id, ())),
            ),
            stops=tuple(turn.books.stops),
            drops=tuple(turn.books.drops),
        )
        for agent_id, turn in turns.items()
    }
    # Who is given nothing is not heard of again for a while. All others ask again at once.
    _note(tx, [turn for agent_id, turn in turns.items() if turn.is_unheard and not assignments[agent_id]])
    return assignments


def _renew(tx: Tx, turns: Mapping[str, _Turn]) -> None:
    """Note who was heard of, and lengthen what they have."""
    for head, needs in runs.hold_live(tx.conn, turns):
        turns[head.agent_id or ""].living.append((head, needs))
    due = {
        agent_id: turn.ask.heard + LEASE_TTL
        for agent_id, turn in turns.items()
        if any(_is_due(head, turn.ask.heard) for head, _ in turn.living)
    }
    _note(tx, [turn for agent_id, turn in turns.items() if agent_id in due or _is_news(turn)])
    if due:
        runs.extend_leases(tx.conn, due)


def _is_news(turn: _Turn) -> bool:
    """Is it worth a write that this agent was heard of?"""
    return abs(turn.heard - turn.noted) > TOUCH_EVERY or turn.agent.free != turn.ask.free


def _note(tx: Tx, turns: Sequence[_Turn]) -> None:
    """Note when these agents were heard of."""
    for turn in turns:
        turn.noted = turn.heard
    if turns:
        agents.touch(tx.conn, {turn.agent.id: (turn.noted, turn.ask.free) for turn in turns})


def _key(run: Run) -> AttemptKey:
    return AttemptKey(run_id=run.id, attempt=run.head.attempt)


def _is_due(head: RunHead, now: datetime) -> bool:
    """Is it worth a write to renew this lease? A busy agent asks many times a second."""
    return head.lease_expires_at is None or head.lease_expires_at < now + LEASE_TTL - RENEW_SLACK


def _balance(tx: Tx, turns: Mapping[str, _Turn]) -> None:
    """Compare what each agent says it has with what it was given."""
    given = {head.id: agent_id for agent_id, turn in turns.items() for head, _ in turn.living}
    elsewhere = {
        item.key.run_id
        for agent_id, turn in turns.items()
        for item in turn.ask.held
        if given.get(item.key.run_id) != agent_id
    }
    if elsewhere:
        runs.hold(tx.conn, elsewhere)
    others = runs.find_many(tx.conn, elsewhere)
    for turn in turns.values():
        _balance_one(tx, turn, others)


def _balance_one(tx: Tx, turn: _Turn, others: Mapping[str, Run]) -> None:
    books = turn.books
    live = {head.id: head for head, _ in turn.living}
    said = {item.key.run_id: item for item in turn.ask.held}
    books.resend = [
        head for head in live.values() if head.id not in said or said[head.id].epoch != head.epoch
    ]
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
            if not _was_given_to(tx, turn.agent, item):
                books.drops.append(item.key)
                continue
            books.reclaim.append(head)
        if head.state is RunState.STOPPING and not item.stopping:
            books.stops.append(item.key)


def _was_given_to(tx: Tx, agent: Agent, item: Held) -> bool:
    """Saying that one holds a run is not enough: the claim must have been this agent's own."""
    attempt = attempts.find_many(tx.conn, [item.key]).get(item.key)
    return attempt is not None and (attempt.agent_id, attempt.epoch) == (agent.id, item.epoch)


def _room(turn: _Turn, unheard: Sequence[Run], whole: Mapping[str, Run]) -> Capacity:
    """What the agent can take on: what it said, with what ended since and less what it has not heard
    of yet; and never more than its machine less the runs it was given."""
    books, agent = turn.books, turn.agent
    taken = [whole[run_id] for run_id in (*(head.id for head in books.reclaim), *turn.adopted)]
    given = [needs for _, needs in turn.living] + [run.spec.resources for run in taken]
    promised = sum((run.spec.resources for run in unheard), start=Resources())
    used = sum(given, start=Resources())
    return Capacity(
        slots=min(turn.ask.slots + books.released - len(unheard), agent.max_jobs - len(given)),
        free=(turn.ask.free + books.freed - promised).at_most(agent.total - used),
        total=agent.total,
    )


def _taken_back(turn: _Turn, head: RunHead, now: datetime) -> Entry:
    agent = turn.agent
    entry = Entry(head, now, agent.name)
    entry.note(EventType.LEASE, {"agent": agent.name, "epoch": head.epoch, "what": "back"})
    entry.set(agent_id=agent.id, lease_expires_at=turn.ask.heard + LEASE_TTL)
    return entry


def _adopt(tx: Tx, turns: Mapping[str, _Turn], known: Collection[str], now: datetime) -> list[Entry]:
    """Take over runs whose agent went silent and whose processes one of these agents can see."""
    entries: list[Entry] = []
    places = {turn.agent.locality for turn in turns.values() if turn.orphans}
    orphans = runs.hold_orphans(tx.conn, places) if places else []
    if not orphans:
        return entries
    serves = {agent_id: set(agents.queue_ids(tx.conn, agent_id)) for agent_id in turns}
    for head, locality in orphans:
        turn = next(
            (
                turn
                for agent_id, turn in turns.items()
                if turn.agent.locality == locality and head.queue_id in serves[agent_id]
            ),
            None,
        )
        if turn is None or head.id in known:
            continue
        agent, epoch = turn.agent, head.epoch + 1
        entry = Entry(head, now, agent.name)
        entry.note(EventType.LEASE, {"agent": agent.name, "epoch": epoch, "what": "taken over"})
        entry.set(epoch=epoch, agent_id=agent.id, lease_expires_at=now + LEASE_TTL)
        entries.append(entry)
        key = AttemptKey(run_id=head.id, attempt=head.attempt)
        values = {"epoch": epoch, "report_seq": 0, "agent_id": agent.id, "agent_name": agent.name}
        attempts.change(tx.conn, {key: values})
        turn.adopted.append(head.id)
    return entries


def _claim(
    tx: Tx, given: Mapping[str, Sequence[Run]], turns: Mapping[str, _Turn], now: datetime
) -> dict[str, list[Run]]:
    """Write down who has what."""
    entries = {
        run.id: _claimed(turns[agent_id].agent, run.head, now)
        for agent_id, found in given.items()
        for run in found
    }
    if not entries:
        return {}
    rows = [
        _attempt_row(turns[agent_id].agent, entries[run.id].head, now)
        for agent_id, found in given.items()
        for run in found
    ]
    attempts.add(tx.conn, rows)
    write(tx, [*entries.values()])
    return {
        agent_id: [replace(run, head=entries[run.id].head, claimed_at=now) for run in found]
        for agent_id, found in given.items()
    }


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
