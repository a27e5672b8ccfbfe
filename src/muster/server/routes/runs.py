"""Looking at runs, stopping and deleting them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from muster._failpoint import failpoint
from muster.domain.access import Action, Actor
from muster.domain.errors import NotFound
from muster.domain.job import JobName
from muster.domain.observation import AttemptKey
from muster.domain.run import Run, RunState
from muster.domain.runorder import NEWEST, RunKey, RunOrder
from muster.server import runcursor
from muster.server.auth import Caller, Ctx, Visitor
from muster.server.context import CLOSING
from muster.server.runcursor import Cursor
from muster.server.sources import sources_of
from muster.service import explain as explain_service
from muster.service import job as job_service
from muster.service import queue as queue_service
from muster.service import stop as stop_service
from muster.service.bus import run_topic
from muster.service.render import render, work_of
from muster.store import attempts, events, jobs, queues, runs
from muster.store.logs import LogKey
from muster.store.runlist import Filter, page
from muster.store.usage import FIELDS
from muster.wire.base import Page
from muster.wire.runs import (
    EventModel,
    ExplanationModel,
    ManifestModel,
    ReplicaModel,
    RunModel,
    UsageSeries,
)

router = APIRouter(tags=["runs"])

Limit = Annotated[int, Query(ge=1, le=1000)]
SORT = f"{', '.join(f'`{key}`' for key in RunKey)}; `-` before it: the greatest first."
Attempt = Annotated[int | None, Query(ge=1, le=1_000_000)]


def visible_run(conn: Connection, actor: Actor, run_id: str) -> Run:
    run = runs.find(conn, run_id)
    if run is None or not actor.may_see(run.entity, run.id):
        raise NotFound("run", run_id)
    return run


def models(conn: Connection, found: Sequence[Run]) -> list[RunModel]:
    """With the names of their jobs, looked up at once."""
    names = jobs.names(conn, (run.job.id for run in found if run.job))
    return [RunModel.of(run, job_names=names) for run in found]


def _job_filter(
    conn: Connection, actor: Actor, name: JobName, entity: str | None, project: str | None
) -> dict[str, Any]:
    place = job_service.Place(entity=entity, project=project)
    if name.alias is None:
        return {"job_id": job_service.find(conn, actor, name, place).id}
    _, version = job_service.find_version(conn, actor, name, place)
    return {"job_id": version.job_id, "job_version": version.version}


def cursor_number(cursor: str | None) -> int | None:
    return None if cursor is None else runcursor.cursor_number(cursor)


@router.get("/runs")
async def list_runs(
    ctx: Ctx,
    caller: Caller,
    entity: str | None = None,
    project: str | None = None,
    queue: str | None = None,
    author: str | None = None,
    job: Annotated[
        str | None,
        Query(max_length=256, description="[PROJECT/]NAME[:ALIAS]; `project` is the job's, too."),
    ] = None,
    state: Annotated[list[RunState] | None, Query()] = None,
    text: Annotated[str | None, Query(max_length=128)] = None,
    group: Annotated[str | None, Query(max_length=16)] = None,
    sort: Annotated[str, Query(max_length=32, description=SORT)] = str(NEWEST),
    limit: Limit = 50,
    cursor: str | None = None,
) -> Page[RunModel]:
    """Runs, newest first or in another order."""
    order = RunOrder.parse(sort)
    begin = None if cursor is None else Cursor.parse(cursor, order, now=ctx.now())
    now = begin.now if begin else ctx.now()
    wanted = JobName.parse(job) if job is not None else None

    def work(conn: Connection) -> Page[RunModel]:
        entities = caller.visible if entity is None else (entity,)
        if entity is not None:
            caller.require(Action.READ, entity)
        queue_id = queue_service.find(conn, caller, queue, entity).id if queue else None
        of_job = _job_filter(conn, caller, wanted, entity, project) if wanted else {}
        narrow = Filter(
            entities=entities,
            project=project,
            queue_id=queue_id,
            author=author,
            **of_job,
            states=tuple(state or ()),
            text=text,
            group=group,
        )
        after = begin.place if begin else None
        found = page(conn, narrow, order=order, after=after, now=now, limit=limit + 1)
        shown = found[:limit]
        following = str(Cursor(order=order, place=shown[-1][0], now=now)) if len(found) > limit else None
        return Page(items=models(conn, [run for _, run in shown]), next=following)

    return await ctx.db.read(work)


@router.get("/runs/{run_id}")
async def get_run(
    ctx: Ctx,
    visitor: Visitor,
    run_id: str,
    newer_than: Annotated[int | None, Query(ge=0, description="A `version` one has already.")] = None,
    wait: Annotated[float, Query(ge=0, le=30, description="Seconds to wait for a newer one.")] = 0,
) -> RunModel:
    """One run as it stands; or, with `newer_than` and `wait`, as soon as it has changed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    with ctx.bus.listen(run_topic(run_id), CLOSING) as wake:
        while True:
            wake.clear()
            run = await ctx.db.read(lambda conn: models(conn, [visible_run(conn, visitor, run_id)])[0])
            left = deadline - loop.time()
            if newer_than is None or run.version > newer_than or left <= 0 or ctx.closing:
                return run
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), left)


