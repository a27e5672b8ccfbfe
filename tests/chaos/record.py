"""What the store says after a drill: every run, its attempts and its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.pool import NullPool

from muster.domain.run import TERMINAL, AttemptEnd, EventType, RunState
from muster.store.schema import attempts, events, replicas, runs


@dataclass(frozen=True, kw_only=True)
class Event:
    seq: int
    attempt: int
    type: EventType
    at: float  #: Unix seconds
    actor: str
    data: Mapping[str, Any]


@dataclass(kw_only=True)
class Record:
    """One run."""

    id: str
    state: RunState
    attempt: int
    ends: dict[int, AttemptEnd | None] = field(default_factory=dict)  #: attempt → how it ended
    log_bytes: dict[tuple[int, int], int] = field(default_factory=dict)  #: attempt, rank → as reported
    events: list[Event] = field(default_factory=list)


@cache
def _engine(database_url: str) -> Engine:
    return create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)


def unfinished(database_url: str) -> int:
    """How many runs have not ended."""
    with _engine(database_url).connect() as conn:
        ended = [state.value for state in TERMINAL]
        return conn.execute(select(func.count()).where(runs.c.state.not_in(ended))).scalar_one()


def read(database_url: str) -> dict[str, Record]:
    found: dict[str, Record] = {}
    with _engine(database_url).connect() as conn:
        for run in conn.execute(select(runs.c.id, runs.c.state, runs.c.attempt)):
            found[run.id] = Record(id=run.id, state=RunState(run.state), attempt=run.attempt)
        for row in conn.execute(select(attempts.c.run_id, attempts.c.attempt, attempts.c.end)):
            found[row.run_id].ends[row.attempt] = AttemptEnd(row.end) if row.end else None
        for row in conn.execute(select(replicas)):
            found[row.run_id].log_bytes[row.attempt, row.rank] = row.data.get("log_bytes") or 0
        for row in conn.execute(select(events).order_by(events.c.run_id, events.c.seq)):
            found[row.run_id].events.append(
                Event(
                    seq=row.seq,
                    attempt=row.attempt,
                    type=EventType(row.type),
                    at=row.at.timestamp(),
                    actor=row.actor,
                    data=row.data,
                )
            )
    return found
