"""Jobs: look at them, make them, name their versions, put them away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import AlreadyExists, BadInput, NotFound
from muster.domain.inputs import InputDeclaration, check_defaults
from muster.domain.job import (
    LATEST,
    Defaults,
    Job,
    JobContent,
    JobName,
    JobVersion,
    checked_alias,
)
from muster.domain.names import RandomBytes, checked_name, new_id
from muster.domain.source import checked_image
from muster.store import accounts, jobs, records
from muster.store.database import Tx

DEFAULT_PROJECT = "default"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a job is looked for; None: the actor's own entity, the default project."""

    entity: str | None = None
    project: str | None = None


def find(conn: Connection, actor: Actor, name: JobName, place: Place) -> Job:
    owner = place.entity or actor.default_entity
    actor.require(Action.READ, owner)
    project = name.project or place.project or DEFAULT_PROJECT
    job = jobs.find(conn, owner, project, name.name)
    if job is None:
        nearby = jobs.page(conn, [owner], project=None, text=None, after=None, limit=1000)
        elsewhere = [near.project for near in nearby if near.name == name.name]
        hint = f"Project {elsewhere[0]!r} has one: {elsewhere[0]}/{name.name}." if elsewhere else ""
        known = [near.name for near in nearby if near.project == project]
        raise NotFound("job", name.name, known=known, hint=hint)
    return job


def find_version(conn: Connection, actor: Actor, name: JobName, place: Place) -> tuple[Job, JobVersion]:
    """The version that the name's alias stands for, the newest without one."""
    job = find(conn, actor, name, place)
    version = jobs.find_version(conn, job.id, job.resolve(name.alias or LATEST))
    if version is None:
        raise NotFound("job version", f"{job.name}:{name.alias or LATEST}")
    return job, version


def file(
    tx: Tx,
    *,
    entity: str,
    project: str,
    name: str,
    derived: bool,
    content: JobContent,
    defaults: Defaults,
    by: str,
    now: datetime,
    random: RandomBytes,
) -> tuple[Job, int]:
    """The job's version with this content: the one there is, else a new one. `derived`: the name is that
    of the source, so a job that was renamed since is meant too."""
    look = jobs.find_by_origin if derived else jobs.find
    job = look(tx.conn, entity, project, name)
    known = jobs.version_of(tx.conn, job.id, content.digest) if job else None
    if job is not None and known is not None:
        return job, known
    tx.alone("jobs")  # another server may be filing the same: look again behind it
    job = look(tx.conn, entity, project, name)
    if job is None:
        number = 0
        job = Job(
            id=new_id(random),
            entity=entity,
            project=project,
            name=name,
            newest=number,
            created_at=now,
            created_by=by,
        )
        jobs.add(tx.conn, job, origin=name if derived else None)
    else:
        known = jobs.version_of(tx.conn, job.id, content.digest)
        if known is not None:
            return job, known
        number = job.newest + 1
    version = JobVersion(
        job_id=job.id, version=number, content=content, defaults=defaults, created_at=now, created_by=by
    )
    jobs.add_version(tx.conn, version)
    return replace(job, newest=number), number


def create(
    tx: Tx,
    actor: Actor,
    place: Place,
    *,
    name: str | None,
    folder: str | None,
    content: JobContent,
    defaults: Defaults,
    now: datetime,
    random: RandomBytes,
) -> tuple[Job, JobVersion]:
    """File a version without launching it."""
    entity = place.entity or actor.default_entity
    actor.require(Action.LAUNCH, entity)
    if accounts.find_entity(tx.conn, entity) is None:
        raise NotFound("entity", entity, known=actor.roles)
    _check_content(tx.conn, entity, content)
    if content.inputs is not None:
        check_defaults(InputDeclaration.parse(content.inputs), defaults.config)
    project = checked_name(place.project or DEFAULT_PROJECT, what="project")
    chosen = checked_name(name, what="job") if name else None
    accounts.ensure_project(tx.conn, entity, project, at=now)
    job, number = file(
        tx,
        entity=entity,
        project=project,
        name=chosen or content.source.name(folder=folder, entrypoint=content.entrypoint),
        derived=chosen is None,
        content=content,
        defaults=defaults,
        by=actor.name,
        now=now,
        random=random,
    )
    _audit(tx, actor, "job.create", job, now, version=number)
    version = jobs.find_version(tx.conn, job.id, number)
    if version is None:
        raise NotFound("job version", f"{job.name}:v{number}")
    return job, version


