"""Launches and jobs: a launch of a job begins from its version; one of a source files a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from muster.domain.access import Actor
from muster.domain.errors import BadInput
from muster.domain.inputs import InputDeclaration
from muster.domain.job import Defaults, JobContent, JobName, Source, split
from muster.domain.names import RandomBytes
from muster.domain.relaunch import Recipe, changes, replaced
from muster.domain.run import Run
from muster.domain.source import JobRef
from muster.service import job as job_service
from muster.store.codec import compact_json
from muster.store.database import Tx

if TYPE_CHECKING:
    from muster.service.launch import Order


def from_jobs(conn: Connection, actor: Actor, orders: Sequence[Order]) -> list[Order]:
    """The orders, those of a job filled in from its version. Each job is looked up once."""
    found: dict[tuple[str | None, str | None, str], tuple[JobRef, JobContent, Defaults]] = {}
    filled = []
    for order in orders:
        if order.job is None:
            _check_plain(order)
            filled.append(order)
            continue
        _check_of_job(order)
        place = (order.entity, order.project, order.job)
        if place not in found:
            _, version = job_service.find_version(
                conn,
                actor,
                JobName.parse(order.job),
                job_service.Place(entity=order.entity, project=order.project),
            )
            ref = JobRef(id=version.job_id, version=version.version)
            found[place] = (ref, version.content, version.defaults)
        filled.append(_from_version(order, *found[place]))
    return filled


def _from_version(order: Order, ref: JobRef, content: JobContent, defaults: Defaults) -> Order:
    base = Recipe(
        entrypoint=content.entrypoint,
        arguments=defaults.arguments,
        config=defaults.config,
        training=content.training,
    )
    recipe = replaced(
        base,
        entrypoint=order.entrypoint,
        arguments=order.arguments,
        config=order.inputs,
        training=order.training,
        given=order.training_given,
    )
    return replace(
        order,
        command=recipe.command,
        entrypoint=recipe.entrypoint,
        arguments=recipe.arguments,
        inputs=recipe.config,
        training=recipe.training,
        image=content.source.image,
        snapshot=content.source.snapshot,
        git=content.source.git,
        declaration=InputDeclaration.parse(content.inputs) if content.inputs is not None else None,
        version=ref,
        changed=changes(base, recipe),
    )


def _source(order: Order) -> Source:
    return Source(image=order.image, snapshot=order.snapshot, git=order.git)


def _check_plain(order: Order) -> None:
    _source(order)  # refuses two sources at once
    if order.version is None and (order.entrypoint is not None or order.arguments is not None):
        raise BadInput(
            "`entrypoint` and `arguments` replace those of a job or a run, and there is none here.",
            hint="Give the whole command as `command`.",
        )


def _check_of_job(order: Order) -> None:
    if order.command:
        raise BadInput(
            "A job has its own command.", hint="Replace its `arguments`, or its `entrypoint`, or both."
        )
    if order.image or order.snapshot or order.git:
        raise BadInput(
            "A job has its own source; an image, a snapshot or a repository cannot be launched beside it.",
            hint="Launch the source without the job: that files a version of its own.",
        )


def file(tx: Tx, made: Sequence[tuple[Run, Order]], *, now: datetime, random: RandomBytes) -> list[Run]:
    """The runs, each with the version of the job it belongs to. One look for all that are alike."""
    known: dict[tuple[object, ...], JobRef] = {}
    filed = []
    for run, order in made:
        source = _source(order)
        if order.version is not None or not source:
            filed.append(replace(run, job=order.version) if order.version else run)
            continue
        entrypoint, arguments = split(order.command)
        declared = order.declaration.to_data() if order.declaration else None
        shape = (order.training, compact_json(declared), order.source_name, order.job_name)
        alike = (run.entity, run.project, source, entrypoint, *shape)
        if alike not in known:
            content = JobContent(
                source=source, entrypoint=entrypoint, inputs=declared, training=order.training
            )
            job, number = job_service.file(
                tx,
                entity=run.entity,
                project=run.project,
                name=order.job_name or source.name(folder=order.source_name, entrypoint=entrypoint),
                derived=True,
                content=content,
                defaults=Defaults(arguments=arguments, config=order.inputs),
                by=run.author,
                now=now,
                random=random,
            )
            known[alike] = JobRef(id=job.id, version=number)
        filed.append(replace(run, job=known[alike]))
    return filed
