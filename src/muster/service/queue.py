"""Queues: create, change, pause, remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import AlreadyExists, Conflict, NotFound
from muster.domain.names import RandomBytes, checked_name, new_id
from muster.domain.policy import Security
from muster.domain.queue import Queue, engine_for
from muster.domain.template import bind, check_declared
from muster.domain.variables import Variable
from muster.engine.kubernetes import config as kubernetes
from muster.engine.kubernetes.restricted import check_config as check_restricted
from muster.engine.process.config import ProcessConfig
from muster.service.bus import queue_topic
from muster.store import accounts, queues, records
from muster.store.database import Tx

#: engine → reads a bound config, refusing what it cannot use
READERS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "process": ProcessConfig.parse,
    "kubernetes": kubernetes.check,
}

LOCAL_QUEUE = "local"
#: What the queue `local` of a fresh server is; its maxima follow the machine.
LOCAL_CONFIG: Mapping[str, Any] = {
    "resources": {"cpus": "{{cpus}}", "memory": "{{memory}}", "gpus": "{{gpus}}"}
}
LOCAL_VARIABLES: Mapping[str, Any] = {
    "cpus": {"type": "number", "default": 1, "minimum": 0, "description": "CPUs reserved on each node"},
    "memory": {
        "type": "quantity",
        "default": "0",
        "minimum": "0",
        "description": "memory limit of each node; 0: no limit",
    },
    "gpus": {"type": "integer", "default": 0, "minimum": 0, "description": "whole GPUs for each node"},
}


def create(
    tx: Tx,
    actor: Actor,
    *,
    name: str,
    resource: str,
    config: Mapping[str, Any],
    variables: Mapping[str, Any],
    entity: str | None,
    now: datetime,
    random: RandomBytes,
    follows_inventory: bool = False,
) -> Queue:
    tx.alone("queues")
    owner = entity or actor.default_entity
    actor.require(Action.MANAGE, owner)
    if accounts.find_entity(tx.conn, owner) is None:
        raise NotFound("entity", owner, known=actor.roles)
    checked_name(name, what="queue")
    if queues.find(tx.conn, owner, name):
        raise AlreadyExists("queue", name)
    engine = engine_for(resource)
    queue = Queue(
        id=new_id(random),
        entity=owner,
        name=name,
        engine=engine,
        version=1,
        config=config,
        variables=checked_variables(engine, config, variables),
        follows_inventory=follows_inventory,
        created_at=now,
        created_by=actor.name,
    )
    check_security(queue)
    queues.add(tx.conn, queue)
    _audit(tx, actor, "queue.create", queue, now)
    return queue


def checked_variables(engine: str, config: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions in their stored form, if they and the config fit together and the engine."""
    parsed = [Variable.parse(name, data) for name, data in variables.items()]
    check_declared(config, parsed)
    trial, _ = bind(config, parsed, {v.name: v.example() for v in parsed}, queue="")
    READERS[engine](trial if isinstance(trial, Mapping) else {})
    return {variable.name: variable.to_data() for variable in parsed}


def check_security(queue: Queue) -> None:
    """A queue that says `security: restricted` must have a template that can keep it."""
    if queue.engine != "kubernetes" or queue.policy.security is not Security.RESTRICTED:
        return
    parsed = [Variable.parse(name, data) for name, data in queue.variables.items()]
    trial, _ = bind(queue.config, parsed, {v.name: v.example() for v in parsed}, queue=queue.name)
    check_restricted(trial)


def edit(
    tx: Tx,
    actor: Actor,
    name: str,
    *,
    entity: str | None,
    config: Mapping[str, Any] | None,
    variables: Mapping[str, Any] | None,
    now: datetime,
) -> Queue:
    """A new version. Runs that wait keep the version they were launched with."""
    tx.alone("queues")
    queue = find(tx.conn, actor, name, entity)
    actor.require(Action.MANAGE, queue.entity)
    new_config = queue.config if config is None else config
    new_variables = queue.variables if variables is None else variables
    checked = checked_variables(queue.engine, new_config, new_variables)
    if new_config == queue.config and checked == queue.variables:
        return queue
    newer = replace(
        queue,
        config=new_config,
        variables=checked,
        version=queue.version + 1,
        follows_inventory=queue.follows_inventory and variables is None,  # what the owner says stands
    )
    check_security(newer)
    queues.add_version(tx.conn, newer, at=now, by=actor.name)
    _audit(tx, actor, "queue.edit", newer, now)
    return newer


def set_paused(tx: Tx, actor: Actor, name: str, *, entity: str | None, paused: bool, now: datetime) -> Queue:
    tx.alone("queues")
    queue = find(tx.conn, actor, name, entity)
    actor.require(Action.MANAGE, queue.entity)
    if (queue.paused_at is not None) == paused:
        return queue
    changed = replace(queue, paused_at=now if paused else None)
    queues.set_paused(tx.conn, queue.id, changed.paused_at)
    _audit(tx, actor, "queue.pause" if paused else "queue.resume", queue, now)
    tx.tell(queue_topic(queue.id))
    return changed


def delete(tx: Tx, actor: Actor, name: str, *, entity: str | None, now: datetime) -> None:
    tx.alone("queues")
    queue = find(tx.conn, actor, name, entity)
    actor.require(Action.MANAGE, queue.entity)
    if queues.has_runs(tx.conn, queue.id):
        raise Conflict(
            f"Queue {name!r} has runs; deleting it would lose their history.",
            hint=f"Pause it (`muster queue pause {name}`), or delete its runs first.",
        )
    queues.remove(tx.conn, queue.id)
    _audit(tx, actor, "queue.delete", queue, now)


def find(conn: Connection, actor: Actor, name: str, entity: str | None) -> Queue:
    owner = entity or actor.default_entity
    actor.require(Action.READ, owner)
    queue = queues.find(conn, owner, name)
    if queue is None:
        known = [queue.name for queue in queues.of_entities(conn, [owner])]
        raise NotFound("queue", name, known=known)
    return queue


def _audit(tx: Tx, actor: Actor, action: str, queue: Queue, now: datetime) -> None:
    records.add_audit(
        tx.conn,
        at=now,
        actor=actor.name,
        action=action,
        entity=queue.entity,
        target=queue.name,
        data={"version": queue.version},
    )