def _check_content(conn: Connection, entity: str, content: JobContent) -> None:
    if not content.source:
        raise BadInput(
            "A job needs a source: an image, a code snapshot or a git repository.",
            hint="muster job create -d IMAGE, -u GIT or PATH.",
        )
    if content.source.image is not None:
        checked_image(content.source.image)
    if not content.entrypoint and content.source.kind != "image":
        raise BadInput("A job of code needs a command.", hint="Put it behind `--`, as for a launch.")
    snapshot = content.source.snapshot
    record = records.find_snapshot(conn, entity, snapshot) if snapshot else None
    if snapshot and (record is None or not record.complete):
        raise NotFound("snapshot", snapshot, hint="Upload the code first: `muster job create PATH …` does.")


def rename(tx: Tx, actor: Actor, name: JobName, place: Place, *, to: str, now: datetime) -> Job:
    tx.alone("jobs")
    job = _changeable(tx, actor, name, place)
    checked_name(to, what="job")
    if to == job.name:
        return job
    if jobs.find(tx.conn, job.entity, job.project, to):
        raise AlreadyExists("job", to)
    jobs.rename(tx.conn, job.id, to)
    _audit(tx, actor, "job.rename", job, now, to=to)
    return replace(job, name=to)


def set_alias(
    tx: Tx, actor: Actor, name: JobName, place: Place, *, alias: str, version: str, now: datetime
) -> Job:
    """Let `alias` stand for a version, instead of the one it may have stood for."""
    tx.alone("jobs")
    job = _changeable(tx, actor, name, place)
    checked_alias(alias)
    number = job.resolve(version)
    jobs.set_alias(tx.conn, job.id, alias, number)
    _audit(tx, actor, "job.alias", job, now, alias=alias, version=number)
    return replace(job, aliases={**job.aliases, alias: number})


def remove_alias(tx: Tx, actor: Actor, name: JobName, place: Place, *, alias: str, now: datetime) -> Job:
    tx.alone("jobs")
    job = _changeable(tx, actor, name, place)
    if alias not in job.aliases:
        hint = f"It has {', '.join(job.aliases)}." if job.aliases else "It has none but `latest`."
        raise NotFound("alias", alias, hint=hint)
    jobs.remove_alias(tx.conn, job.id, alias)
    _audit(tx, actor, "job.alias", job, now, alias=alias, version=None)
    return replace(job, aliases={known: number for known, number in job.aliases.items() if known != alias})


def delete(tx: Tx, actor: Actor, name: JobName, place: Place, *, now: datetime) -> None:
    """Its name is free again. Its runs stay, and still say which version they were of."""
    tx.alone("jobs")
    job = _changeable(tx, actor, name, place)
    jobs.remove(tx.conn, job.id, at=now)
    _audit(tx, actor, "job.delete", job, now)


def visible(actor: Actor, entity: str | None) -> Sequence[str] | None:
    """Whose jobs are listed."""
    if entity is None:
        return actor.visible
    actor.require(Action.READ, entity)
    return (entity,)


def _changeable(tx: Tx, actor: Actor, name: JobName, place: Place) -> Job:
    job = find(tx.conn, actor, name, place)
    actor.require(Action.LAUNCH, job.entity)
    return job


def _audit(tx: Tx, actor: Actor, action: str, job: Job, now: datetime, **data: object) -> None:
    records.add_audit(
        tx.conn,
        at=now,
        actor=actor.name,
        action=action,
        entity=job.entity,
        target=f"{job.project}/{job.name}"[:128],
        data=data,
    )
