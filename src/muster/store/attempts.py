"""Attempts and their replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from muster.domain.observation import AttemptKey, EndSeen, Failure, Phase, Replica
from muster.domain.run import AttemptEnd
from muster.domain.verdict import AttemptView
from muster.store.bulk import add_many, change_many
from muster.store.codec import (
    end_from_data,
    end_to_data,
    failure_from_data,
    failure_to_data,
    replica_from_data,
    replica_to_data,
)
from muster.store.schema import AnyRow, attempts, replicas


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of a run."""

    run_id: str
    attempt: int
    epoch: int
    agent_id: str
    agent_name: str
    host: str
    report_seq: int
    phase: Phase | None
    end: AttemptEnd | None
    reason: str
    end_seen: EndSeen | None
    failure: Failure | None
    manifest: Mapping[str, Any] | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    def view(self, members: int, seen: Mapping[int, Replica]) -> AttemptView:
        return AttemptView(
            members=members, phase=self.phase, replicas=seen, end=self.end_seen, failure=self.failure
        )


def add(conn: Connection, items: Sequence[Mapping[str, Any]]) -> None:
    add_many(conn, attempts, [{"report_seq": 0, "reason": "", **item} for item in items])


# Looked up by run, sorted out by attempt here: for `(run_id, attempt) IN (…)` SQLite reads the whole table.
_of_runs = select(attempts).where(attempts.c.run_id.in_(bindparam("run_ids", expanding=True)))
_replicas_of_runs = select(replicas).where(replicas.c.run_id.in_(bindparam("run_ids", expanding=True)))


def find_many(conn: Connection, keys: Iterable[AttemptKey]) -> dict[AttemptKey, Attempt]:
    wanted = set(keys)
    if not wanted:
        return {}
    rows = conn.execute(_of_runs, {"run_ids": [*{key.run_id for key in wanted}]})
    found = {AttemptKey(run_id=row.run_id, attempt=row.attempt): row for row in rows}
    return {key: _attempt(row) for key, row in found.items() if key in wanted}


def of_run(conn: Connection, run_id: str) -> list[Attempt]:
    rows = conn.execute(select(attempts).where(attempts.c.run_id == run_id).order_by(attempts.c.attempt))
    return [_attempt(row) for row in rows]


def change(conn: Connection, changes: Mapping[AttemptKey, Mapping[str, Any]]) -> None:
    """Attempt → columns to change."""
    change_many(conn, attempts, [(key.__dict__, _encode(values)) for key, values in changes.items()])


def _encode(values: Mapping[str, Any]) -> dict[str, Any]:
    plain = dict(values)
    if "failure" in plain:
        plain["failure"] = failure_to_data(plain["failure"])
    if "end_seen" in plain:
        plain["end_seen"] = end_to_data(plain["end_seen"])
    return plain


def replicas_of_many(conn: Connection, keys: Iterable[AttemptKey]) -> dict[AttemptKey, dict[int, Replica]]:
    wanted = set(keys)
    if not wanted:
        return {}
    found: dict[AttemptKey, dict[int, Replica]] = {}
    for row in conn.execute(_replicas_of_runs, {"run_ids": [*{key.run_id for key in wanted}]}):
        key = AttemptKey(run_id=row.run_id, attempt=row.attempt)
        if key in wanted:
            found.setdefault(key, {})[row.rank] = replica_from_data(row.data)
    return found


def replicas_of(conn: Connection, key: AttemptKey) -> list[Replica]:
    rows = conn.execute(
        select(replicas.c.data)
        .where(replicas.c.run_id == key.run_id, replicas.c.attempt == key.attempt)
        .order_by(replicas.c.rank)
    )
    return [replica_from_data(data) for data in rows.scalars()]


def save_replicas(
    conn: Connection, new: Sequence[tuple[AttemptKey, Replica]], known: Sequence[tuple[AttemptKey, Replica]]
) -> None:
    if new:
        conn.execute(
            insert(replicas),
            [
                {
                    "run_id": key.run_id,
                    "attempt": key.attempt,
                    "rank": replica.rank,
                    "state": replica.state.value,
                    "data": replica_to_data(replica),
                }
                for key, replica in new
            ],
        )
    if known:
        change_many(
            conn,
            replicas,
            [
                (
                    {**key.__dict__, "rank": replica.rank},
                    {"state": replica.state.value, "data": replica_to_data(replica)},
                )
                for key, replica in known
            ],
        )


def _attempt(row: AnyRow) -> Attempt:
    return Attempt(
        run_id=row.run_id,
        attempt=row.attempt,
        epoch=row.epoch,
        agent_id=row.agent_id,
        agent_name=row.agent_name,
        host=row.host,
        report_seq=row.report_seq,
        phase=Phase(row.phase) if row.phase else None,
        end=AttemptEnd(row.end) if row.end else None,
        reason=row.reason,
        end_seen=end_from_data(row.end_seen),
        failure=failure_from_data(row.failure),
        manifest=row.manifest,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
