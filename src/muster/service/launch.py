"""Launching: check what is asked against the queue's rules, then file the run. All of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import BadCommand, BadInput, ImpossibleRequest, NotFound, nearest
from muster.domain.names import RandomBytes, checked_name, friendly_name, new_id
from muster.domain.queue import Queue
from muster.domain.relaunch import Change
from muster.domain.resources import Resources
from muster.domain.run import EventType, Priority, Retry, Run, RunHead, RunSpec, RunState, queue_rank
from muster.domain.source import GitSource, JobRef
from muster.domain.template import bind
from muster.domain.training import Training
from muster.domain.variables import Variable
from muster.engine.port import Rendered
from muster.service import filing
from muster.service.bus import EVENTS, queue_topic
from muster.service.render import render, work_of
from muster.store import accounts, agents, events, queues, records, runs
from muster.store.database import Tx

DEFAULT_PROJECT = "default"
MAX_ARGUMENT_BYTES = 256 * 1024  #: of command and environment together


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a user asks to be launched."""

    queue: str
    command: tuple[str, ...] = ()
    entity: str | None = None
    project: str | None = None
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    training: Training | None = None
    retry: Retry = field(default_factory=Retry)
    priority: Priority = Priority.MEDIUM
    snapshot: str | None = None
    image: str | None = None
    git: GitSource | None = None
    source_name: str | None = None  #: of the snapshot's folder; its job is called after it
    schema: Mapping[str, Any] | None = None  #: of the inputs, as the job declares them
    job: str | None = None  #: `[PROJECT/]NAME[:ALIAS]`: what is not given is taken from there
    entrypoint: tuple[str, ...] | None = None  #: in place of the job's
    arguments: tuple[str, ...] | None = None  #: in place of the job's
    training_given: frozenset[str] | None = None  #: fields of `training` that count; None: all
    version: JobRef | None = None  #: the job's, once it is looked up
    rerun_of: str | None = None
    changed: tuple[Change, ...] = ()  #: from that version, or that run


def launch(tx: Tx, actor: Actor, orders: Sequence[Order], *, now: datetime, random: RandomBytes) -> list[Run]:
    """File all these runs, or none."""
    orders = filing.from_jobs(tx.conn, actor, orders)
    planned = [run for run, _ in _plan_all(tx.conn, actor, orders, now=now, random=random)]
    for entity, project in {(run.entity, run.project) for run in planned}:
        accounts.ensure_project(tx.conn, entity, project, at=now)
    made = filing.file(tx, list(zip(planned, orders, strict=True)), now=now, random=random)
    runs.add(tx.conn, made)
    events.add(
        tx,
        [
            events.NewEvent(
                run_id=run.id,
                seq=1,
                attempt=0,
                type=EventType.STATE,
                at=now,
                actor=actor.name,
                data={"to": RunState.QUEUED.value},
            )
            for run in made
        ],
    )
    for run in made:
        tx.tell(queue_topic(run.head.queue_id))
    tx.tell(EVENTS)
    return made


def preview(
    conn: Connection, actor: Actor, order: Order, *, now: datetime, random: RandomBytes
) -> tuple[Run, Rendered]:
    """What launching this would file and start. Refuses what `launch` would refuse, keeps nothing."""
    orders = filing.from_jobs(conn, actor, [order])
    return _plan_all(conn, actor, orders, now=now, random=random)[0]


def _plan_all(
    conn: Connection, actor: Actor, orders: Sequence[Order], *, now: datetime, random: RandomBytes
) -> list[tuple[Run, Rendered]]:
    found: dict[tuple[str, str], Queue] = {}
    rooms: dict[str, list[Resources]] = {}
    variables: dict[str, list[Variable]] = {}
    plans = []
    for order in orders:
        entity = order.entity or actor.default_entity
        actor.require(Action.LAUNCH, entity)
        place = (entity, order.queue)
        if place not in found:
            queue = found[place] = _queue(conn, entity, order.queue)
            rooms[queue.id] = [agent.total for agent in agents.of_queue(conn, queue.id)]
            variables[queue.id] = [Variable.parse(name, data) for name, data in queue.variables.items()]
        queue = found[place]
        run, rendered = _plan(actor, order, queue, variables[queue.id], entity=entity, now=now, random=random)
        _check_possible(rendered.resources, rooms[run.head.queue_id], found[place])
        _check_snapshot(conn, entity, order)
        plans.append((run, rendered))
    return plans


