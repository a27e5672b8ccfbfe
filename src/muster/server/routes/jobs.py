"""Jobs, their versions and aliases."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from muster.domain import git
from muster.domain.errors import BadInput
from muster.domain.inputs import InputDeclaration
from muster.domain.job import LATEST, Defaults, Job, JobContent, JobName, Source, split
from muster.server.auth import Caller, Ctx
from muster.server.routes.runs import Limit, cursor_number
from muster.service import job as service
from muster.service.job import Place
from muster.store import jobs
from muster.store.database import Tx
from muster.wire.base import Page
from muster.wire.jobs import AliasRequest, JobEdit, JobModel, JobRequest, JobVersionModel

router = APIRouter(tags=["jobs"])

Project = Annotated[str | None, Query(max_length=64, description="None: the default project.")]


@router.get("/jobs")
async def list_jobs(
    ctx: Ctx,
    caller: Caller,
    entity: str | None = None,
    project: str | None = None,
    text: Annotated[str | None, Query(max_length=128, description="In the name.")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Page[JobModel]:
    """Jobs, by entity, project and name."""
    after = _place(cursor) if cursor is not None else None

    def work(conn: Connection) -> Page[JobModel]:
        entities = service.visible(caller, entity)
        found = jobs.page(conn, entities, project=project, text=text, after=after, limit=limit + 1)
        shown = found[:limit]
        return Page(
            items=[JobModel.of(job) for job in shown],
            next=_cursor(shown[-1]) if len(found) > limit else None,
        )

    return await ctx.db.read(work)


def _cursor(job: Job) -> str:
    return f"{job.entity}/{job.project}/{job.name}"


def _place(cursor: str) -> jobs.Cursor:
    parts = cursor.split("/")
    if len(parts) != 3 or "\0" in cursor:
        raise BadInput(f"{cursor[:40]!r} is not a cursor.", hint="Pass `next` of the page before as it is.")
    entity, project, name = parts
    return entity, project, name


@router.post("/jobs", status_code=201)
async def create_job(ctx: Ctx, caller: Caller, asked: JobRequest) -> JobVersionModel:
    """File a version of a job without launching it. One with the same content is found, not made again."""
    now = ctx.now()
    entrypoint, arguments = split(asked.command)
    source = Source(
        image=asked.image,
        snapshot=asked.snapshot,
        git=git.checked(asked.git.to_domain(), schemes=ctx.settings.git_schemes) if asked.git else None,
    )
    content = JobContent(
        source=source,
        entrypoint=entrypoint,
        inputs=InputDeclaration.parse(asked.inputs).to_data() if asked.inputs is not None else None,
        training=asked.training.to_domain() if asked.training else None,
    )

    def work(tx: Tx) -> JobVersionModel:
        job, version = service.create(
            tx,
            caller,
            Place(entity=asked.entity, project=asked.project),
            name=asked.name,
            folder=asked.source_name,
            content=content,
            defaults=Defaults(arguments=arguments, config=asked.config),
            now=now,
            random=ctx.random,
        )
        return JobVersionModel.of(job, version)

    return await ctx.db.write(work)


@router.get("/jobs/{name}")
async def get_job(
    ctx: Ctx, caller: Caller, name: str, entity: str | None = None, project: Project = None
) -> JobModel:
    """One job."""
    place = Place(entity=entity, project=project)
    wanted = _named(name)
    return await ctx.db.read(lambda conn: JobModel.of(service.find(conn, caller, wanted, place)))


@router.get("/jobs/{name}/versions")
async def list_job_versions(
    ctx: Ctx,
    caller: Caller,
    name: str,
    entity: str | None = None,
    project: Project = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Page[JobVersionModel]:
    """The versions of a job, newest first."""
    before = cursor_number(cursor)
    wanted, place = _named(name), Place(entity=entity, project=project)

    def work(conn: Connection) -> Page[JobVersionModel]:
        job = service.find(conn, caller, wanted, place)
        found = jobs.versions(conn, job.id, before=before, limit=limit + 1)
        shown = found[:limit]
        return Page(
            items=[JobVersionModel.of(job, version) for version in shown],
            next=str(shown[-1].version) if len(found) > limit else None,
        )

    return await ctx.db.read(work)


@router.get("/jobs/{name}/versions/{version}")
async def get_job_version(
    ctx: Ctx,
    caller: Caller,
    name: str,
    version: str = LATEST,
    entity: str | None = None,
    project: Project = None,
) -> JobVersionModel:
    """One version: `v3`, `latest` or another alias."""
    wanted, place = JobName(name=name, alias=version), Place(entity=entity, project=project)

    def work(conn: Connection) -> JobVersionModel:
        return JobVersionModel.of(*service.find_version(conn, caller, wanted, place))

    return await ctx.db.read(work)


@router.patch("/jobs/{name}")
async def rename_job(
    ctx: Ctx, caller: Caller, name: str, asked: JobEdit, entity: str | None = None, project: Project = None
) -> JobModel:
    """Call a job otherwise. Launches of its source still find it."""
    now, wanted, place = ctx.now(), _named(name), Place(entity=entity, project=project)
    return await ctx.db.write(
        lambda tx: JobModel.of(service.rename(tx, caller, wanted, place, to=asked.name, now=now))
    )


@router.delete("/jobs/{name}", status_code=204, response_class=Response)
async def delete_job(
    ctx: Ctx, caller: Caller, name: str, entity: str | None = None, project: Project = None
) -> None:
    """Delete a job. Its runs stay, and still say which version they were of."""
    now, wanted, place = ctx.now(), _named(name), Place(entity=entity, project=project)
    await ctx.db.write(lambda tx: service.delete(tx, caller, wanted, place, now=now))


@router.put("/jobs/{name}/aliases/{alias}")
async def set_job_alias(
    ctx: Ctx,
    caller: Caller,
    name: str,
    alias: str,
    asked: AliasRequest,
    entity: str | None = None,
    project: Project = None,
) -> JobModel:
    """Let an alias stand for a version."""
    now, wanted, place = ctx.now(), _named(name), Place(entity=entity, project=project)
    return await ctx.db.write(
        lambda tx: JobModel.of(
            service.set_alias(tx, caller, wanted, place, alias=alias, version=asked.version, now=now)
        )
    )


@router.delete("/jobs/{name}/aliases/{alias}")
async def remove_job_alias(
    ctx: Ctx, caller: Caller, name: str, alias: str, entity: str | None = None, project: Project = None
) -> JobModel:
    """Let an alias stand for nothing any more."""
    now, wanted, place = ctx.now(), _named(name), Place(entity=entity, project=project)
    return await ctx.db.write(
        lambda tx: JobModel.of(service.remove_alias(tx, caller, wanted, place, alias=alias, now=now))
    )


def _named(name: str) -> JobName:
    return JobName(name=name)
