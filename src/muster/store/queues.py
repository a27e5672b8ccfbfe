"""Queues and their versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, insert, select, update

from muster.domain.policy import Policy
from muster.domain.queue import Queue, QueueVersion
from muster.store.schema import AnyRow, agent_queues, queue_versions, queues, runs

_newest = select(
    queues, queue_versions.c.config, queue_versions.c.variables, queue_versions.c.policy
).join_from(
    queues,
    queue_versions,
    and_(queue_versions.c.queue_id == queues.c.id, queue_versions.c.version == queues.c.version),
)


def add(conn: Connection, queue: Queue) -> None:
    conn.execute(
        insert(queues).values(
            id=queue.id,
            entity=queue.entity,
            name=queue.name,
            engine=queue.engine,
            version=queue.version,
            follows_inventory=queue.follows_inventory,
            created_at=queue.created_at,
            created_by=queue.created_by,
        )
    )
    _add_version(conn, queue, at=queue.created_at, by=queue.created_by)


def add_version(conn: Connection, queue: Queue, *, at: datetime, by: str) -> None:
    """Keep the queue's changed config as its newest version."""
    _add_version(conn, queue, at=at, by=by)
    conn.execute(
        update(queues)
        .where(queues.c.id == queue.id)
        .values(version=queue.version, follows_inventory=queue.follows_inventory)
    )


def _add_version(conn: Connection, queue: Queue, *, at: datetime, by: str) -> None:
    conn.execute(
        insert(queue_versions).values(
            queue_id=queue.id,
            version=queue.version,
            config=queue.config,
            variables=queue.variables,
            policy=queue.policy.to_data() or None,
            created_at=at,
            created_by=by,
        )
    )


_named = _newest.where(queues.c.entity == bindparam("of"), queues.c.name == bindparam("called"))


def find(conn: Connection, entity: str, name: str) -> Queue | None:
    row = conn.execute(_named, {"of": entity, "called": name}).one_or_none()
    return _queue(row) if row else None


def find_by_id(conn: Connection, queue_id: str) -> Queue | None:
    row = conn.execute(_newest.where(queues.c.id == queue_id)).one_or_none()
    return _queue(row) if row else None


def of_entities(conn: Connection, entities: Sequence[str] | None) -> list[Queue]:
    query = _newest.order_by(queues.c.entity, queues.c.name)
    if entities is not None:
        query = query.where(queues.c.entity.in_(entities))
    return [_queue(row) for row in conn.execute(query)]


def of_agent(conn: Connection, agent_id: str) -> list[Queue]:
    query = _newest.join(agent_queues, agent_queues.c.queue_id == queues.c.id)
    rows = conn.execute(query.where(agent_queues.c.agent_id == agent_id).order_by(queues.c.created_at))
    return [_queue(row) for row in rows]


def versions(
    conn: Connection, queue_id: str, *, before: int | None = None, limit: int = 100
) -> list[QueueVersion]:
    """The versions of a queue, the newest first."""
    query = select(queue_versions).where(queue_versions.c.queue_id == queue_id)
    if before is not None:
        query = query.where(queue_versions.c.version < before)
    rows = conn.execute(query.order_by(queue_versions.c.version.desc()).limit(limit))
    return [_version(row) for row in rows]


def find_version(conn: Connection, queue_id: str, version: int) -> QueueVersion | None:
    row = conn.execute(
        select(queue_versions).where(
            queue_versions.c.queue_id == queue_id, queue_versions.c.version == version
        )
    ).one_or_none()
    return _version(row) if row else None


def set_standing(
    conn: Connection, queue_id: str, *, paused_at: datetime | None, draining_at: datetime | None
) -> None:
    values = {"paused_at": paused_at, "draining_at": draining_at}
    conn.execute(update(queues).where(queues.c.id == queue_id).values(**values))


def has_runs(conn: Connection, queue_id: str) -> bool:
    return bool(conn.execute(select(exists().where(runs.c.queue_id == queue_id))).scalar())


def remove(conn: Connection, queue_id: str) -> None:
    conn.execute(delete(queues).where(queues.c.id == queue_id))


def _queue(row: AnyRow) -> Queue:
    variables: Mapping[str, Any] = row.variables
    return Queue(
        id=row.id,
        entity=row.entity,
        name=row.name,
        engine=row.engine,
        version=row.version,
        config=row.config,
        variables=variables,
        follows_inventory=row.follows_inventory,
        policy=Policy.parse(row.policy or {}),
        paused_at=row.paused_at,
        draining_at=row.draining_at,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def _version(row: AnyRow) -> QueueVersion:
    return QueueVersion(
        version=row.version,
        config=row.config,
        variables=row.variables,
        policy=Policy.parse(row.policy or {}),
        created_at=row.created_at,
        created_by=row.created_by,
    )
