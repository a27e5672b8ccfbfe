"""Agents: who they are, what they serve, when they were last heard of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, insert, null, select, update

from muster.domain.agent import Agent
from muster.domain.policy import Limit, Policy
from muster.domain.resources import Resources
from muster.store.bulk import change_many
from muster.store.schema import AnyRow, agent_queues, agents, entities, queue_versions, queues, runs


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


@dataclass(frozen=True, kw_only=True)
class Served:
    """A queue that an agent takes runs from, as far as handing them out goes."""

    id: str
    entity: str
    policy: Policy
    entity_limit: Limit

    @property
    def limited(self) -> bool:
        return bool(self.policy.limits or self.entity_limit)


@dataclass(frozen=True, kw_only=True)
class Serving:
    """An agent that asks for work."""

    agent: Agent
    queues: list[Served]  #: that are not paused
    orphans: bool  #: are there live runs of its place that no agent speaks for?


_open_queues = (
    select(
        agent_queues.c.agent_id,
        queues.c.id,
        queues.c.entity,
        queue_versions.c.policy,
        entities.c.limits,
    )
    .join_from(agent_queues, queues, agent_queues.c.queue_id == queues.c.id)
    .join(
        queue_versions,
        and_(queue_versions.c.queue_id == queues.c.id, queue_versions.c.version == queues.c.version),
    )
    .join(entities, entities.c.name == queues.c.entity)
    .where(queues.c.paused_at.is_(null()))
    .subquery()
)
_orphans = (
    exists()
    .where(runs.c.agent_id.is_(null()), runs.c.lease_expires_at.is_not(null()))
    .where(runs.c.locality == agents.c.locality)
)
_with_queues = (
    select(
        agents,
        _orphans.label("orphans"),
        _open_queues.c.id.label("queue_id"),
        _open_queues.c.entity.label("queue_entity"),
        _open_queues.c.policy,
        _open_queues.c.limits,
    )
    .join_from(agents, _open_queues, _open_queues.c.agent_id == agents.c.id, isouter=True)
    .where(agents.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(agents.c.id)
    .with_for_update(key_share=True, of=agents)
)


def hold_serving(conn: Connection, agent_ids: Sequence[str]) -> dict[str, Serving]:
    """These agents, each with its queues: nothing else is done for them meanwhile."""
    found: dict[str, Serving] = {}
    for row in conn.execute(_with_queues, {"ids": list(agent_ids)}).all():
        if row.id not in found:
            found[row.id] = Serving(agent=_agent(row), queues=[], orphans=bool(row.orphans))
        if row.queue_id is not None:
            found[row.id].queues.append(_served(row))
    return found


def _served(row: AnyRow) -> Served:
    return Served(
        id=row.queue_id,
        entity=row.queue_entity,
        policy=Policy.parse(row.policy or {}),
        entity_limit=Limit.parse(row.limits or {}, where="limits"),
    )


def find_by_name(conn: Connection, entity: str, name: str) -> Agent | None:
    row = conn.execute(select(agents).where(agents.c.entity == entity, agents.c.name == name)).one_or_none()
    return _agent(row) if row else None


def of_entities(conn: Connection, entities: Sequence[str] | None) -> list[Agent]:
    query = select(agents).order_by(agents.c.entity, agents.c.name)
    if entities is not None:
        query = query.where(agents.c.entity.in_(entities))
    return [_agent(row) for row in conn.execute(query)]


_of_queue = (
    select(agents)
    .join(agent_queues, agent_queues.c.agent_id == agents.c.id)
    .where(agent_queues.c.queue_id == bindparam("queue_id"))
    .order_by(agents.c.name)
)


def of_queue(conn: Connection, queue_id: str) -> list[Agent]:
    return [_agent(row) for row in conn.execute(_of_queue, {"queue_id": queue_id})]


def queue_ids(conn: Connection, agent_id: str) -> list[str]:
    rows = conn.execute(select(agent_queues.c.queue_id).where(agent_queues.c.agent_id == agent_id))
    return list(rows.scalars())


def touch(conn: Connection, seen: Mapping[str, tuple[datetime, Resources]]) -> None:
    """Agent → when it was heard of, and what it had free then."""
    change_many(
        conn,
        agents,
        [
            ({"id": agent_id}, {"seen_at": at, "free": dict(free.__dict__)})
            for agent_id, (at, free) in seen.items()
        ],
    )


def shift_seen(conn: Connection, *, by: timedelta) -> None:
    """Move the moment at which each agent was last heard of."""
    rows = conn.execute(select(agents.c.id, agents.c.seen_at)).all()
    change_many(conn, agents, [({"id": row.id}, {"seen_at": row.seen_at + by}) for row in rows])


def leave(conn: Connection, agent_id: str, *, at: datetime) -> None:
    conn.execute(update(agents).where(agents.c.id == agent_id).values(left_at=at))


def set_paused(conn: Connection, agent_id: str, *, at: datetime | None) -> None:
    """It stays so when the agent is started again: registering does not touch it."""
    conn.execute(update(agents).where(agents.c.id == agent_id).values(paused_at=at))


def fell_silent(conn: Connection, *, after: datetime, before: datetime) -> bool:
    """Was an agent last heard of in this span, without a good-bye?"""
    silent = exists().where(
        agents.c.seen_at > after, agents.c.seen_at <= before, agents.c.left_at.is_(null())
    )
    return bool(conn.execute(select(silent)).scalar())


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
        paused_at=row.paused_at,
    )
