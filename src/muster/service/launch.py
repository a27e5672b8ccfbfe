"""Launching: check what is asked against the queue's rules, then file the run. All of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import BadCommand, BadInput, BadManagedFile, NotFound, nearest
from muster.domain.inputs import Delivery, InputDeclaration, deliver
from muster.domain.names import RandomBytes, checked_name, friendly_name, new_id
from muster.domain.provenance import pointers
from muster.domain.queue import Queue
from muster.domain.relaunch import Change
from muster.domain.resources import Resources
from muster.domain.run import EventType, Priority, Retry, Run, RunHead, RunSpec, RunState, queue_rank
from muster.domain.source import GitSource, JobRef, checked_image
from muster.domain.training import Training
from muster.domain.variables import Variable
from muster.domain.volume import Volume
from muster.engine.port import Rendered
from muster.service import filing
from muster.service.bus import EVENTS, queue_topic
from muster.service.customize import customize, image_for, origins_of
from muster.service.possible import check_possible
from muster.service.render import TRACERS, render, work_of
from muster.service.standing import check_open
from muster.store import accounts, agents, events, queues, records, runs, shares
from muster.store.database import Tx

DEFAULT_PROJECT = "default"
MANAGE_FILES = frozenset({"process"})  #: engines whose agent merges inputs into config files of the code
CLONE = frozenset({"process"})  #: engines whose agent fetches repositories
ENTRYPOINTS = frozenset({"kubernetes"})  #: engines that start images, which have a command of their own
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
    priority: Priority | None = None  #: None: not named, and so medium
    snapshot: str | None = None
    image: str | None = None
    declaration: InputDeclaration | None = None  #: what the job says about its inputs
    overrides: Mapping[str, Any] = field(default_factory=dict)  #: path in the queue's config → value
    workdir: str | None = None  #: of the program, where the queue allows it
    volumes: tuple[Volume, ...] = ()  #: where the queue allows them
    git: GitSource | None = None
    source_name: str | None = None  #: of the snapshot's folder; its job is called after it
    job_name: str | None = None  #: what the code calls its job itself
    job: str | None = None  #: `[PROJECT/]NAME[:ALIAS]`: what is not given is taken from there
    entrypoint: tuple[str, ...] | None = None  #: in place of the job's
    arguments: tuple[str, ...] | None = None  #: in place of the job's
    training_given: frozenset[str] | None = None  #: fields of `training` that count; None: all
    version: JobRef | None = None  #: the job's, once it is looked up
    rerun_of: str | None = None
    changed: tuple[Change, ...] = ()  #: from that version, or that run


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a launch would file and start, and where each value of that came from."""

    run: Run
    rendered: Rendered
    sources: Mapping[str, str]  #: JSON pointer in the manifest → source


def launch(
    tx: Tx,
    actor: Actor,
    orders: Sequence[Order],
    *,
    now: datetime,
    random: RandomBytes,
    group: str | None = None,
) -> list[Run]:
    """File all these runs, or none; under one group, if it has an id."""
    orders = filing.from_jobs(tx.conn, actor, orders)
    plans = _plan_all(tx.conn, actor, orders, now=now, random=random)
    planned = [replace(run, group=group) for run, _ in plans]
    for entity, project in {(run.entity, run.project) for run in planned}:
        accounts.ensure_project(tx.conn, entity, project, at=now)
    made = filing.file(tx, list(zip(planned, orders, strict=True)), now=now, random=random)
    runs.add(tx.conn, made)
    shares.enter(tx.conn, [(run.head.queue_id, run.author, run.rank, run.priority) for run in made])
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


def preview(conn: Connection, actor: Actor, order: Order, *, now: datetime, random: RandomBytes) -> Preview:
    """What launching this would file and start. Refuses what `launch` would refuse, keeps nothing."""
    [order] = filing.from_jobs(conn, actor, [order])
    if order.declaration and order.snapshot is None:  # asked for before the code is brought here
        order = replace(order, declaration=replace(order.declaration, files={}))
    run, _ = _plan_all(conn, actor, [order], now=now, random=random)[0]
    queue = _queue(conn, run.entity, run.queue)
    made = customize(queue, _variables(queue), order)
    work = work_of(run)
    if order.source_name is not None:  # of a folder that is still where it is
        work = replace(work, has_code=True)
    rendered, sources = TRACERS[queue.engine](work, origins_of(queue, made, order))
    return Preview(run=run, rendered=rendered, sources=pointers(sources))


def _plan_all(
    conn: Connection, actor: Actor, orders: Sequence[Order], *, now: datetime, random: RandomBytes
) -> list[tuple[Run, Rendered]]:
    found: dict[tuple[str, str], Queue] = {}
    rooms: dict[str, list[Resources]] = {}
    variables: dict[str, list[Variable]] = {}
    plans: list[tuple[Run, Rendered]] = []
    checked: set[tuple[object, ...]] = set()  # code is the same for all of a batch, mostly: looked at once
    last = ""
    for order in orders:
        words = repr(order)  # 1, 1.0 and True are equal, but not alike
        if words == last:
            run, rendered = plans[-1]
            plans.append((_another(run, order, random), rendered))
            continue
        last = words
        entity = order.entity or actor.default_entity
        actor.require(Action.LAUNCH, entity)
        place = (entity, order.queue)
        if place not in found:
            queue = found[place] = _queue(conn, entity, order.queue)
            rooms[queue.id] = [agent.total for agent in agents.of_queue(conn, queue.id)]
            variables[queue.id] = _variables(queue)
        queue = found[place]
        check_open(queue, order.priority)
        run, rendered = _plan(actor, order, queue, variables[queue.id], entity=entity, now=now, random=random)
        check_possible(conn, rendered.resources, rooms[queue.id], queue)
        code = (queue.id, order.snapshot, *order.command[:1], *run.spec.managed_files)
        if code not in checked:
            checked.add(code)
            _check_code(conn, entity, run.spec, queue)
        plans.append((run, rendered))
    return plans


