"""The small tables beside the model: server settings, answers to repeat, audit, snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from muster.store.schema import audit, idempotency, meta, snapshots


def setting(conn: Connection, key: str) -> str | None:
    value: str | None = conn.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
    return value


def set_setting(conn: Connection, key: str, value: str) -> None:
    if conn.execute(update(meta).where(meta.c.key == key).values(value=value)).rowcount == 0:
        conn.execute(insert(meta).values(key=key, value=value))


@dataclass(frozen=True, kw_only=True)
class KeptAnswer:
    """What was answered to a request that carried an idempotency key."""

    fingerprint: str
    answer: Any


_under_key = (idempotency.c.actor == bindparam("of"), idempotency.c.key == bindparam("under"))
_kept = select(idempotency.c.fingerprint, idempotency.c.answer).where(
    *_under_key, idempotency.c.created_at >= bindparam("since")
)
_drop_kept = delete(idempotency).where(*_under_key, idempotency.c.created_at < bindparam("since"))
_keep = insert(idempotency)


def kept_answer(conn: Connection, actor: str, key: str, *, since: datetime) -> KeptAnswer | None:
    row = conn.execute(_kept, {"of": actor, "under": key, "since": since}).one_or_none()
    return KeptAnswer(fingerprint=row.fingerprint, answer=row.answer) if row else None


def keep_answer(
    conn: Connection, actor: str, key: str, kept: KeptAnswer, *, at: datetime, since: datetime
) -> None:
    """In place of an answer from before `since`. (A newer one is another server's, and collides.)"""
    conn.execute(_drop_kept, {"of": actor, "under": key, "since": since})
    conn.execute(_keep, {"actor": actor, "key": key, "created_at": at, **kept.__dict__})


def drop_answers(conn: Connection, *, before: datetime) -> None:
    conn.execute(delete(idempotency).where(idempotency.c.created_at < before))


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    id: int
    at: datetime
    actor: str
    action: str
    entity: str
    target: str
    data: Mapping[str, Any]


def add_audit(
    conn: Connection,
    *,
    at: datetime,
    actor: str,
    action: str,
    entity: str,
    target: str,
    data: Mapping[str, Any] | None = None,
) -> None:
    conn.execute(
        insert(audit).values(
            at=at, actor=actor, action=action, entity=entity, target=target, data=dict(data or {})
        )
    )


def list_audit(
    conn: Connection, entities: Sequence[str] | None, *, before: int | None, limit: int
) -> list[AuditRecord]:
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if entities is not None:
        query = query.where(audit.c.entity.in_(entities))
    if before is not None:
        query = query.where(audit.c.id < before)
    return [AuditRecord(**row._mapping) for row in conn.execute(query)]


_DELETE_RUN = "run.delete"


def add_run_deletion(conn: Connection, *, at: datetime, actor: str, entity: str, run_id: str) -> None:
    add_audit(conn, at=at, actor=actor, action=_DELETE_RUN, entity=entity, target=run_id)


def deleted_runs(conn: Connection, run_ids: Sequence[str]) -> list[str]:
    """Those of the runs that were deleted, as the audit has it. It has no index for this: ask for few."""
    found = select(audit.c.target).where(audit.c.action == _DELETE_RUN, audit.c.target.in_(run_ids))
    return list(conn.execute(found).scalars())


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    id: str
    manifest: Mapping[str, Any]
    complete: bool


def add_snapshot(
    conn: Connection, entity: str, snapshot_id: str, manifest: Mapping[str, Any], *, size: int, at: datetime
) -> None:
    conn.execute(
        insert(snapshots).values(
            entity=entity, id=snapshot_id, manifest=manifest, bytes=size, complete=False, created_at=at
        )
    )


def find_snapshot(conn: Connection, entity: str, snapshot_id: str) -> SnapshotRecord | None:
    row = conn.execute(
        select(snapshots.c.id, snapshots.c.manifest, snapshots.c.complete).where(
            snapshots.c.entity == entity, snapshots.c.id == snapshot_id
        )
    ).one_or_none()
    return SnapshotRecord(**row._mapping) if row else None


def complete_snapshot(conn: Connection, entity: str, snapshot_id: str) -> None:
    conn.execute(
        update(snapshots)
        .where(snapshots.c.entity == entity, snapshots.c.id == snapshot_id)
        .values(complete=True)
    )
