"""Events: append, page, follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from muster.domain.run import Event, EventType
from muster.store.database import Tx
from muster.store.schema import AnyRow, events, runs


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    run_id: str
    seq: int
    attempt: int
    type: EventType
    at: datetime
    actor: str
    data: Mapping[str, Any]


def add(tx: Tx, items: Sequence[NewEvent]) -> None:
    tx.file_events([{**item.__dict__, "type": item.type.value} for item in items])


def of_run(conn: Connection, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
    rows = conn.execute(
        select(events)
        .where(events.c.run_id == run_id, events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )
    return [_event(row) for row in rows]


def since(conn: Connection, after: int, *, limit: int) -> list[tuple[str, Event]]:
    """Events of all runs after a cursor, oldest first, each with its run's entity."""
    rows = conn.execute(
        select(events, runs.c.entity)
        .join_from(events, runs, events.c.run_id == runs.c.id)
        .where(events.c.id > after)
        .order_by(events.c.id)
        .limit(limit)
    )
    return [(row.entity, _event(row)) for row in rows]


_LOOK_BACK = 5000  #: events; who said nothing of late has no last words


def last_words(conn: Connection, actor: str, entity: str, *, limit: int) -> list[tuple[str, Event]]:
    """What somebody said last about runs of an entity, newest first, each with the run's name."""
    late = select(events).order_by(events.c.id.desc()).limit(_LOOK_BACK).subquery()
    rows = conn.execute(
        select(late, runs.c.name)
        .join_from(late, runs, late.c.run_id == runs.c.id)
        .where(late.c.actor == actor, runs.c.entity == entity)
        .order_by(late.c.id.desc())
        .limit(limit)
    )
    return [(row.name, _event(row)) for row in rows]


def newest(conn: Connection) -> int:
    return conn.execute(select(func.max(events.c.id))).scalar() or 0


def _event(row: AnyRow) -> Event:
    return Event(
        id=row.id,
        run_id=row.run_id,
        seq=row.seq,
        attempt=row.attempt,
        type=EventType(row.type),
        at=row.at,
        actor=row.actor,
        data=row.data,
    )
