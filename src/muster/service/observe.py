"""Taking reports: facts from agents become replicas, events and states of runs.

Reports come in order per attempt and are sent again until acknowledged; each has a number, and one
that was applied already is passed over. A report under an old epoch changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from muster.domain.access import Actor
from muster.domain.failure import advice_for, named
from muster.domain.observation import (
    AttemptKey,
    Fact,
    Failure,
    Noted,
    PhaseSeen,
    Replica,
    ReplicaSeen,
    ReplicaState,
)
from muster.domain.run import AttemptEnd, EventType, RunHead, RunState, may_move
from muster.domain.verdict import AttemptView, Judgement, judge, merge
from muster.service.bus import agent_topic, queue_topic
from muster.service.claim import require_agent
from muster.service.journal import Entry, write
from muster.store import attempts, runs
from muster.store.attempts import Attempt
from muster.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class Report:
    """One fact from an agent, under the epoch it holds."""

    key: AttemptKey
    epoch: int
    seq: int
    fact: Fact | None = None
    manifest: Mapping[str, Any] | None = None  #: what was submitted to the engine


@dataclass(frozen=True, kw_only=True)
class Refused:
    key: AttemptKey
    epoch: int  #: under which the refused report came
    reason: Literal["gone", "stale"]  #: no such run; overtaken


def report(
    tx: Tx, actor: Actor, agent_id: str, incarnation: str, reports: Sequence[Report], *, now: datetime
) -> list[Refused]:
    """Apply what is new; name the runs the agent no longer speaks for."""
    agent = require_agent(tx.conn, actor, agent_id, incarnation)
    by_key: dict[AttemptKey, list[Report]] = {}
    for item in reports:
        by_key.setdefault(item.key, []).append(item)
    heads = runs.hold(tx.conn, {key.run_id for key in by_key})
    tries = attempts.find_many(tx.conn, by_key)
    members = attempts.replicas_of_many(tx.conn, by_key)
    refused: list[Refused] = []
    entries: list[Entry] = []
    new: list[tuple[AttemptKey, Replica]] = []
    known: list[tuple[AttemptKey, Replica]] = []
    changes: dict[AttemptKey, Mapping[str, Any]] = {}
    for key, items in by_key.items():
        head, attempt = heads.get(key.run_id), tries.get(key)
        if head is None or attempt is None or head.entity != agent.entity:
            refused += _refuse(items, "gone")
            continue
        if attempt.agent_id != agent.id or head.attempt != key.attempt:
            refused += _refuse(items, "stale")
            continue
        refused += _refuse([item for item in items if item.epoch != attempt.epoch], "stale")
        fresh = [item for item in items if item.epoch == attempt.epoch and item.seq > attempt.report_seq]
        if not fresh or attempt.end is not None:
            continue
        entry = Entry(head, now, agent.name)
        before = members.get(key, {})
        changes[key], after = _apply(tx, entry, attempt, before, fresh)
        for rank, replica in after.items():
            if rank not in before:
                new.append((key, replica))
            elif replica is not before[rank]:
                known.append((key, replica))
        entries.append(entry)
    attempts.save_replicas(tx.conn, new, known)
    attempts.change(tx.conn, changes)
    write(tx, entries)
    return refused


def _refuse(items: Sequence[Report], reason: Literal["gone", "stale"]) -> list[Refused]:
    """One refusal for each epoch under which these came."""
    named = dict.fromkeys((item.key, item.epoch) for item in items)
    return [Refused(key=key, epoch=epoch, reason=reason) for key, epoch in named]


def end_attempt_unseen(tx: Tx, entry: Entry, reason: str) -> None:
    """End the attempt of a run nobody can speak for any more."""
    key = AttemptKey(run_id=entry.head.id, attempt=entry.head.attempt)
    attempt = attempts.find_many(tx.conn, [key])[key]
    end = AttemptEnd.STOPPED if entry.head.stop_requested_at else AttemptEnd.LOST
    state = RunState.STOPPED if entry.head.stop_requested_at else RunState.QUEUED
    judgement = Judgement(state=state, end=end, reason=reason)
    attempts.change(tx.conn, {key: _end(tx, entry, attempt, judgement)})


def _apply(
    tx: Tx, entry: Entry, attempt: Attempt, before: Mapping[int, Replica], fresh: Sequence[Report]
) -> tuple[dict[str, Any], Mapping[int, Replica]]:
    """What changes of the attempt, and its members as they are now."""
    view = attempt.view(entry.head.nodes, before)
    changes: dict[str, Any] = {"report_seq": max(item.seq for item in fresh)}
    for item in fresh:
        if item.manifest is not None:
            changes["manifest"] = item.manifest
        if item.fact is not None and not _of_no_member(item.fact, entry.head.nodes):
            _note_fact(entry, view, item.fact)
            view = merge(view, item.fact)
    changes |= {"phase": view.phase.value if view.phase else None}
    changes |= {"end_seen": view.end} if view.end else {}
    changes |= {"failure": view.failure} if view.failure else {}
    judgement = judge(view, stop_requested=entry.head.stop_requested_at is not None)
    started = _first_start(view)
    if started and entry.head.started_at is None:
        entry.set(started_at=started)
    if started and attempt.started_at is None:
        changes["started_at"] = started
    if judgement.end is not None:
        changes |= _end(tx, entry, replace(attempt, failure=view.failure), judgement)
    elif judgement.state is not entry.head.state and may_move(entry.head.state, judgement.state):
        entry.move(judgement.state, reason=_phase_detail(fresh))
    return changes, view.replicas


def _of_no_member(fact: Fact, nodes: int) -> bool:
    """Word of a replica that the run does not have."""
    return isinstance(fact, ReplicaSeen) and fact.replica.rank >= nodes


def _note_fact(entry: Entry, view: AttemptView, fact: Fact) -> None:
    match fact:
        case Noted(message=message, level=level):
            entry.note(EventType.NOTE, {"level": level, "message": message})
        case ReplicaSeen(replica=seen) if merge(view, fact) is not view and _worth_telling(view, seen):
            data = {"rank": seen.rank, "state": seen.state.value, "node": seen.node, "reason": seen.reason}
            ending = {"exit_code": seen.exit_code, "signal": seen.signal, "restarts": seen.restarts or None}
            data |= {name: value for name, value in ending.items() if value is not None}
            entry.note(EventType.REPLICA, data)
        case _:
            pass


def _worth_telling(view: AttemptView, seen: Replica) -> bool:
    """A lone member's way is the run's own; it needs no events beside the run's, unless it fails."""
    return view.members > 1 or seen.state in _TOLD


