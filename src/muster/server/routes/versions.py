"""Versions of queues: what they were, how they differ, going back; and configs before they are queues."""

from __future__ import annotations

import asyncio
import difflib
from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy import Connection

from muster.domain.document import dump
from muster.domain.policy import Policy
from muster.domain.queue import Queue, QueueVersion, changed_keys
from muster.server.auth import Caller, Ctx
from muster.server.routes.queues import models
from muster.server.routes.runs import Limit, cursor_number
from muster.server.strictbody import StrictRoute
from muster.service import queue as service
from muster.service.parse import parse
from muster.service.trial import trial
from muster.store import queues
from muster.wire.base import Page
from muster.wire.queues import (
    DiffModel,
    FaultModel,
    FoundMacroModel,
    FoundObjectModel,
    FoundVariableModel,
    ParseModel,
    ParseRequest,
    QueueModel,
    QueueVersionModel,
    RollbackRequest,
    TrialModel,
    TrialRequest,
    VersionSummary,
)
from muster.wire.runs import ResourcesModel

router = APIRouter(tags=["queues"], route_class=StrictRoute)

LAST = 2**31 - 1
Number = Annotated[int, Path(ge=1, le=LAST)]
From = Annotated[int, Query(alias="from", ge=1, le=LAST)]
To = Annotated[int, Query(alias="to", ge=1, le=LAST)]


@router.post("/queues/parse")
async def parse_queue(ctx: Ctx, caller: Caller, asked: ParseRequest) -> ParseModel:
    """Look through a config: its variables, macros and objects, and what is wrong. Nothing is kept."""
    found = await asyncio.to_thread(parse, asked.text, resource=asked.resource, variables=asked.variables)
    return ParseModel(
        usable=not found.faults and not found.missing,
        resource=found.resource,
        config=None if found.config is None else dict(found.config),
        variables=[FoundVariableModel.model_validate(v, from_attributes=True) for v in found.variables],
        macros=[FoundMacroModel.model_validate(m, from_attributes=True) for m in found.macros],
        objects=[FoundObjectModel.model_validate(o, from_attributes=True) for o in found.objects],
        errors=[FaultModel.model_validate(f, from_attributes=True) for f in found.faults],
        rules=dict(found.policy),
    )


@router.post("/queues/preview")
async def preview_queue(ctx: Ctx, caller: Caller, asked: TrialRequest) -> TrialModel:
    """What a launch into a queue of this config would start. Nothing is kept."""
    policy = Policy.parse(asked.said())
    found = await asyncio.to_thread(
        trial,
        caller,
        asked.text,
        name=asked.name,
        resource=asked.resource,
        variables=asked.variables,
        policy=policy,
        values=asked.values,
        now=ctx.now(),
    )
    return TrialModel(
        engine=found.rendered.engine,
        manifest=dict(found.rendered.manifest),
        sources=dict(found.sources),
        resources=ResourcesModel.of(found.rendered.resources),
        values=dict(found.values),
    )


@router.get("/queues/{name}/versions")
async def list_queue_versions(
    ctx: Ctx,
    caller: Caller,
    name: str,
    entity: str | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Page[VersionSummary]:
    """The versions of a queue, the newest first, and what each changed."""
    before = cursor_number(cursor)

    def work(conn: Connection) -> Page[VersionSummary]:
        queue = service.find(conn, caller, name, entity)
        found = queues.versions(conn, queue.id, before=before, limit=limit + 1)
        shown = found[:limit]
        older = [version.definition() for version in found[1:]] + [{}] * (len(shown) - len(found) + 1)
        items = [_summary(version, than) for version, than in zip(shown, older, strict=False)]
        return Page(items=items, next=str(shown[-1].version) if len(found) > limit else None)

    return await ctx.db.read(work)


def _summary(version: QueueVersion, than: dict[str, object]) -> VersionSummary:
    return VersionSummary(
        version=version.version,
        created_at=version.created_at,
        created_by=version.created_by,
        changed=changed_keys(than, version.definition()) if than else [],
    )


@router.get("/queues/{name}/versions/{version}")
async def get_queue_version(
    ctx: Ctx, caller: Caller, name: str, version: Number, entity: str | None = None
) -> QueueVersionModel:
    """A queue as it was at one version."""

    def work(conn: Connection) -> QueueVersionModel:
        queue = service.find(conn, caller, name, entity)
        return QueueVersionModel.of(queue, service.find_version(conn, queue, version))

    return await ctx.db.read(work)


@router.get("/queues/{name}/diff")
async def diff_queue(
    ctx: Ctx, caller: Caller, name: str, from_version: From, to_version: To, entity: str | None = None
) -> DiffModel:
    """How two versions of a queue differ."""

    def work(conn: Connection) -> tuple[Queue, QueueVersion, QueueVersion]:
        queue = service.find(conn, caller, name, entity)
        return (
            queue,
            service.find_version(conn, queue, from_version),
            service.find_version(conn, queue, to_version),
        )

    return await asyncio.to_thread(_diff, *await ctx.db.read(work))


def _diff(queue: Queue, older: QueueVersion, newer: QueueVersion) -> DiffModel:
    changed = changed_keys(older.definition(), newer.definition())
    before, after = (
        dump({key: value for key, value in version.definition().items() if key in changed})
        if set(changed) & set(version.definition())
        else ""
        for version in (older, newer)
    )
    lines = difflib.unified_diff(
        before.splitlines(),
        after.splitlines(),
        f"{queue.name} v{older.version}",
        f"{queue.name} v{newer.version}",
        lineterm="",
    )
    return DiffModel(
        queue=queue.name,
        from_version=older.version,
        to_version=newer.version,
        changed=changed,
        diff="".join(f"{line}\n" for line in lines),
    )


@router.post("/queues/{name}/rollback")
async def roll_back_queue(
    ctx: Ctx, caller: Caller, name: str, asked: RollbackRequest, entity: str | None = None
) -> QueueModel:
    """Make a new version of a queue that says what an old one said."""
    now = ctx.now()
    return await ctx.db.write(
        lambda tx: models(
            tx.conn,
            [service.roll_back(tx, caller, name, asked.version, entity=entity, now=now)],
            now,
        )[0]
    )
