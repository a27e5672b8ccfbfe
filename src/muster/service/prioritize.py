"""Changing the place of a run that waits: its priority, or its place beside another run.

The place is one number, the rank (`muster.domain.run.queue_rank`). Between users, fair share goes before it
(`muster.domain.share`): there a run that was moved comes up among the runs of its own user.
"""

from __future__ import annotations

from datetime import datetime

from muster.domain.access import Action, Actor
from muster.domain.errors import BadInput, Conflict, NotFound
from muster.domain.run import EventType, Priority, Run, RunState, queue_rank
from muster.service.bus import queue_topic
from muster.service.journal import Entry, write
from muster.service.stop import find_run
from muster.store import queues, runs, shares
from muster.store.database import Tx

_GAP = 1000  #: between ranks where there was no room; in microseconds, so it makes nobody older


def set_priority(tx: Tx, actor: Actor, run_id: str, priority: Priority, *, now: datetime) -> Run:
    """As if it had been launched with this priority."""
    run = _waiting(tx, actor, run_id, Action.LAUNCH)
    queue = queues.find_by_id(tx.conn, run.head.queue_id)
    if queue is not None and not queue.policy.priorities and not actor.may(Action.MANAGE, run.entity):
        raise BadInput(
            f"Queue {queue.name!r} has its priorities turned off.",
            hint=f"Ask an admin of {run.entity!r} to move the run.",
            facts={"queue": queue.name, "priority": priority.value},
        )
    rank = queue_rank(run.created_at, priority)
    message = f"Priority changed from {run.priority} to {priority}."
    return _place(tx, actor, run, rank=rank, priority=priority, message=message, now=now)


def move(tx: Tx, actor: Actor, run_id: str, *, beside: str, behind: bool, now: datetime) -> Run:
    """To the place right before another run that waits in the queue (or right `behind` it), with that
    run's priority."""
    known = runs.find(tx.conn, run_id)
    if known is not None:
        tx.alone(f"line of {known.head.queue_id}")  # before any row is held: others may have to move, too
    runs.hold(tx.conn, [run_id, beside])
    run = _waiting(tx, actor, run_id, Action.MANAGE)
    other = _waiting(tx, actor, beside, Action.MANAGE)
    if other.head.queue_id != run.head.queue_id or other.id == run.id:
        raise BadInput(
            f"Run {run_id} cannot be moved beside {beside}.",
            hint=f"Name another run that waits in queue {run.queue!r}.",
        )
    side = "behind" if behind else "before"
    return _place(
        tx,
        actor,
        run,
        rank=_room(tx, run, other, behind=behind),
        priority=other.priority,
        message=f"Moved {side} {other.name} ({other.id}).",
        now=now,
    )


def _room(tx: Tx, run: Run, other: Run, *, behind: bool) -> int:
    """A rank between the other run and its neighbour on that side; made, where there is none."""
    neighbour = runs.beside(tx.conn, other, below=behind, but=run.id)
    if neighbour is None:
        return other.rank + (_GAP if behind else -_GAP)
    low, high = sorted((other.rank, neighbour))
    if high - low > 1:
        return (low + high) // 2
    # Runs that were launched together have the same rank. All that come before the gap move up a little.
    users = runs.move_up(tx.conn, other, including=behind, by=2 * _GAP)
    shares.refresh(tx.conn, run.head.queue_id, users)
    return high - _GAP


def _waiting(tx: Tx, actor: Actor, run_id: str, action: Action) -> Run:
    """The run, to be moved by who may do that."""
    run = find_run(tx, actor, run_id)
    actor.require(action, run.entity)
    if run.state is not RunState.QUEUED:
        raise Conflict(
            f"Run {run_id} is {run.state}: it no longer waits.", hint="Only a run that waits has a place."
        )
    return run


def _place(
    tx: Tx, actor: Actor, run: Run, *, rank: int, priority: Priority, message: str, now: datetime
) -> Run:
    if (rank, priority) != (run.rank, run.priority):
        entry = Entry(run.head, now, actor.name)
        entry.note(EventType.NOTE, {"level": "info", "message": message})
        entry.set(rank=rank, priority=priority.value)
        write(tx, [entry])
        shares.refresh(tx.conn, run.head.queue_id, [run.author])
        tx.tell(queue_topic(run.head.queue_id))
    placed = runs.find(tx.conn, run.id)
    if placed is None:
        raise NotFound("run", run.id)
    return placed
