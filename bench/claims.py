"""Claims over HTTP, each durable before the agent hears of it, against plain SQL on the same disk."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from bench.databases import Database, Sqlite, postgres
from bench.harness import Bar, Plan, Row, interleave
from bench.played import PlayedAgent
from bench.server import prepare, serving
from muster.client.api import AsyncClient
from muster.client.settings import ClientSettings
from muster.wire.runs import LaunchRequest

ABOUT = (
    "Claims a second: 8 agents over HTTP, one run a request or fifty, against one UPDATE … RETURNING a "
    "transaction. Every claim is flushed to the disk on both sides."
)
AGENTS = 8
SINGLY, BATCHED, RAW = "singly", "by 50", "plain SQL"
_WINDOW = 10  #: runs an agent takes singly before all are ended; ending is not timed
_SINGLY, _BATCHED, _RAW, _ENQUEUED = 800, 4000, 4000, 5000
_FEW, _MANY = 1_000, 1_000_000
_POLLS = 100


def run(plan: Plan) -> Iterator[Row]:
    yield from on_database(plan, Sqlite(plan.folder))
    with postgres(plan.folder) as server:
        yield from on_database(plan, server)


def on_database(plan: Plan, database: Database) -> Iterator[Row]:
    yield from throughput(plan, database)
    yield depth(plan, database)


def throughput(plan: Plan, database: Database) -> list[Row]:
    """Claims and launches a second."""
    queued = (1 + plan.rounds) * (plan.count(_SINGLY) + plan.count(_BATCHED)) + 2 * AGENTS * 50
    store = prepare(plan.folder / f"{database.name}-claims", database.new(), queued=queued)
    title = f"claims on {database.name}"
    with serving(store) as settings:
        claims = interleave(
            plan,
            title,
            "claims/s",
            {
                SINGLY: lambda: claim_rate(settings, plan.count(_SINGLY), each=_WINDOW, slots=1),
                BATCHED: lambda: claim_rate(settings, plan.count(_BATCHED), each=50, slots=50),
                RAW: lambda: database.raw_claims(plan.count(_RAW)),
            },
        )
        launches = interleave(
            plan, title, "runs/s", {"launches": lambda: launch_rate(settings, plan.count(_ENQUEUED))}
        )
    note = f"plain SQL: {database.raw}"
    return [
        claims.ratio(
            f"{database.name}: {SINGLY} ÷ {RAW}", SINGLY, RAW, bar=Bar(sense="≥", limit=0.1), note=note
        ),
        claims.ratio(f"{database.name}: {BATCHED} ÷ {RAW}", BATCHED, RAW, bar=Bar(sense="≥", limit=0.25)),
        launches.alone(
            f"{database.name}: launches, {plan.count(_ENQUEUED):,} in one request",
            "launches",
            bar=Bar(sense="≥", limit=2000),
        ),
    ]


def depth(plan: Plan, database: Database) -> Row:
    """Does a claim take longer when more runs wait?"""
    few, many = f"{plan.count(_FEW):,} queued", f"{plan.count(_MANY):,} queued"
    with ExitStack() as stack:
        settings: dict[str, ClientSettings] = {}
        for name, queued in ((few, _FEW), (many, _MANY)):
            folder = plan.folder / f"{database.name}-{queued}"
            spare = (1 + plan.rounds) * plan.count(_POLLS)
            store = prepare(folder, database.new(), queued=plan.count(queued) + spare)
            settings[name] = stack.enter_context(serving(store))
        contest = interleave(
            plan,
            f"depth on {database.name}",
            "ms",
            {name: _claim_median(settings[name], plan.count(_POLLS)) for name in (few, many)},
        )
    return contest.ratio(
        f"{database.name}: claim with {many} ÷ with {few}", many, few, bar=Bar(sense="≤", limit=1.5)
    )


def claim_rate(settings: ClientSettings, total: int, *, each: int, slots: int) -> float:
    """Claims a second by agents that work at once. Every so often they end what they have, off the clock."""

    async def window(agents: list[PlayedAgent]) -> tuple[int, float]:
        async def take(agent: PlayedAgent) -> None:
            while len(agent.held) < each:
                if not await agent.claim(slots):
                    raise RuntimeError("no run is left to claim")

        began = time.perf_counter()
        await asyncio.gather(*(take(agent) for agent in agents))
        took = time.perf_counter() - began
        claimed = sum(len(agent.held) for agent in agents)
        for agent in agents:
            await agent.end_all()
        return claimed, took

    async def work() -> float:
        agents = [await PlayedAgent.register(settings, f"agent-{n}") for n in range(AGENTS)]
        claimed = took = 0.0
        while claimed < total:
            more, seconds = await window(agents)
            claimed, took = claimed + more, took + seconds
        for agent in agents:
            agent.wire.close()
        return claimed / took

    return asyncio.run(work())


def launch_rate(settings: ClientSettings, times: int) -> float:
    async def work() -> float:
        requests = [LaunchRequest(command=["true"]) for _ in range(times)]
        client = AsyncClient(settings=settings)
        try:
            began = time.perf_counter()
            await client.launch_batch(requests)
            return times / (time.perf_counter() - began)
        finally:
            await client.close()

    return asyncio.run(work())


def _claim_median(settings: ClientSettings, times: int) -> Callable[[], float]:
    async def work() -> float:
        agent = await PlayedAgent.register(settings, "agent")
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            claimed = await agent.claim(1)
            taken.append(time.perf_counter() - began)
            if not claimed:
                raise RuntimeError("no run is left to claim")
            await agent.end_all()
        agent.wire.close()
        return statistics.median(taken) * 1000

    return lambda: asyncio.run(work())