def _another(run: Run, order: Order, random: RandomBytes) -> Run:
    """The same once more, under another id and, where none was given, another name. Neither is a number:
    no size can come from them."""
    head = replace(run.head, id=new_id(random))
    return replace(run, head=head, name=order.name or friendly_name(random))


def _variables(queue: Queue) -> list[Variable]:
    return [Variable.parse(name, data) for name, data in queue.variables.items()]


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
    delivery = deliver(order.declaration, order.inputs, order.command)
    _check_command(order, queue, delivery)
    made = customize(queue, variables, order)
    spec = RunSpec(
        command=order.command,
        env=order.env,
        inputs=delivery.inputs,
        input_arguments=delivery.arguments,
        managed_files=delivery.files,
        training=order.training,
        retry=order.retry,
        snapshot=order.snapshot,
        image=image_for(queue, made.config, asked=order.image),
        git=order.git,
        rerun_of=order.rerun_of,
        changed=order.changed,
        overrides=order.overrides,
        workdir=order.workdir,
        volumes=order.volumes,
        values=made.values,
        config=made.config,
        security=queue.policy.security,
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
        priority=order.priority or Priority.MEDIUM,
        rank=queue_rank(now, order.priority or Priority.MEDIUM),
        spec=spec,
        failure=None,
        created_at=now,
        claimed_at=None,
        ended_at=None,
    )
    rendered = render(queue.engine, work_of(run))
    whole = replace(spec, resources=rendered.resources)
    return replace(run, spec=whole, head=replace(head, nodes=rendered.replicas)), rendered


def _check_command(order: Order, queue: Queue, delivery: Delivery) -> None:
    is_image = not order.command and queue.engine in ENTRYPOINTS  # an image knows what it runs
    if not is_image and (not order.command or not order.command[0].strip()):
        raise BadCommand(
            "There is no command to run.", hint="Put it behind `--`: muster launch . -- train.py --epochs 3"
        )
    if order.image is not None:
        checked_image(order.image)
    if order.image and queue.engine == "process":
        raise BadInput(
            f"Queue {queue.name!r} starts processes on its machine; it cannot run the image {order.image!r}.",
            hint="Launch a command or a code folder, or choose a queue with a container engine.",
            facts={"field": "image", "queue": queue.name},
        )
    words = [*order.command, *delivery.arguments, *(f"{name}={value}" for name, value in order.env.items())]
    if any("\0" in word for word in words):
        raise BadCommand("A NUL character cannot be part of a command or its environment.")
    for name in order.env:
        if not name or "=" in name or name.startswith("MUSTER_"):
            raise BadInput(
                f"{name!r} cannot be set in the environment of a run.",
                hint="Names must not be empty, contain '=' or begin with MUSTER_.",
                facts={"field": "env", "name": name},
            )
    if sum(len(word.encode()) for word in words) > MAX_ARGUMENT_BYTES:
        raise BadCommand(
            "Command and environment are longer than 256 KiB.", hint="Put long values into a file."
        )


def _check_code(conn: Connection, entity: str, spec: RunSpec, queue: Queue) -> None:
    if spec.managed_files and queue.engine not in MANAGE_FILES:
        raise BadInput(
            f"Queue {queue.name!r} is of kind {queue.engine}, where config files are not managed yet.",
            hint="Read MUSTER_CONFIG, or pass the inputs as arguments.",
        )
    if spec.git is not None and queue.engine not in CLONE:
        raise BadInput(
            f"Queue {queue.name!r} is of kind {queue.engine}, where repositories are not fetched yet.",
            hint="Check it out and launch the folder: muster launch PATH …",
            facts={"field": "git.url", "queue": queue.name},
        )
    if spec.snapshot is None:
        if spec.managed_files and spec.git is None:
            raise BadInput(
                f"Inputs should be merged into {next(iter(spec.managed_files))!r}, but no code is launched.",
                hint="Launch the folder that has it: muster launch PATH -- …",
            )
        return
    record = records.find_snapshot(conn, entity, spec.snapshot)
    if record is None or not record.complete:
        raise NotFound("snapshot", spec.snapshot, hint="Upload the code first: `muster launch PATH …` does.")
    paths = [str(file["path"]) for file in record.manifest["files"]]
    if spec.command:
        _check_script(spec.command[0], paths)
    for path in spec.managed_files:
        if path not in paths:
            near = nearest(path, paths)
            raise BadManagedFile(
                f"Inputs should be merged into {path!r}, which is not among the files of this launch.",
                hint=f"Did you mean {near!r}?" if near else "Name it relative to the launched folder.",
            )


def _check_script(script: str, paths: Sequence[str]) -> None:
    if not script.endswith(".py") or script.startswith("/") or script.removeprefix("./") in paths:
        return
    near = nearest(script, paths)
    raise BadCommand(
        f"{script!r} is not among the files of this launch.",
        hint=f"Did you mean {near!r}?"
        if near
        else "Name it relative to the launched folder; "
        "`git status --ignored` tells whether an ignore file leaves it out.",
    )
