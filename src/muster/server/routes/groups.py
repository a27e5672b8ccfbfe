"""Grids and the groups of runs they make."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query, Response

from muster.domain.grid import Grid
from muster.domain.names import new_id
from muster.server.answers import answered
from muster.server.auth import Caller, Ctx
from muster.server.context import CLOSING
from muster.server.routes.launches import IdempotencyKey, launch_once, order_of
from muster.service import group as service
from muster.service.bus import EVENTS
from muster.store.groups import Group
from muster.wire.groups import GridRequest, GroupModel, GroupRuns, StoppedGroup

router = APIRouter(tags=["groups"])

_BREATH = 0.5  #: seconds between two looks at a group: its runs may have thousands of events


@router.post("/launches/grid", status_code=201, response_model=GroupRuns)
async def launch_grid(ctx: Ctx, caller: Caller, asked: GridRequest, key: IdempotencyKey = None) -> Response:
    """Launch a run for each combination of values: all of them, or none."""
    order = order_of(asked.launch, git_schemes=ctx.settings.git_schemes)
    orders = service.spread(order, Grid.from_data(asked.grid), random=ctx.random)
    items = await launch_once(ctx, caller, orders, key=key, asked=[asked], group=new_id(ctx.random))
    return answered(GroupRuns(id=items[0].group or "", items=items), status=201)


@router.get("/groups/{group_id}")
async def get_group(
    ctx: Ctx,
    caller: Caller,
    group_id: str,
    newer_than: Annotated[int | None, Query(ge=0, description="A `version` one has already.")] = None,
    wait: Annotated[float, Query(ge=0, le=30, description="Seconds to wait for another one.")] = 0,
) -> GroupModel:
    """A group as it stands; or, with `newer_than` and `wait`, as soon as one of its runs has changed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    with ctx.bus.listen(EVENTS, CLOSING) as wake:
        while True:
            wake.clear()
            group = await ctx.db.read(lambda conn: _told(service.find(conn, caller, group_id)))
            left = deadline - loop.time()
            if newer_than is None or group.version != newer_than or left <= 0 or ctx.closing:
                return group
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), left)
            await asyncio.sleep(min(_BREATH, max(0.0, deadline - loop.time())))


@router.post("/groups/{group_id}/stop")
async def stop_group(ctx: Ctx, caller: Caller, group_id: str) -> StoppedGroup:
    """Ask all runs of a group to stop. Asking again changes nothing."""
    now = ctx.now()
    done = await ctx.db.write(lambda tx: service.stop(tx, caller, group_id, now=now))
    return StoppedGroup(group=_told(done.group), asked=done.asked)


def _told(group: Group) -> GroupModel:
    run = group.newest
    return GroupModel(
        id=group.id,
        entity=run.entity,
        project=run.project,
        queue=run.queue,
        author=run.author,
        created_at=group.created_at,
        total=group.total,
        ended=all(state.terminal for state in group.states),
        states=dict(group.states),
        version=group.version,
    )
