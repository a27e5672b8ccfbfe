"""What agents ask and say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError
from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.agent import Agent
from muster.domain.errors import BadInput
from muster.domain.names import is_id
from muster.domain.observation import AttemptKey
from muster.server.auth import Caller, Ctx
from muster.server.quick import Speaker
from muster.service import claim, fleet
from muster.service.bus import log_topic
from muster.service.fleet import Registration
from muster.store import agents, attempts, events, queues, runs
from muster.store.attempts import Attempt
from muster.store.database import Tx
from muster.store.logs import LogKey
from muster.store.usage import FIELDS, UsagePoint
from muster.wire import agents as wire
from muster.wire.base import Page
from muster.wire.runs import ResourcesModel

router = APIRouter(tags=["agents"])

_RUNS_SHOWN = 200
_WORDS = 20
_MAX_INDEX = 4 * 1024 * 1024


@router.post("/agents", status_code=201)
async def register_agent(ctx: Ctx, caller: Speaker, asked: wire.AgentRequest) -> wire.AgentModel:
    """Enter an agent. One of the same name is overtaken by it."""
    now = ctx.now()
    registration = Registration(
        name=asked.name,
        incarnation=asked.incarnation,
        engine=asked.engine,
        host=asked.host,
        locality=asked.locality,
        version=asked.version,
        max_jobs=asked.max_jobs,
        total=asked.total.to_domain(),
        devices=tuple(asked.devices),
        queues=tuple(asked.queues),
        entity=asked.entity,
    )

    def work(tx: Tx) -> wire.AgentModel:
        agent, served = fleet.register(tx, caller, registration, now=now, random=ctx.random)
        names = [queue.name for queue in served]
        return wire.AgentModel.of(agent, queues=names, running=0, now=now)

    return await ctx.db.write(work)


@router.get("/agents")
async def list_agents(ctx: Ctx, caller: Caller, entity: str | None = None) -> Page[wire.AgentModel]:
    """The agents one may see, online or not."""
    now = ctx.now()

    def work(conn: Connection) -> Page[wire.AgentModel]:
        if entity is not None:
            caller.require(Action.READ, entity)
        wanted = caller.visible if entity is None else (entity,)
        return Page(items=[_model(conn, agent, now) for agent in agents.of_entities(conn, wanted)])

    return await ctx.db.read(work)


def _model(conn: Connection, agent: Agent, now: datetime) -> wire.AgentModel:
    names = [queue.name for queue in queues.of_agent(conn, agent.id)]
    running = len(runs.live_of_agent(conn, agent.id))
    return wire.AgentModel.of(agent, queues=names, running=running, now=now)


@router.get("/agents/{name}")
async def get_agent(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> wire.AgentDetail:
    """One agent: what it has now, and what it said last."""
    now = ctx.now()

    def work(conn: Connection) -> wire.AgentDetail:
        agent = fleet.find(conn, caller, name, entity)
        words = events.last_words(conn, agent.name, agent.entity, limit=_WORDS)
        return wire.AgentDetail(
            agent=_model(conn, agent, now),
            runs=_runs_of(conn, agent),
            words=[
                wire.WordModel(
                    run_id=event.run_id,
                    run_name=run_name,
                    attempt=event.attempt,
                    type=event.type,
                    at=event.at,
                    data=dict(event.data),
                )
                for run_name, event in words
            ],
        )

    return await ctx.db.read(work)


def _runs_of(conn: Connection, agent: Agent) -> list[wire.AgentRunModel]:
    heads = runs.live_of_agent(conn, agent.id)[:_RUNS_SHOWN]
    keys = {head.id: AttemptKey(run_id=head.id, attempt=head.attempt) for head in heads}
    members = attempts.replicas_of_many(conn, keys.values())
    found = runs.find_many(conn, keys)
    return [
        wire.AgentRunModel(
            id=run.id,
            name=run.name,
            state=run.state,
            queue=run.queue,
            author=run.author,
            claimed_at=run.claimed_at,
            started_at=run.head.started_at,
            resources=ResourcesModel.of(run.spec.resources),
            nodes=sorted({member.node for member in members.get(keys[run.id], {}).values() if member.node}),
            devices=sorted(
                {device for member in members.get(keys[run.id], {}).values() for device in member.devices}
            ),
        )
        for run in sorted(found.values(), key=lambda run: run.claimed_at or run.created_at)
    ]


@router.post("/agents/{name}/pause")
async def pause_agent(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> wire.AgentModel:
    """Give an agent no more runs, also when it is started again. What it has goes on."""
    return await _set_paused(ctx, caller, name, entity, paused=True)


@router.post("/agents/{name}/resume")
async def resume_agent(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> wire.AgentModel:
    """Give an agent runs again."""
    return await _set_paused(ctx, caller, name, entity, paused=False)


async def _set_paused(
    ctx: Ctx, caller: Actor, name: str, entity: str | None, *, paused: bool
) -> wire.AgentModel:
    now = ctx.now()

    def work(tx: Tx) -> wire.AgentModel:
        agent = fleet.set_paused(tx, caller, name, entity, paused=paused, now=now)
        return _model(tx.conn, agent, now)

    return await ctx.db.write(work)


@router.delete("/agents/{name}", status_code=204, response_class=Response)
async def delete_agent(ctx: Ctx, caller: Caller, name: str, entity: str | None = None) -> None:
    """Remove an agent that is gone for good."""
    now = ctx.now()
    await ctx.db.write(lambda tx: fleet.forget(tx, caller, name, entity, now=now))


@router.post(
    "/agents/{agent_id}/logs",
    response_model=wire.LogAnswer,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
async def send_logs(ctx: Ctx, caller: Speaker, agent_id: str, request: Request) -> Response:
    """Output of many replicas in one body: a line of JSON (`LogIndex`), then the raw bytes it names.
    Bytes the server has already are passed over; the answer says how much it has now."""
    index, data = _split(await request.body())

    def look(conn: Connection) -> Mapping[AttemptKey, Attempt]:
        claim.require_agent(conn, caller, agent_id, index.incarnation)
        keys = ((piece.run_id, piece.attempt) for piece in index.pieces if is_id(piece.run_id))
        return attempts.find_many(conn, [AttemptKey(run_id=run, attempt=attempt) for run, attempt in {*keys}])

    tries = await ctx.db.read(look)
    epochs = {
        (key.run_id, key.attempt): attempt.epoch
        for key, attempt in tries.items()
        if attempt.agent_id == agent_id
    }
    micros = int(ctx.now().timestamp() * 1_000_000)

    def write() -> bytes:
        lengths, position = [], 0
        for piece in index.pieces:
            part = data[position : position + piece.length]
            position += piece.length
            length, marked, mark = None, 0, None
            if epochs.get((piece.run_id, piece.attempt)) == piece.epoch:
                key = LogKey(run_id=piece.run_id, attempt=piece.attempt, rank=piece.rank)
                length = ctx.logs.write(key, piece.offset, part, at_micros=micros, mark=piece.mark)
                marked, mark = ctx.logs.mark(key) if piece.length == 0 else (0, None)
            lengths.append(
                wire.LogLength.model_construct(
                    run_id=piece.run_id,
                    attempt=piece.attempt,
                    rank=piece.rank,
                    length=length,
                    marked=marked,
                    mark=mark,
                )
            )
        return wire.LogAnswer.model_construct(lengths=lengths).model_dump_json().encode()

    try:
        answer = await asyncio.to_thread(write)
    finally:  # also if the disk was full in the middle of it
        ctx.db.tell({log_topic(piece.run_id) for piece in index.pieces if piece.length})
    return Response(answer, media_type="application/json")


def _split(body: bytes) -> tuple[wire.LogIndex, memoryview]:
    end = body.find(b"\n", 0, _MAX_INDEX)
    if end < 0:
        raise BadInput("A log upload begins with a line of JSON.", hint="See LogIndex in /api/docs.")
    try:
        index = wire.LogIndex.model_validate_json(body[:end])
    except ValidationError as error:
        raise BadInput(f"The index of the log upload cannot be read: {error.errors()[0]['msg']}.") from error
    data = memoryview(body)[end + 1 :]
    if sum(piece.length for piece in index.pieces) != len(data):
        raise BadInput("The index of the log upload does not fit its bytes.", hint="Send it again whole.")
    return index, data


@router.post("/agents/{agent_id}/usage", status_code=204, response_class=Response)
async def send_usage(ctx: Ctx, caller: Speaker, agent_id: str, asked: wire.UsageBatch) -> None:
    """Resource use of the agent's live replicas."""

    def look(conn: Connection) -> set[str]:
        claim.require_agent(conn, caller, agent_id, asked.incarnation)
        return {head.id for head in runs.live_of_agent(conn, agent_id)}

    live = await ctx.db.read(look)

    def write() -> None:
        for sample in asked.samples:
            if sample.run_id in live:
                key = LogKey(run_id=sample.run_id, attempt=sample.attempt, rank=sample.rank)
                values = tuple(getattr(sample, name) for name in FIELDS)
                ctx.usage.append(key, [UsagePoint(at=sample.at, values=values)])

    await asyncio.to_thread(write)


@router.post("/agents/{agent_id}/leave", status_code=204, response_class=Response)
async def leave_agent(ctx: Ctx, caller: Caller, agent_id: str, asked: wire.LeaveRequest) -> None:
    """The agent stops. What it ran goes on and waits for the next agent that can see it."""
    now = ctx.now()
    await ctx.db.write(lambda tx: fleet.leave(tx, caller, agent_id, asked.incarnation, now=now))
