"""Queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from muster.domain.access import Action
from muster.domain.agent import Agent
from muster.domain.definition import read_config
from muster.domain.policy import Policy
from muster.domain.queue import Queue
from muster.domain.resources import UNBOUNDED
from muster.server.auth import Caller, Ctx
from muster.server.strictbody import StrictRoute
from muster.service import queue as service
from muster.store import agents, queues, runs
from muster.wire.base import Page
from muster.wire.queues import QueueEdit, QueueModel, QueueRequest

router = APIRouter(tags=["queues"], route_class=StrictRoute)


def models(conn: Connection, found: Sequence[Queue], now: datetime) -> list[QueueModel]:
    ids = [queue.id for queue in found]
    counts = runs.count_by_state(conn, ids)
    oldest = runs.oldest_waiting(conn, ids)
    used = runs.gpus_in_use(conn, ids)

    def model(queue: Queue) -> QueueModel:
        online = [agent for agent in agents.of_queue(conn, queue.id) if agent.online(now)]
        return QueueModel.of(
            queue,
            waiting=counts.get((queue.id, "waiting"), 0),
            running=counts.get((queue.id, "running"), 0),
            agents_online=len(online),
            oldest_waiting_at=oldest.get(queue.id),
            gpus_used=used.get(queue.id, 0),
            gpus_total=_gpus(online),
        )

    return [model(queue) for queue in found]


def _gpus(online: Sequence[Agent]) -> int | None:
    """What their machines have; agents of one machine share it. None: the cluster's own scheduler knows."""
    machines: dict[str, int] = {}
    for agent in online:
        if agent.total == UNBOUNDED:
            return None
        machines[agent.locality] = max(machines.get(agent.locality, 0), agent.total.gpus)
    return sum(machines.values())


@router.get("/queues")
async def list_queues(ctx: Ctx, caller: Caller, entity: str | None = None) -> Page[QueueModel]:
    """The queues one may see."""
    now = ctx.now()

    def work(conn: Connection) -> Page[QueueModel]:
        if entity is not None:
            caller.require(Action.READ, entity)
        wanted = caller.visible if entity is None else (entity,)
        return Page(items=models(conn, queues.of_entities(conn, wanted), now))

    return await ctx.db.read(work)


@router.post("/queues", status_code=201)
async def create_queue(ctx: Ctx, caller: Caller, asked: QueueRequest) -> QueueModel:
    """Create a queue."""
    now = ctx.now()
    config = await _config(asked.config, asked.resource)
    policy = Policy.parse(asked.said())
    return await ctx.db.write(
        lambda tx: models(
            tx.conn,
            [
                service.create(
                    tx,
                    caller,
                    name=asked.name,
                    resource=asked.resource,
                    config=config,
                    variables=asked.variables,
                    policy=policy,
                    entity=asked.entity,
                    now=now,
                    random=ctx.random,
                )
            ],
            now,
        )[0]
    )


@router.get("/queues/{name}")
async def get_queue(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> QueueModel:
    """One queue at its newest version."""
    now = ctx.now()
    return await ctx.db.read(lambda conn: models(conn, [service.find(conn, caller, name, entity)], now)[0])


@router.patch("/queues/{name}")
async def edit_queue(
    ctx: Ctx, caller: Caller, name: str, asked: QueueEdit, entity: str | None = None
) -> QueueModel:
    """Make a new version of a queue. Waiting runs keep the version they were launched with."""
    now = ctx.now()
    config: dict[str, Any] | None = None
    if asked.config is not None:
        queue = await ctx.db.read(lambda conn: service.find(conn, caller, name, entity))
        config = await _config(asked.config, queue.engine)
    return await ctx.db.write(
        lambda tx: models(
            tx.conn,
            [
                service.edit(
                    tx,
                    caller,
                    name,
                    entity=entity,
                    config=config,
                    variables=asked.variables,
                    policy=asked.said(),
                    now=now,
                )
            ],
            now,
        )[0]
    )


@router.delete("/queues/{name}", status_code=204, response_class=Response)
async def delete_queue(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> None:
    """Delete a queue that has no runs."""
    now = ctx.now()
    await ctx.db.write(lambda tx: service.delete(tx, caller, name, entity=entity, now=now))


@router.post("/queues/{name}/pause")
async def pause_queue(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> QueueModel:
    """Hand out no more runs of this queue. What runs goes on."""
    return await _set_paused(ctx, caller, name, entity, paused=True)


@router.post("/queues/{name}/resume")
async def resume_queue(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> QueueModel:
    """Hand out runs again, and take launches again."""
    return await _set_paused(ctx, caller, name, entity, paused=False)


@router.post("/queues/{name}/drain")
async def drain_queue(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> QueueModel:
    """Take no more launches. What waits and what runs goes on."""
    now = ctx.now()
    return await ctx.db.write(
        lambda tx: models(tx.conn, [service.drain(tx, caller, name, entity=entity, now=now)], now)[0]
    )


async def _set_paused(ctx: Ctx, caller: Caller, name: str, entity: str | None, *, paused: bool) -> QueueModel:
    now = ctx.now()
    return await ctx.db.write(
        lambda tx: models(
            tx.conn,
            [service.set_paused(tx, caller, name, entity=entity, paused=paused, now=now)],
            now,
        )[0]
    )


async def _config(given: dict[str, Any] | str, resource: str) -> dict[str, Any]:
    """The config, from data or from text. Reading text may take a while, so others go on meanwhile."""
    if isinstance(given, dict):
        return given
    return await asyncio.to_thread(read_config, given, resource=resource)