_TOLD = (ReplicaState.FAILED, ReplicaState.LOST, ReplicaState.PREEMPTED)


def _phase_detail(fresh: Sequence[Report]) -> str:
    details = [item.fact.detail for item in fresh if isinstance(item.fact, PhaseSeen) and item.fact.detail]
    return details[-1] if details else ""


def _first_start(view: AttemptView) -> datetime | None:
    return min((r.started_at for r in view.replicas.values() if r.started_at), default=None)


def _end(tx: Tx, entry: Entry, attempt: Attempt, judgement: Judgement) -> dict[str, Any]:
    """End the attempt; end the run too, or send it back to its queue. Returns the attempt's changes."""
    if judgement.end is None:
        raise ValueError("the attempt has not ended")
    head, end = entry.head, judgement.end
    if head.agent_id:
        tx.tell(agent_topic(head.agent_id))
    failure = _failure(attempt.failure, judgement) if end is not AttemptEnd.SUCCEEDED else None
    reason = judgement.reason or (failure.summary if failure else "")
    entry.note(EventType.ATTEMPT, {"end": end.value, "reason": reason})
    if _again(tx, head, end):
        entry.set(agent_id=None, locality=None, lease_expires_at=None)
        entry.move(RunState.QUEUED, reason=f"Attempt {head.attempt} ended: {reason or end.value}")
        tx.tell(queue_topic(head.queue_id))
    else:
        state = {AttemptEnd.SUCCEEDED: RunState.SUCCEEDED, AttemptEnd.STOPPED: RunState.STOPPED}
        entry.set(lease_expires_at=None, ended_at=entry.at)
        if end is not AttemptEnd.STOPPED:
            entry.set(failure=failure)
        entry.move(state.get(end, RunState.FAILED), reason=reason)
    return {"end": end.value, "reason": reason, "ended_at": entry.at, "failure": failure}


def _again(tx: Tx, head: RunHead, end: AttemptEnd) -> bool:
    if end in (AttemptEnd.SUCCEEDED, AttemptEnd.STOPPED) or head.stop_requested_at is not None:
        return False
    run = runs.find(tx.conn, head.id)
    return run is not None and run.spec.retry.again_after(end, head.attempt)


def _failure(seen: Failure | None, judgement: Judgement) -> Failure | None:
    if judgement.end is AttemptEnd.STOPPED:
        return None
    seen = seen or named(judgement.reason)
    if seen is not None:
        return seen
    kinds = {AttemptEnd.LOST: "lost", AttemptEnd.PREEMPTED: "preempted"}
    kind = kinds.get(judgement.end, "could_not_start") if judgement.end else "unknown"
    summary = judgement.reason or "It ended without a word about why."
    return Failure(kind=kind, summary=summary, advice=advice_for(kind))
