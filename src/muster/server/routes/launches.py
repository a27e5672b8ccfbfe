"""Launching runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel
from sqlalchemy import Connection

from muster.domain import git
from muster.domain.access import Actor
from muster.domain.errors import IdempotencyMismatch, NotFound
from muster.domain.inputs import InputDeclaration
from muster.domain.names import checked_name, new_id
from muster.domain.run import Retry
from muster.domain.volume import Volume
from muster.server.answers import answered
from muster.server.auth import Caller, Ctx
from muster.server.context import Context
from muster.server.quick import IDEMPOTENCY_HEADER, MAX_IDEMPOTENCY_KEY, QuickRoute
from muster.server.routes.runs import models
from muster.service import launch as service
from muster.service import rerun as rerun_service
from muster.service.launch import Order
from muster.service.sweep import KEEP_ANSWERS
from muster.store import records, runs
from muster.store.database import Tx
from muster.wire.base import Page
from muster.wire.runs import (
    LaunchBatch,
    LaunchRequest,
    PreviewModel,
    RerunRequest,
    ResourcesModel,
    RunModel,
    TrainingModel,
)

router = APIRouter(tags=["launches"], route_class=QuickRoute)

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias=IDEMPOTENCY_HEADER,
        max_length=MAX_IDEMPOTENCY_KEY,
        description="Sent again within 24 h, the same request returns the same runs and launches nothing.",
    ),
]


def order_of(asked: LaunchRequest, *, git_schemes: frozenset[str]) -> Order:
    return Order(
        queue=asked.queue,
        command=tuple(asked.command),
        entity=asked.entity,
        project=asked.project,
        name=asked.name,
        env=asked.env,
        inputs=asked.config,
        values=asked.values,
        training=asked.training.to_domain() if asked.training else None,
        retry=Retry(max=asked.retry.max, on=frozenset(asked.retry.on)),
        priority=asked.priority,
        snapshot=asked.snapshot,
        image=asked.image,
        declaration=InputDeclaration.parse(asked.inputs) if asked.inputs is not None else None,
        overrides=asked.overrides,
        workdir=asked.workdir,
        volumes=_volumes(asked.volumes),
        git=git.checked(asked.git.to_domain(), schemes=git_schemes) if asked.git else None,
        source_name=asked.source_name,
        job_name=checked_name(asked.job_name, what="job") if asked.job_name is not None else None,
        job=asked.job,
        entrypoint=_words(asked.entrypoint),
        arguments=_words(asked.arguments),
        training_given=_given(asked.training),
    )


def _words(given: list[str] | None) -> tuple[str, ...] | None:
    return tuple(given) if given is not None else None


def _volumes(given: list[str]) -> tuple[Volume, ...]:
    return tuple(Volume.parse(text) for text in given)


def _given(training: TrainingModel | None) -> frozenset[str] | None:
    """The fields that were sent: only these replace what is recorded."""
    return frozenset(training.model_fields_set) if training else None


@router.post("/launches", status_code=201, response_model=RunModel)
async def launch(ctx: Ctx, caller: Caller, asked: LaunchRequest, key: IdempotencyKey = None) -> Response:
    """Launch one run."""
    [run] = await _launch(ctx, caller, [asked], key)
    return answered(run, status=201)


@router.post("/launches/batch", status_code=201, response_model=Page[RunModel])
async def launch_batch(ctx: Ctx, caller: Caller, asked: LaunchBatch, key: IdempotencyKey = None) -> Response:
    """Launch many runs: all of them, or none."""
    if not asked.group:
        return answered(Page(items=await _launch(ctx, caller, asked.launches, key)), status=201)
    orders = [order_of(item, git_schemes=ctx.settings.git_schemes) for item in asked.launches]
    items = await launch_once(ctx, caller, orders, key=key, asked=[asked], group=new_id(ctx.random))
    return answered(Page(items=items), status=201)


@router.post("/runs/{run_id}/rerun", status_code=201)
async def rerun_run(
    ctx: Ctx, caller: Caller, run_id: str, asked: RerunRequest, key: IdempotencyKey = None
) -> RunModel:
    """Launch a run again, as it was or with some of it replaced."""
    now, changes = ctx.now(), _changes(asked)

    def work(tx: Tx) -> list[RunModel]:
        run = rerun_service.rerun(tx, caller, run_id, changes, now=now, random=ctx.random)
        return models(tx.conn, [run])

    made = await _once(ctx, caller, work, lambda: _fingerprint([asked], of=run_id), key)
    return made[0]


@router.post("/runs/{run_id}/rerun/preview")
async def preview_rerun(ctx: Ctx, caller: Caller, run_id: str, asked: RerunRequest) -> PreviewModel:
    """What launching a run again would start, without starting it. Refuses what a rerun would refuse."""
    now, changes = ctx.now(), _changes(asked)

    def work(conn: Connection) -> PreviewModel:
        order = rerun_service.order_of(conn, caller, run_id, changes)
        return _previewed(service.preview(conn, caller, order, now=now, random=ctx.random))

    return await ctx.db.read(work)


def _changes(asked: RerunRequest) -> rerun_service.Changes:
    return rerun_service.Changes(
        queue=asked.queue,
        project=asked.project,
        name=asked.name,
        entrypoint=_words(asked.entrypoint),
        arguments=_words(asked.arguments),
        config=asked.config,
        values=asked.values,
        env=asked.env,
        overrides=asked.overrides,
        workdir=asked.workdir,
        volumes=_volumes(asked.volumes) if asked.volumes is not None else None,
        training=asked.training.to_domain() if asked.training else None,
        training_given=_given(asked.training),
        priority=asked.priority,
        retry=Retry(max=asked.retry.max, on=frozenset(asked.retry.on)) if asked.retry else None,
    )


@router.post("/launches/preview")
async def preview_launch(ctx: Ctx, caller: Caller, asked: LaunchRequest) -> PreviewModel:
    """What would be started, without starting it. Refuses what a launch would refuse."""
    order, now = order_of(asked, git_schemes=ctx.settings.git_schemes), ctx.now()

    def work(conn: Connection) -> PreviewModel:
        return _previewed(service.preview(conn, caller, order, now=now, random=ctx.random))

    return await ctx.db.read(work)


def _previewed(found: service.Preview) -> PreviewModel:
    run, rendered = found.run, found.rendered
    return PreviewModel(
        engine=rendered.engine,
        sources=dict(found.sources),
        manifest=dict(rendered.manifest),
        resources=ResourcesModel.of(rendered.resources),
        values=dict(run.spec.values),
        queue=run.queue,
        queue_version=run.queue_version,
        checked="not checked by the engine",
    )


async def _launch(ctx: Context, caller: Actor, asked: list[LaunchRequest], key: str | None) -> list[RunModel]:
    schemes = ctx.settings.git_schemes
    orders = [order_of(item, git_schemes=schemes) for item in asked]
    return await launch_once(ctx, caller, orders, key=key, asked=asked)


async def launch_once(
    ctx: Context,
    caller: Actor,
    orders: Sequence[Order],
    *,
    key: str | None,
    asked: Sequence[BaseModel],
    group: str | None = None,
) -> list[RunModel]:
    """Launch these orders; or, if `asked` came under this key before, find what was launched then."""
    now = ctx.now()

    def work(tx: Tx) -> list[RunModel]:
        made = service.launch(tx, caller, orders, now=now, random=ctx.random, group=group)
        return models(tx.conn, made)

    return await _once(ctx, caller, work, lambda: _fingerprint(asked), key)


async def _once(
    ctx: Context,
    caller: Actor,
    work: Callable[[Tx], list[RunModel]],
    fingerprint_of: Callable[[], str],
    key: str | None,
) -> list[RunModel]:
    """Do it, unless it was done under this key before: then its answer is given again."""
    if key is None:
        return await ctx.db.write(work)
    now, fingerprint = ctx.now(), fingerprint_of()

    def once(tx: Tx) -> list[RunModel]:
        kept = records.kept_answer(tx.conn, caller.name, key, since=now - KEEP_ANSWERS)
        if kept is None:
            made = work(tx)
            ids: Any = [run.id for run in made]
            answer = records.KeptAnswer(fingerprint=fingerprint, answer=ids)
            records.keep_answer(tx.conn, caller.name, key, answer, at=now, since=now - KEEP_ANSWERS)
            return made
        if kept.fingerprint != fingerprint:
            raise IdempotencyMismatch(
                f"The idempotency key {key!r} was used for another launch.", hint="Use a new key for each."
            )
        found = runs.find_many(tx.conn, kept.answer)
        for run_id in kept.answer:
            if run_id not in found:
                raise NotFound("run", run_id, hint="It was launched under this key, and deleted since.")
        return models(tx.conn, [found[run_id] for run_id in kept.answer])

    return await ctx.db.write(once)


def _fingerprint(asked: Sequence[BaseModel], *, of: str = "") -> str:
    digest = hashlib.sha256(of.encode())
    for item in asked:
        digest.update(item.model_dump_json(exclude_defaults=True).encode())
    return digest.hexdigest()