def _queue(conn: Connection, entity: str, name: str) -> Queue:
    queue = queues.find(conn, entity, name)
    if queue is None:
        known = [queue.name for queue in queues.of_entities(conn, [entity])]
        raise NotFound("queue", name, known=known)
    return queue


def _plan(
    actor: Actor,
    order: Order,
    queue: Queue,
    variables: Sequence[Variable],
    *,
    entity: str,
    now: datetime,
    random: RandomBytes,
) -> tuple[Run, Rendered]:
    _check_command(order, queue)
    config, values = bind(queue.config, variables, order.values, queue=queue.name)
    if not isinstance(config, Mapping):
        raise BadInput(f"The config of queue {queue.name!r} is not a mapping.")
    spec = RunSpec(
        command=order.command,
        env=order.env,
        inputs=order.inputs,
        training=order.training,
        retry=order.retry,
        snapshot=order.snapshot,
        image=order.image,
        git=order.git,
        rerun_of=order.rerun_of,
        changed=order.changed,
        values=values,
        config=config,
    )
    head = RunHead(
        id=new_id(random),
        entity=entity,
        queue_id=queue.id,
        state=RunState.QUEUED,
        nodes=spec.nodes,
        attempt=0,
        epoch=0,
        agent_id=None,
        lease_expires_at=None,
        stop_requested_at=None,
        stop_requested_by=None,
        started_at=None,
        last_event=1,
    )
    run = Run(
        head=head,
        project=checked_name(order.project or DEFAULT_PROJECT, what="project"),
        queue=queue.name,
        queue_version=queue.version,
        name=checked_name(order.name, what="run") if order.name else friendly_name(random),
        author=actor.name,
        priority=order.priority,
        rank=queue_rank(now, order.priority),
        spec=spec,
        failure=None,
        created_at=now,
        claimed_at=None,
        ended_at=None,
    )
    rendered = render(queue.engine, work_of(run))
    return replace(run, spec=replace(spec, resources=rendered.resources)), rendered


def _check_command(order: Order, queue: Queue) -> None:
    if not order.command or not order.command[0].strip():
        raise BadCommand(
            "There is no command to run.", hint="Put it behind `--`: muster launch . -- train.py --epochs 3"
        )
    if order.image and queue.engine == "process":
        raise BadInput(
            f"Queue {queue.name!r} starts processes on its machine; it cannot run the image {order.image!r}.",
            hint="Launch a command or a code folder, or choose a queue with a container engine.",
        )
    words = [*order.command, *(f"{name}={value}" for name, value in order.env.items())]
    if any("\0" in word for word in words):
        raise BadCommand("A NUL character cannot be part of a command or its environment.")
    for name in order.env:
        if not name or "=" in name or name.startswith("MUSTER_"):
            raise BadInput(
                f"{name!r} cannot be set in the environment of a run.",
                hint="Names must not be empty, contain '=' or begin with MUSTER_.",
            )
    if sum(len(word.encode()) for word in words) > MAX_ARGUMENT_BYTES:
        raise BadCommand(
            "Command and environment are longer than 256 KiB.", hint="Put long values into a file."
        )


def _check_possible(needs: Resources, rooms: Sequence[Resources], queue: Queue) -> None:
    """Refuse what no machine of the queue could ever run. Agents yet unknown get the benefit of the doubt."""
    if not rooms or any(needs.fits_in(room) for room in rooms):
        return
    shortest = min((needs.short_of(room) for room in rooms), key=len)
    raise ImpossibleRequest(
        f"No machine of queue {queue.name!r} is big enough: this needs {' and '.join(shortest)}.",
        hint="Ask for less, or launch on another queue (`muster queue list`).",
        facts={"queue": queue.name, "short": list(shortest)},
    )


def _check_snapshot(conn: Connection, entity: str, order: Order) -> None:
    if order.snapshot is None:
        return
    record = records.find_snapshot(conn, entity, order.snapshot)
    if record is None or not record.complete:
        raise NotFound("snapshot", order.snapshot, hint="Upload the code first: `muster launch PATH …` does.")
    script = order.command[0]
    if not script.endswith(".py") or script.startswith("/"):
        return
    paths = [str(file["path"]) for file in record.manifest["files"]]
    if script.removeprefix("./") not in paths:
        near = nearest(script, paths)
        raise BadCommand(
            f"{script!r} is not among the files of this launch.",
            hint=f"Did you mean {near!r}?"
            if near
            else "Name it relative to the launched folder; "
            "`git status --ignored` tells whether an ignore file leaves it out.",
        )
