"""What agents ask and say at work: the busiest requests there are (`muster.server.quick`)."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from sqlalchemy import Connection

from muster.domain.observation import AttemptKey
from muster.server.answers import answered
from muster.server.auth import Ctx
from muster.server.context import CLOSING, Context
from muster.server.quick import QuickRoute, Speaker
from muster.service import observe
from muster.service.accounts import code_token, run_token
from muster.service.bus import agent_topic, locality_topic, queue_topic
from muster.service.claim import Ask, Assignment, Claim, Held
from muster.service.observe import Report
from muster.store import agents
from muster.wire import agents as wire
from muster.wire.runs import RunModel

router = APIRouter(tags=["agents"], route_class=QuickRoute)

_AGENTS_KNOWN = 10_000


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
