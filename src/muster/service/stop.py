"""Stopping and deleting runs."""

from __future__ import annotations

from datetime import datetime

from muster.domain.access import Action, Actor, KeyKind
from muster.domain.errors import Conflict, NotFound
from muster.domain.run import EventType, Run, RunHead, RunState, may_move
from muster.service.bus import GONE, agent_topic
from muster.service.journal import Entry, write
from muster.store import records, runs
from muster.store.database import Tx


def find_run(tx: Tx, actor: Actor, run_id: str) -> Run:
    """The run, to be changed in this transaction."""
    runs.hold(tx.conn, [run_id])
    run = runs.find(tx.conn, run_id)
    if run is None or not actor.may_see(run.entity, run.id):
        raise NotFound("run", run_id)
    return run


def stop(tx: Tx, actor: Actor, run_id: str, *, now: datetime) -> Run:
    """Ask the run to end. A waiting one ends at once; asking twice is asking once."""
    run = find_run(tx, actor, run_id)
    if actor.run_id != run.id:
        action = Action.SERVE if actor.kind is KeyKind.AGENT else Action.LAUNCH
        actor.require(action, run.entity)
    entry = asked_to_stop(run.head, actor, now=now)
    if entry is None:
        return run
    write(tx, [entry])
    if run.head.agent_id:
        tx.tell(agent_topic(run.head.agent_id))
    stopped = runs.find(tx.conn, run_id)
    if stopped is None:
        raise NotFound("run", run_id)
    return stopped


def asked_to_stop(head: RunHead, actor: Actor, *, now: datetime) -> Entry | None:
    """What to write down; None: it has ended, or was asked before."""
    if head.state.terminal or head.stop_requested_at is not None:
        return None
    entry = Entry(head, now, actor.name)
    entry.note(EventType.STOP, {"by": actor.name})
    entry.set(stop_requested_at=now, stop_requested_by=actor.name)
    if head.state is RunState.QUEUED:
        entry.set(ended_at=now)
        entry.move(RunState.STOPPED, reason=f"Stopped by {actor.name} before it started.")
    elif may_move(head.state, RunState.STOPPING):
        entry.move(RunState.STOPPING, reason=f"Stopped by {actor.name}.")
    return entry


def delete(tx: Tx, actor: Actor, run_id: str, *, now: datetime) -> None:
    """Remove a run that has ended, with its events. Its files are the caller's to remove."""
    run = find_run(tx, actor, run_id)
    actor.require(Action.LAUNCH, run.entity)
    if not run.state.terminal:
        raise Conflict(
            f"Run {run_id} is {run.state}; only a run that has ended can be deleted.",
            hint=f"Stop it first: muster run stop {run_id}",
        )
    runs.remove(tx.conn, run_id)
    records.add_run_deletion(tx.conn, at=now, actor=actor.name, entity=run.entity, run_id=run_id)
    tx.tell(GONE)
