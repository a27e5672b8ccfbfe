"""Logs by lines, for who reads a few of very many."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from muster.domain.access import Actor
from muster.domain.observation import AttemptKey
from muster.server import loglines
from muster.server.auth import Ctx, Visitor
from muster.server.context import Context
from muster.server.routes.runs import visible_run
from muster.store import attempts
from muster.store.logs import LogKey
from muster.wire.base import Page
from muster.wire.runs import LogMapModel, LogMatchModel

router = APIRouter(tags=["streams"])

Rank = Annotated[int | None, Query(ge=0, le=1_000_000, description="None: all replicas.")]
Attempt = Annotated[int | None, Query(ge=1, le=1_000_000, description="None: the newest.")]


@router.get("/runs/{run_id}/logs/map")
async def map_logs(
    ctx: Ctx, visitor: Visitor, run_id: str, rank: Rank = None, attempt: Attempt = None
) -> Page[LogMapModel]:
    """Where the lines of a run's logs are, and when they were written. Read the bytes with `read_log`."""
    keys = await _keys(ctx, visitor, run_id, rank, attempt)

    def look() -> list[LogMapModel]:
        return [_told(key, loglines.map_log(ctx.logs, key)) for key in keys]

    return Page(items=await asyncio.to_thread(look))


@router.get("/runs/{run_id}/logs/find")
async def find_in_logs(
    ctx: Ctx,
    visitor: Visitor,
    run_id: str,
    text: Annotated[str, Query(max_length=256, description="Empty: lines that look like an error.")] = "",
    rank: Rank = None,
    attempt: Attempt = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Page[LogMatchModel]:
    """The first lines with a text in them, of each replica; upper and lower case are the same."""
    keys = await _keys(ctx, visitor, run_id, rank, attempt)

    def look() -> list[LogMatchModel]:
        found = []
        for key in keys:
            lines = loglines.find_text(ctx.logs, key, text) if text else loglines.find_errors(ctx.logs, key)
            found += [LogMatchModel(rank=key.rank, **match.__dict__) for match in islice(lines, limit)]
        return found

    return Page(items=await asyncio.to_thread(look))


async def _keys(
    ctx: Context, visitor: Actor, run_id: str, rank: int | None, attempt: int | None
) -> list[LogKey]:
    def load(conn: Connection) -> list[LogKey]:
        run = visible_run(conn, visitor, run_id)
        number = attempt or max(run.head.attempt, 1)
        members = attempts.replicas_of(conn, AttemptKey(run_id=run_id, attempt=number))
        ranks = [replica.rank for replica in members] if rank is None else [rank]
        return [LogKey(run_id=run_id, attempt=number, rank=one) for one in ranks]

    return await ctx.db.read(load)


def _told(key: LogKey, found: loglines.LogMap) -> LogMapModel:
    return LogMapModel(rank=key.rank, attempt=key.attempt, **found.__dict__)
