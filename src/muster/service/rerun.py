"""Launching a run again, as it was or with some of it replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from muster.domain.access import Actor
from muster.domain.errors import NotFound
from muster.domain.inputs import InputDeclaration
from muster.domain.job import JobContent, split
from muster.domain.names import RandomBytes
from muster.domain.queue import Queue
from muster.domain.relaunch import Change, Recipe, changes, differences, replaced
from muster.domain.run import Priority, Retry, Run
from muster.domain.training import Training
from muster.domain.volume import Volume
from muster.service import launch as launch_service
from muster.service.customize import takes_value
from muster.service.launch import Order
from muster.store import jobs, queues, runs
from muster.store.database import Tx


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is to be otherwise than in the run; None and empty: as it was."""

    queue: str | None = None
    project: str | None = None
    name: str | None = None
    entrypoint: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    workdir: str | None = None
    volumes: tuple[Volume, ...] | None = None
    training: Training | None = None
    training_given: frozenset[str] | None = None
    priority: Priority | None = None
    retry: Retry | None = None


def rerun(tx: Tx, actor: Actor, run_id: str, asked: Changes, *, now: datetime, random: RandomBytes) -> Run:
    order = order_of(tx.conn, actor, run_id, asked)
    return launch_service.launch(tx, actor, [order], now=now, random=random)[0]


def order_of(conn: Connection, actor: Actor, run_id: str, asked: Changes) -> Order:
    """What launching it again asks for."""
    run = runs.find(conn, run_id)
    if run is None or not actor.may_see(run.entity, run.id):
        raise NotFound("run", run_id)
    spec = run.spec
    version = jobs.find_version(conn, run.job.id, run.job.version) if run.job else None
    content = version.content if version else None
    base = _recipe(run, content)
    recipe = replaced(
        base,
        entrypoint=asked.entrypoint,
        arguments=asked.arguments,
        config=asked.config,
        training=asked.training,
        given=asked.training_given,
    )
    queue = asked.queue or run.queue
    place = queues.find(conn, run.entity, queue)
    values = {**_known_values(run, place), **asked.values}
    env = {**spec.env, **asked.env}
    workdir = spec.workdir if asked.workdir is None else asked.workdir
    volumes = spec.volumes if asked.volumes is None else asked.volumes
    return Order(
        queue=queue,
        command=recipe.command,
        entity=run.entity,
        project=asked.project or run.project,
        name=asked.name,
        env=env,
        inputs=recipe.config,
        values=values,
        training=recipe.training,
        retry=asked.retry or spec.retry,
        priority=asked.priority or _kept_priority(run, place),
        snapshot=spec.snapshot,
        image=content.source.image if content else None,  # else it was the queue's, and is so again
        git=spec.git,
        declaration=InputDeclaration.parse(content.inputs) if content and content.inputs else None,
        overrides={**spec.overrides, **asked.overrides},
        workdir=workdir,
        volumes=volumes,
        version=run.job,
        rerun_of=run.id,
        changed=(
            *([Change(what="queue", before=run.queue, after=queue)] if queue != run.queue else []),
            *changes(base, recipe),
            *_changed_values(spec.values, asked.values),
            *differences("env", spec.env, env),
            *differences("overrides", spec.overrides, {**spec.overrides, **asked.overrides}),
            *_changed("workdir", spec.workdir, workdir),
            *_changed("volumes", [str(each) for each in spec.volumes], [str(each) for each in volumes]),
        ),
    )


def _recipe(run: Run, content: JobContent | None) -> Recipe:
    """Its command is split as its job's is, if it begins as that does. Without a job nobody knows how
    inputs became arguments, so these are arguments like others then."""
    entrypoint, arguments = split(run.spec.command if content else run.spec.whole_command)
    if content is not None and run.spec.command[: len(content.entrypoint)] == content.entrypoint:
        entrypoint, arguments = content.entrypoint, run.spec.command[len(content.entrypoint) :]
    return Recipe(
        entrypoint=entrypoint, arguments=arguments, config=run.spec.inputs, training=run.spec.training
    )


def _changed(what: str, before: object, after: object) -> Iterator[Change]:
    if before != after:
        yield Change(what=what, before=before, after=after)


def _changed_values(before: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Change]:
    """Values come as text from a command line: `2` is no change from 2."""
    for change in differences("values", before, {**before, **asked}):
        if str(change.before) != str(change.after):
            yield change


def _known_values(run: Run, queue: Queue | None) -> dict[str, Any]:
    """The run's values, without those that the queue does not know (any more)."""
    values = run.spec.values
    return {name: value for name, value in values.items() if queue and takes_value(queue, name)}


def _kept_priority(run: Run, queue: Queue | None) -> Priority | None:
    """The run's, where the queue has priorities (still)."""
    return run.priority if queue and queue.policy.priorities else None