@router.post("/runs/{run_id}/stop")
async def stop_run(ctx: Ctx, visitor: Visitor, run_id: str) -> RunModel:
    """Ask a run to stop. Asking again changes nothing."""
    now = ctx.now()
    return await ctx.db.write(
        lambda tx: models(tx.conn, [stop_service.stop(tx, visitor, run_id, now=now)])[0]
    )


@router.delete("/runs/{run_id}", status_code=204, response_class=Response)
async def delete_run(ctx: Ctx, caller: Caller, run_id: str) -> None:
    """Delete a run that has ended, with its events, logs and usage."""
    now = ctx.now()
    await ctx.db.write(lambda tx: stop_service.delete(tx, caller, run_id, now=now))
    failpoint("run.deleted")
    await asyncio.to_thread(ctx.files.remove, [run_id])


@router.get("/runs/{run_id}/events")
async def list_run_events(
    ctx: Ctx, visitor: Visitor, run_id: str, limit: Limit = 1000, cursor: str | None = None
) -> Page[EventModel]:
    """What happened to a run, in order."""
    after = cursor_number(cursor) or 0

    def work(conn: Connection) -> Page[EventModel]:
        visible_run(conn, visitor, run_id)
        found = events.of_run(conn, run_id, after=after, limit=limit + 1)
        shown = found[:limit]
        following = str(shown[-1].seq) if len(found) > limit else None
        return Page(items=[EventModel.of(event) for event in shown], next=following)

    return await ctx.db.read(work)


@router.get("/runs/{run_id}/replicas")
async def list_replicas(
    ctx: Ctx, visitor: Visitor, run_id: str, attempt: Attempt = None
) -> Page[ReplicaModel]:
    """The members of a run's newest attempt, or of the one given."""

    def work(conn: Connection) -> Page[ReplicaModel]:
        run = visible_run(conn, visitor, run_id)
        number = attempt or run.head.attempt
        members = attempts.replicas_of(conn, AttemptKey(run_id=run_id, attempt=number))
        return Page(items=[ReplicaModel.of(replica, number) for replica in members])

    return await ctx.db.read(work)


@router.get("/runs/{run_id}/why")
async def explain_run(ctx: Ctx, visitor: Visitor, run_id: str) -> ExplanationModel:
    """Why it waits, or why it ended as it did."""
    now = ctx.now()

    def work(conn: Connection) -> ExplanationModel:
        run = visible_run(conn, visitor, run_id)
        return ExplanationModel(**asdict(explain_service.explain(conn, run, now=now)))

    return await ctx.db.read(work)


@router.get("/runs/{run_id}/manifest")
async def get_manifest(ctx: Ctx, visitor: Visitor, run_id: str, attempt: Attempt = None) -> ManifestModel:
    """What was submitted to the engine; before that, what would be."""

    def work(conn: Connection) -> ManifestModel:
        run = visible_run(conn, visitor, run_id)
        number = attempt or max(run.head.attempt, 1)
        key = AttemptKey(run_id=run_id, attempt=number)
        found = attempts.find_many(conn, [key]).get(key)
        queue = queues.find_by_id(conn, run.head.queue_id)
        sources = sources_of(conn, run, queue) if queue else {}
        if found and found.manifest is not None:
            return ManifestModel(
                run_id=run_id,
                attempt=number,
                manifest=dict(found.manifest),
                submitted=True,
                sources=dict(sources),
            )
        if queue is None or number > max(run.head.attempt, 1):
            raise NotFound("attempt", str(number), hint=f"The run has {run.head.attempt} attempts.")
        rendered = render(queue.engine, work_of(run))
        return ManifestModel(
            run_id=run_id,
            attempt=number,
            manifest=dict(rendered.manifest),
            submitted=False,
            sources=dict(sources),
        )

    return await ctx.db.read(work)


@router.get("/runs/{run_id}/usage")
async def get_usage(
    ctx: Ctx,
    visitor: Visitor,
    run_id: str,
    attempt: Attempt = None,
    max_points: Annotated[int, Query(ge=1, le=10_000)] = 500,
) -> Page[UsageSeries]:
    """CPU, memory, GPU, disk and network over time, per replica."""

    def load(conn: Connection) -> tuple[int, list[int]]:
        run = visible_run(conn, visitor, run_id)
        number = attempt or max(run.head.attempt, 1)
        members = attempts.replicas_of(conn, AttemptKey(run_id=run_id, attempt=number))
        return number, [replica.rank for replica in members]

    number, ranks = await ctx.db.read(load)

    def read(rank: int) -> UsageSeries:
        points = ctx.usage.read(LogKey(run_id=run_id, attempt=number, rank=rank), max_points=max_points)
        columns = {name: [point.values[i] for point in points] for i, name in enumerate(FIELDS)}
        return UsageSeries(rank=rank, attempt=number, at=[point.at for point in points], values=columns)

    return Page(items=await asyncio.to_thread(lambda: [read(rank) for rank in ranks]))
