"""What waits in a queue, in which order; and how full the queue has been."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from muster.domain.errors import BadInput
from muster.domain.occupancy import Stay, occupancy
from muster.domain.run import Run
from muster.server.auth import Caller, Ctx
from muster.server.routes.runs import models
from muster.service import prioritize
from muster.service import queue as service
from muster.service.place import first_in_line
from muster.store import runs, shares
from muster.store.database import Tx
from muster.wire.queues import HistoryModel, LineModel
from muster.wire.runs import PlaceRequest, RunModel

router = APIRouter(tags=["queues"])

_COUNTED = 20_000  #: runs of each kind that a history is made of
_USERS = 10_000


@router.get("/queues/{name}/line")
async def get_queue_line(
    ctx: Ctx,
    caller: Caller,
    name: str,
    entity: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> LineModel:
    """The runs that wait in a queue, in the order in which they would be started one by one."""
    now = ctx.now()

    def work(conn: Connection) -> LineModel:
        queue = service.find(conn, caller, name, entity)
        ids = first_in_line(conn, queue, now=now, limit=limit)
        found = runs.find_many(conn, ids)
        waiting = runs.count_by_state(conn, [queue.id]).get((queue.id, "waiting"), 0)
        users = shares.first_waiting(conn, queue.id, now=now, share=False, limit=_USERS)
        return LineModel(
            items=models(conn, [found[run_id] for run_id in ids]),
            more=max(0, waiting - len(ids)),
            users=len(users),
        )

    return await ctx.db.read(work)


@router.get("/queues/{name}/history")
async def get_queue_history(
    ctx: Ctx,
    caller: Caller,
    name: str,
    entity: str | None = None,
    hours: Annotated[int, Query(ge=1, le=24 * 31)] = 24,
    points: Annotated[int, Query(ge=2, le=1000)] = 145,
) -> HistoryModel:
    """How many runs waited and ran over the last hours, and how many GPUs they had."""
    now = ctx.now()
    since = now - timedelta(hours=hours)

    def load(conn: Connection) -> list[Stay]:
        queue = service.find(conn, caller, name, entity)
        return runs.stays(conn, queue.id, since=since, limit=_COUNTED)

    stays = await ctx.db.read(load)
    return await asyncio.to_thread(_history, stays, since, now, points)


def _history(stays: list[Stay], since: datetime, until: datetime, points: int) -> HistoryModel:
    found = occupancy(stays, since=since, until=until, points=points)
    return HistoryModel(
        at=list(found.at),
        waiting=list(found.waiting),
        running=list(found.running),
        gpus=list(found.gpus),
        whole=len(stays) < _COUNTED,
    )


@router.post("/runs/{run_id}/place")
async def place_run(ctx: Ctx, caller: Caller, run_id: str, asked: PlaceRequest) -> RunModel:
    """Give a run that waits another priority; or, as an admin, another place in the line."""
    now = ctx.now()
    if sum(given is not None for given in (asked.priority, asked.before, asked.behind)) != 1:
        raise BadInput("A run has one place.", hint="Give exactly one of priority, before and behind.")

    def placed(tx: Tx) -> Run:
        if asked.priority is not None:
            return prioritize.set_priority(tx, caller, run_id, asked.priority, now=now)
        return prioritize.move(
            tx,
            caller,
            run_id,
            beside=asked.before or asked.behind or "",
            behind=asked.behind is not None,
            now=now,
        )

    return await ctx.db.write(lambda tx: models(tx.conn, [placed(tx)])[0])
