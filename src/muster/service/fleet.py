"""Agents: registering, leaving, being listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.agent import Agent
from muster.domain.errors import BadInput, Conflict, NotFound
from muster.domain.names import RandomBytes, new_id
from muster.domain.queue import Queue
from muster.domain.resources import Resources, format_bytes, format_cpus
from muster.domain.run import EventType
from muster.service.bus import PLACES, agent_topic, locality_topic
from muster.service.journal import Entry, write
from muster.store import agents, queues, records, runs
from muster.store.database import Tx

_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class Registration:
    name: str
    incarnation: str
    engine: str
    host: str
    locality: str
    version: str
    max_jobs: int
    total: Resources
    devices: tuple[Mapping[str, Any], ...]
    queues: tuple[str, ...]
    entity: str | None = None


def register(
    tx: Tx, actor: Actor, asked: Registration, *, now: datetime, random: RandomBytes
) -> tuple[Agent, list[Queue]]:
    """Enter an agent. One of the same name is overtaken, and its runs are open to this one at once."""
    entity = asked.entity or actor.default_entity
    actor.require(Action.SERVE, entity)
    tx.alone(f"agents of {entity}")
    served = [_served_queue(tx, entity, name, asked.engine) for name in dict.fromkeys(asked.queues)]
    known = agents.find_by_name(tx.conn, entity, asked.name)
    agent = Agent(
        id=known.id if known else new_id(random),
        entity=entity,
        name=asked.name,
        incarnation=asked.incarnation,
        engine=asked.engine,
        host=asked.host,
        locality=asked.locality,
        version=asked.version,
        max_jobs=asked.max_jobs,
        total=asked.total,
        devices=asked.devices,
        free=asked.total,
        registered_at=now,
        seen_at=now,
        left_at=None,
        paused_at=known.paused_at if known else None,
    )
    if known and known.incarnation != asked.incarnation:
        _orphan_runs(tx, known, now, why="started again")
        tx.tell(agent_topic(known.id))
    agents.save(tx.conn, agent, [queue.id for queue in served])
    tx.tell(PLACES)
    if not known:
        _audit(tx, actor, "agent.register", agent, now)
    return agent, [_follow_inventory(tx, queue, now) for queue in served]


def leave(tx: Tx, actor: Actor, agent_id: str, incarnation: str, *, now: datetime) -> None:
    """An agent says good-bye; what it ran goes on and waits for the next one."""
    agent = agents.hold(tx.conn, agent_id)
    if agent is None or not actor.may(Action.SERVE, agent.entity):
        raise NotFound("agent", agent_id)
    if agent.incarnation == incarnation:
        _orphan_runs(tx, agent, now, why="left")
        agents.leave(tx.conn, agent_id, at=now)
        tx.tell(agent_topic(agent_id))
        tx.tell(PLACES)


def forget(tx: Tx, actor: Actor, name: str, entity: str | None, *, now: datetime) -> None:
    """Remove an agent that is gone for good."""
    agent = _held(tx, actor, name, entity)
    if agent.online(now):
        raise Conflict(f"Agent {name!r} is online.", hint="Stop it first; then remove it.")
    _orphan_runs(tx, agent, now, why="removed")
    agents.remove(tx.conn, agent.id)
    _audit(tx, actor, "agent.delete", agent, now)
    tx.tell(PLACES)


def set_paused(tx: Tx, actor: Actor, name: str, entity: str | None, *, paused: bool, now: datetime) -> Agent:
    """Paused: it is given no run, also after it was started again. What it has goes on."""
    agent = _held(tx, actor, name, entity)
    if (agent.paused_at is not None) is paused:
        return agent
    changed = replace(agent, paused_at=now if paused else None)
    agents.set_paused(tx.conn, agent.id, at=changed.paused_at)
    _audit(tx, actor, "agent.pause" if paused else "agent.resume", agent, now)
    tx.tell(agent_topic(agent.id))  # it may have been waiting for this
    tx.tell(PLACES)
    return changed


def find(conn: Connection, actor: Actor, name: str, entity: str | None) -> Agent:
    owner = entity or actor.default_entity
    actor.require(Action.READ, owner)
    agent = agents.find_by_name(conn, owner, name)
    if agent is None:
        raise NotFound("agent", name, known=[a.name for a in agents.of_entities(conn, [owner])])
    return agent


def _held(tx: Tx, actor: Actor, name: str, entity: str | None) -> Agent:
    """The agent, to be changed by who may."""
    owner = entity or actor.default_entity
    actor.require(Action.MANAGE, owner)
    tx.alone(f"agents of {owner}")
    return find(tx.conn, actor, name, entity)


def _audit(tx: Tx, actor: Actor, action: str, agent: Agent, now: datetime) -> None:
    records.add_audit(
        tx.conn, at=now, actor=actor.name, action=action, entity=agent.entity, target=agent.name
    )


def _served_queue(tx: Tx, entity: str, name: str, engine: str) -> Queue:
    queue = queues.find(tx.conn, entity, name)
    if queue is None:
        known: Sequence[str] = [queue.name for queue in queues.of_entities(tx.conn, [entity])]
        raise NotFound("queue", name, known=known)
    if queue.engine != engine:
        raise BadInput(
            f"Queue {name!r} is for the engine {queue.engine!r}; this agent drives {engine!r}.",
            hint="Give the agent queues of its own engine.",
        )
    return queue


def _orphan_runs(tx: Tx, agent: Agent, now: datetime, *, why: str) -> None:
    entries = []
    for head, _ in runs.hold_live(tx.conn, [agent.id]):
        entry = Entry(head, now, agent.name)
        entry.note(EventType.LEASE, {"agent": agent.name, "epoch": head.epoch, "what": why})
        entry.set(agent_id=None, lease_expires_at=now)
        entries.append(entry)
    write(tx, entries)
    if entries:
        tx.tell(locality_topic(agent.locality))


def _follow_inventory(tx: Tx, queue: Queue, now: datetime) -> Queue:
    """The maxima of a queue that follows its machines become the biggest machine's size."""
    if not queue.follows_inventory:
        return queue
    tx.alone("queues")
    queue = queues.find_by_id(tx.conn, queue.id) or queue
    totals = [agent.total for agent in agents.of_queue(tx.conn, queue.id)]
    biggest: dict[str, str | int] = {
        "cpus": format_cpus(max(total.millicpus for total in totals)),
        "memory": format_bytes(max(total.memory for total in totals) // _MEBIBYTE * _MEBIBYTE),
        "gpus": max(total.gpus for total in totals),
    }
    variables = {
        name: {**data, "maximum": _as_type(biggest[name], data["type"])} if name in biggest else data
        for name, data in queue.variables.items()
    }
    if variables == queue.variables:
        return queue
    newer = replace(queue, variables=variables, version=queue.version + 1)
    queues.add_version(tx.conn, newer, at=now, by="server")
    return newer


def _as_type(value: str | int, kind: str) -> str | float | int:
    if kind != "number":
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
