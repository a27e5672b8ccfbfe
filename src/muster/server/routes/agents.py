"""What agents ask and say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import ValidationError
from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.agent import Agent
from muster.domain.errors import BadInput, Conflict
from muster.domain.names import is_id
from muster.domain.observation import AttemptKey
from muster.server.answers import answered
from muster.server.auth import Caller, Ctx
from muster.server.context import CLOSING, Context
from muster.service import claim, fleet, observe
from muster.service.accounts import code_token, run_token
from muster.service.bus import agent_topic, locality_topic, log_topic, queue_topic
from muster.service.claim import Ask, Assignment, Claim, Held
from muster.service.fleet import Registration
from muster.service.observe import Report
from muster.store import agents, attempts, events, queues, runs
from muster.store.attempts import Attempt
from muster.store.database import Tx
from muster.store.logs import LogKey
from muster.store.usage import FIELDS, UsagePoint
from muster.wire import agents as wire
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER, Page
from muster.wire.runs import ResourcesModel, RunModel

router = APIRouter(tags=["agents"])

_AGENTS_KNOWN = 10_000
_RUNS_SHOWN = 200
_WORDS = 20
_MAX_INDEX = 4 * 1024 * 1024


async def same_protocol(
    caller: Caller,
    spoken: Annotated[
        str, Header(alias=PROTOCOL_HEADER, description=f"The agent protocol: {PROTOCOL} for this server.")
    ],
) -> Actor:
    """Before the body is looked at: one of another protocol may be of another shape."""
    if spoken != PROTOCOL:
        raise Conflict(
            f"This server speaks agent protocol {PROTOCOL}, not {spoken!r}.",
            hint="Use an agent of the server's version.",
        )
    return caller


Speaker = Annotated[Actor, Depends(same_protocol)]  #: an agent, in this server's protocol


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


@router.post("/agents/{agent_id}/poll", response_model=wire.PollAnswer)
async def poll_work(
    ctx: Ctx, caller: Speaker, agent_id: str, asked: wire.PollRequest, request: Request
) -> Response:
    """Renew all leases; wait for work and commands, and answer at once when there is any."""
    held = [
        Held(
            key=AttemptKey(run_id=item.run_id, attempt=item.attempt),
            epoch=item.epoch,
            stopping=item.stopping,
        )
        for item in asked.held
    ]
    ask = Ask(
        actor=caller,
        agent_id=agent_id,
        incarnation=asked.incarnation,
        held=held,
        slots=asked.slots,
        free=asked.free.to_domain(),
        heard=ctx.now(),
        draining=asked.draining,
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + asked.wait
    topics = await _topics(ctx, agent_id, asked.incarnation)
    with ctx.bus.listen(*topics, CLOSING) as wake:
        while True:
            wake.clear()
            assignment = await ctx.db.write_among(ctx.assign, ask)
            left = deadline - loop.time()
            if assignment or left <= 0 or ctx.closing:
                return answered(_answer(ctx, assignment))
            try:
                await asyncio.wait_for(wake.wait(), left)
            except TimeoutError:
                return answered(wire.PollAnswer())
            if await request.is_disconnected():  # killed: what it is given now, nobody hears of
                return answered(wire.PollAnswer())


async def _topics(ctx: Context, agent_id: str, incarnation: str) -> tuple[str, ...]:
    """What wakes an agent. It is settled when it registers, which a new incarnation does anew."""

    def look(conn: Connection) -> tuple[str, ...]:
        agent = agents.find(conn, agent_id)
        if agent is None or agent.incarnation != incarnation:
            return ()
        served = (queue_topic(queue_id) for queue_id in agents.queue_ids(conn, agent_id))
        return (agent_topic(agent_id), locality_topic(agent.locality), *served)

    place = (agent_id, incarnation)
    if place not in ctx.topics:
        topics = await ctx.db.read(look)
        if not topics:
            return ()
        if len(ctx.topics) >= _AGENTS_KNOWN:
            ctx.topics.clear()
        ctx.topics[place] = topics
    return ctx.topics[place]


def _answer(ctx: Context, assignment: Assignment) -> wire.PollAnswer:
    return wire.PollAnswer(
        claims=[_claim(ctx, item) for item in assignment.claims],
        stops=[wire.KeyModel(**key.__dict__) for key in assignment.stops],
        drops=[wire.KeyModel(**key.__dict__) for key in assignment.drops],
    )


def _claim(ctx: Context, item: Claim) -> wire.ClaimModel:
    head = item.run.head
    return wire.ClaimModel(
        run=RunModel.of(item.run),
        bound_config=dict(item.run.spec.config),
        attempt=head.attempt,
        epoch=head.epoch,
        adopt=item.adopt,
        report_seq=item.report_seq,
        token=run_token(ctx.secret, head.id, head.attempt),
        security=item.run.spec.security,
        code_key=code_token(ctx.secret, head.id, head.attempt) if item.run.spec.snapshot else None,
        public_url=ctx.settings.public_url,
    )


@router.post("/agents/{agent_id}/reports", response_model=wire.ReportAnswer)
async def send_reports(ctx: Ctx, caller: Speaker, agent_id: str, asked: wire.ReportBatch) -> Response:
    """What the agent saw. Sending it again is harmless; what is out of date is refused by name."""
    reports = [_report(item) for item in asked.reports]
    now = ctx.now()
    refused = await ctx.db.write(
        lambda tx: observe.report(tx, caller, agent_id, asked.incarnation, reports, now=now)
    )
    answer = wire.ReportAnswer(
        refused=[
            wire.RefusedModel.model_construct(
                run_id=item.key.run_id, attempt=item.key.attempt, epoch=item.epoch, reason=item.reason
            )
            for item in refused
        ]
    )
    return answered(answer)


def _report(item: wire.ReportModel) -> Report:
    key = AttemptKey(run_id=item.run_id, attempt=item.attempt)
    if isinstance(item.fact, wire.ManifestFact):
        return Report(key=key, epoch=item.epoch, seq=item.seq, manifest=item.fact.manifest)
    return Report(key=key, epoch=item.epoch, seq=item.seq, fact=wire.fact_from_wire(item.fact))


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
