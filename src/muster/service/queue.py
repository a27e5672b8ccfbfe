"""Queues: create, change, roll back, pause, drain, remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.document import check_tree
from muster.domain.errors import AlreadyExists, Conflict, NotFound
from muster.domain.names import RandomBytes, checked_name, new_id
from muster.domain.policy import Policy, Security
from muster.domain.queue import Queue, QueueVersion, engine_for
from muster.domain.source import checked_image
from muster.domain.template import bind, check_declared
from muster.domain.variables import Variable
from muster.engine.kubernetes import config as kubernetes
from muster.engine.kubernetes.restricted import check_config as check_restricted
from muster.engine.process.config import ProcessConfig
from muster.service.bus import PLACES, queue_topic
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
    policy: Policy | None = None,
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
        policy=policy or Policy(),
        follows_inventory=follows_inventory,
        created_at=now,
        created_by=actor.name,
    )
    check_rules(queue)
    queues.add(tx.conn, queue)
    _audit(tx, actor, "queue.create", queue, now)
    return queue


def checked_variables(engine: str, config: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions in their stored form, if they and the config fit together and the engine."""
    check_tree(config, what="config")
    check_tree(variables, what="variables")
    parsed = [Variable.parse(name, data) for name, data in variables.items()]
    check_declared(config, parsed)
    trial, _ = bind(config, parsed, {v.name: v.example() for v in parsed}, queue="")
    READERS[engine](trial if isinstance(trial, Mapping) else {})
    return {variable.name: variable.to_data() for variable in parsed}


def check_rules(queue: Queue) -> None:
    """A queue must be able to keep what it says: of its image, and of `security: restricted`."""
    if queue.policy.default_image is not None:
        checked_image(queue.policy.default_image)
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
    policy: Mapping[str, Any] | None = None,
    now: datetime,
) -> Queue:
    """A new version; what is None stays, and of `policy` what it does not name.

    Runs that wait keep the version they were launched with.
    """
    queue = _held(tx, actor, name, entity)
    wanted = replace(
        queue,
        config=queue.config if config is None else config,
        variables=queue.variables if variables is None else variables,
        policy=Policy.parse({**queue.policy.to_data(), **(policy or {})}),
        follows_inventory=queue.follows_inventory and variables is None,  # what the owner says stands
    )
    return _renew(tx, actor, queue, wanted, now, action="queue.edit")


def roll_back(tx: Tx, actor: Actor, name: str, version: int, *, entity: str | None, now: datetime) -> Queue:
    """A new version that says what an old one said."""
    queue = _held(tx, actor, name, entity)
    old = find_version(tx.conn, queue, version)
    wanted = replace(
        queue,
        config=old.config,
        variables=old.variables,
        policy=old.policy,
        follows_inventory=queue.follows_inventory and old.variables == queue.variables,
    )
    return _renew(tx, actor, queue, wanted, now, action="queue.rollback", to=version)


def _renew(
    tx: Tx, actor: Actor, queue: Queue, wanted: Queue, now: datetime, *, action: str, **more: int
) -> Queue:
    """Keep `wanted` as the newest version, unless nothing of it is new."""
    wanted = replace(wanted, variables=checked_variables(queue.engine, wanted.config, wanted.variables))
    if wanted.definition() == queue.definition():
        return queue
    newer = replace(wanted, version=queue.version + 1)
    check_rules(newer)
    queues.add_version(tx.conn, newer, at=now, by=actor.name)
    _audit(tx, actor, action, newer, now, **more)
    tx.tell(queue_topic(queue.id))  # limits may have been raised
    return newer


def find_version(conn: Connection, queue: Queue, version: int) -> QueueVersion:
    found = queues.find_version(conn, queue.id, version)
    if found is None:
        raise NotFound(
            "version",
            f"v{version}",
            hint=f"Queue {queue.name!r} has v1 … v{queue.version}: muster queue versions {queue.name}",
        )
    return found


def set_paused(tx: Tx, actor: Actor, name: str, *, entity: str | None, paused: bool, now: datetime) -> Queue:
    """Paused: no run of it is started. Not paused: it is open, for launches too."""
    queue = _held(tx, actor, name, entity)
    if paused:
        wanted = replace(queue, paused_at=queue.paused_at or now)
    else:
        wanted = replace(queue, paused_at=None, draining_at=None)
    return _set_standing(tx, actor, queue, wanted, now, action="queue.pause" if paused else "queue.resume")


def drain(tx: Tx, actor: Actor, name: str, *, entity: str | None, now: datetime) -> Queue:
    """Take no more launches; what waits and runs goes on."""
    queue = _held(tx, actor, name, entity)
    wanted = replace(queue, draining_at=queue.draining_at or now)
    return _set_standing(tx, actor, queue, wanted, now, action="queue.drain")


def _held(tx: Tx, actor: Actor, name: str, entity: str | None) -> Queue:
    tx.alone("queues")
    queue = find(tx.conn, actor, name, entity)
    actor.require(Action.MANAGE, queue.entity)
    return queue


def _set_standing(tx: Tx, actor: Actor, queue: Queue, wanted: Queue, now: datetime, *, action: str) -> Queue:
    if wanted != queue:
        queues.set_standing(tx.conn, queue.id, paused_at=wanted.paused_at, draining_at=wanted.draining_at)
        _audit(tx, actor, action, queue, now)
        tx.tell(queue_topic(queue.id))
    return wanted


def delete(tx: Tx, actor: Actor, name: str, *, entity: str | None, now: datetime) -> None:
    queue = _held(tx, actor, name, entity)
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


def _audit(tx: Tx, actor: Actor, action: str, queue: Queue, now: datetime, **more: int) -> None:
    records.add_audit(
        tx.conn,
        at=now,
        actor=actor.name,
        action=action,
        entity=queue.entity,
        target=queue.name,
        data={"version": queue.version, **more},
    )
    tx.tell(PLACES)
