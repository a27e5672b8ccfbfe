"""Agents: who they are, what they serve, when they were last heard of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, null, select, update

from muster.domain.agent import Agent
from muster.domain.resources import Resources
from muster.store.bulk import change_many
from muster.store.schema import AnyRow, agent_queues, agents, queues


def save(conn: Connection, agent: Agent, queue_ids: Sequence[str]) -> None:
    """Register an agent, in place of the one of that name if there was one."""
    values = {
        "entity": agent.entity,
        "name": agent.name,
        "incarnation": agent.incarnation,
        "engine": agent.engine,
        "host": agent.host,
        "locality": agent.locality,
        "version": agent.version,
        "max_jobs": agent.max_jobs,
        "inventory": {
            "total": dict(agent.total.__dict__),
            "devices": [dict(device) for device in agent.devices],
        },
        "free": dict(agent.free.__dict__) if agent.free else None,
        "registered_at": agent.registered_at,
        "seen_at": agent.seen_at,
        "left_at": agent.left_at,
    }
    changed = conn.execute(update(agents).where(agents.c.id == agent.id).values(**values)).rowcount
    if not changed:
        conn.execute(insert(agents).values(id=agent.id, **values))
    conn.execute(delete(agent_queues).where(agent_queues.c.agent_id == agent.id))
    conn.execute(insert(agent_queues), [{"agent_id": agent.id, "queue_id": qid} for qid in queue_ids])


_by_id = select(agents).where(agents.c.id == bindparam("id"))
_by_id_locked = _by_id.with_for_update(key_share=True)


def find(conn: Connection, agent_id: str) -> Agent | None:
    row = conn.execute(_by_id, {"id": agent_id}).one_or_none()
    return _agent(row) if row else None


def hold(conn: Connection, agent_id: str) -> Agent | None:
    """`find`, to be changed in this transaction: nothing else is done for this agent meanwhile."""
    row = conn.execute(_by_id_locked, {"id": agent_id}).one_or_none()
    return _agent(row) if row else None


_serving = (
    select(func.aggregate_strings(queues.c.id, ","))
    .join_from(agent_queues, queues, agent_queues.c.queue_id == queues.c.id)
    .where(agent_queues.c.agent_id == agents.c.id, queues.c.paused_at.is_(null()))
    .scalar_subquery()
)
_by_id_serving = (
    select(agents, _serving.label("serving"))
    .where(agents.c.id == bindparam("id"))
    .with_for_update(key_share=True)
)


def hold_serving(conn: Connection, agent_id: str) -> tuple[Agent | None, list[str]]:
    """`hold`, with the ids of its queues that are not paused."""
    row = conn.execute(_by_id_serving, {"id": agent_id}).one_or_none()
    if row is None:
        return None, []
    return _agent(row), row.serving.split(",") if row.serving else []


def find_by_name(conn: Connection, entity: str, name: str) -> Agent | None:
    row = conn.execute(select(agents).where(agents.c.entity == entity, agents.c.name == name)).one_or_none()
    return _agent(row) if row else None


def of_entities(conn: Connection, entities: Sequence[str] | None) -> list[Agent]:
    query = select(agents).order_by(agents.c.entity, agents.c.name)
    if entities is not None:
        query = query.where(agents.c.entity.in_(entities))
    return [_agent(row) for row in conn.execute(query)]


def of_queue(conn: Connection, queue_id: str) -> list[Agent]:
    rows = conn.execute(
        select(agents)
        .join(agent_queues, agent_queues.c.agent_id == agents.c.id)
        .where(agent_queues.c.queue_id == queue_id)
        .order_by(agents.c.name)
    )
    return [_agent(row) for row in rows]


def queue_ids(conn: Connection, agent_id: str) -> list[str]:
    rows = conn.execute(select(agent_queues.c.queue_id).where(agent_queues.c.agent_id == agent_id))
    return list(rows.scalars())


def touch(conn: Connection, agent_id: str, *, at: datetime, free: Resources | None) -> None:
    values: dict[str, Any] = {"seen_at": at}
    if free is not None:
        values["free"] = dict(free.__dict__)
    change_many(conn, agents, [({"id": agent_id}, values)])


def shift_seen(conn: Connection, *, by: timedelta) -> None:
    """Move the moment at which each agent was last heard of."""
    for row in conn.execute(select(agents.c.id, agents.c.seen_at)).all():
        touch(conn, row.id, at=row.seen_at + by, free=None)


def leave(conn: Connection, agent_id: str, *, at: datetime) -> None:
    conn.execute(update(agents).where(agents.c.id == agent_id).values(left_at=at))


def remove(conn: Connection, agent_id: str) -> None:
    conn.execute(delete(agents).where(agents.c.id == agent_id))


def _agent(row: AnyRow) -> Agent:
    inventory: Mapping[str, Any] = row.inventory
    return Agent(
        id=row.id,
        entity=row.entity,
        name=row.name,
        incarnation=row.incarnation,
        engine=row.engine,
        host=row.host,
        locality=row.locality,
        version=row.version,
        max_jobs=row.max_jobs,
        total=Resources(**inventory["total"]),
        devices=tuple(inventory["devices"]),
        free=Resources(**row.free) if row.free else None,
        registered_at=row.registered_at,
        seen_at=row.seen_at,
        left_at=row.left_at,
    )
