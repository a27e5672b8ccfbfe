"""Logs: how soon a line is with who follows, how many lines a second arrive, what followers cost others."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from bench.harness import Bar, CannotMeasure, Plan, Row, interleave, percentile
from bench.installed import muster_up
from bench.machine import ROOT
from bench.processes import Processes, until
from installation import Installation
from muster.client.api import AsyncClient
from muster.client.sdk import Run
from muster.client.settings import ClientSettings
from muster.domain.run import RunState

ABOUT = "One run prints, followers read its log as it grows; meanwhile others use the API."
FOLLOWERS = 50
_TICKS, _LINES, _FLOOD = 100, 500_000, 5_000
_WATCH = 6.0  #: seconds for which the API is used under the flood
_EVERY = 0.02  #: seconds from one request to the next, whether that was answered or not

# Prints the time, now and then.
_TICK = """
import random, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(random.uniform(0.005, 0.035))
    print(time.monotonic_ns(), flush=True)
"""
# Prints the time, then numbered lines as fast as it can.
_POUR = """
import sys, time
print(time.monotonic_ns())
for n in range(int(sys.argv[1])):
    sys.stdout.write(f"{n} epoch 3 loss 0.4821 lr 0.00100\\n")
"""
# Prints so many lines a second, for so many seconds.
_STREAM = """
import sys, time
rate, seconds = int(sys.argv[1]), float(sys.argv[2])
began, printed = time.monotonic(), 0
while printed < rate * seconds:
    time.sleep(0.01)
    due = min(int((time.monotonic() - began) * rate), int(rate * seconds))
    sys.stdout.write("".join(f"{n} epoch 3 loss 0.4821 lr 0.00100\\n" for n in range(printed, due)))
    sys.stdout.flush()
    printed = due
"""


def run(plan: Plan) -> list[Row]:
    with muster_up(plan.folder / "logs") as installation:
        delays = interleave(plan, "logs", "ms", {"delay": lambda: delay(installation, plan.count(_TICKS))})
        lines = plan.count(_LINES)
        rates = interleave(plan, "logs", "lines/s", {"lines": lambda: line_rate(installation, lines)})
        quiet, crowd = "no follower", f"{FOLLOWERS} followers"
        seconds = _WATCH * min(1.0, plan.scale * 2)
        answers = interleave(
            plan,
            "logs",
            "ms",
            {
                quiet: lambda: answer_p99(installation, 0, seconds),
                crowd: lambda: answer_p99(installation, FOLLOWERS, seconds),
            },
        )
    return [
        delays.alone("print → in the follower's hands, median", "delay", bar=Bar(sense="≤", limit=100)),
        rates.alone(
            f"{lines:,} lines of one run at once, followed",
            "lines",
            bar=Bar(sense="≥", limit=50_000),
            note="every line there and in order, or it would not be here",
        ),
        answers.ratio(
            f"p99 of the API with {crowd} ÷ without",
            crowd,
            quiet,
            bar=Bar(sense="≤", limit=2),
            note=f"one run prints {_FLOOD:,} lines/s; 50 requests/s for runs, one run and the queue, "
            "whether answered or not; every follower was given every line",
        ),
    ]


def delay(installation: Installation, times: int) -> float:
    """Milliseconds from print to the follower, median of many lines."""

    async def work() -> float:
        taken = []
        async with aclosing(follow(installation, _start(installation, _TICK, times))) as lines:
            async for line, at in lines:
                taken.append((at - int(line)) / 1e6)
        return statistics.median(taken)

    return asyncio.run(work())


def line_rate(installation: Installation, times: int) -> float:
    """Lines a second, from the first print to the last line in the follower's hands."""

    async def work() -> float:
        async with aclosing(follow(installation, _start(installation, _POUR, times))) as lines:
            first, last_at = await anext(lines)
            expected = 0
            async for line, at in lines:
                if int(line.partition(" ")[0]) != expected:
                    raise CannotMeasure(f"line {expected} was expected, {line!r} came")
                expected, last_at = expected + 1, at
        if expected != times:
            raise CannotMeasure(f"{expected} of {times} lines came")
        return times / ((last_at - int(first)) / 1e9)

    return asyncio.run(work())


async def follow(installation: Installation, run: Run) -> AsyncGenerator[tuple[str, int], None]:
    """Lines of the run's log, each with the time it came."""
    client = AsyncClient(settings=ClientSettings(url=installation.url, api_key=installation.key))
    rest = ""
    try:
        async for chunk in client.follow_logs(run.id):
            at = time.monotonic_ns()
            *lines, rest = (rest + chunk.text).split("\n")
            for line in lines:
                yield line, at
    finally:
        await client.close()


def answer_p99(installation: Installation, followers: int, seconds: float) -> float:
    """Milliseconds within which 99 of 100 requests are answered while a run floods its log."""
    lasting = seconds + 4
    run = _start(installation, _STREAM, _FLOOD, lasting)
    until(lambda: run.state is RunState.RUNNING, seconds=30, what="the flood")
    with Processes(installation.data.parent / "crowd") as processes:
        words = [sys.executable, "-m", "bench.crowd", installation.url, run.id, str(followers)]
        crowd = processes.spawn("crowd", words, env=_bench_env(installation), talks=True)
        assert crowd.stdout is not None
        if crowd.stdout.readline() != b"ready\n":
            raise CannotMeasure(f"the followers failed: {processes.log('crowd').read_text()[-300:]}")
        taken = asyncio.run(_use_api(installation, run.id, seconds))
        if run.state is not RunState.RUNNING:
            raise CannotMeasure("the flood ended before the API was measured")
        given = json.loads(crowd.stdout.readline())
    run.wait(60)
    if any(lines != int(_FLOOD * lasting) for lines in given):
        raise CannotMeasure(
            f"of {int(_FLOOD * lasting)} lines, followers were given {min(given)} … {max(given)}"
        )
    return percentile(taken, 99) * 1000


async def _use_api(installation: Installation, run_id: str, seconds: float) -> list[float]:
    """Ask at a steady pace, whether the last one was answered or not; what each took."""
    client = AsyncClient(settings=ClientSettings(url=installation.url, api_key=installation.key))
    loop = asyncio.get_running_loop()

    async def ask(number: int, due: float) -> float:
        await asyncio.sleep(due - loop.time())
        sent = loop.time()  # not `due`: if our own timer is late, that is not the server's doing
        match number % 3:
            case 0:
                await client.list_runs(limit=20)
            case 1:
                await client.get_run(run_id)
            case _:
                await client.get_queue("local")
        return loop.time() - sent

    count = int(seconds / _EVERY)
    try:
        await client.get_me()
        began = loop.time() + 0.1
        taken = await asyncio.gather(*(ask(n, began + n * _EVERY) for n in range(count)))
    finally:
        await client.close()
    return list(taken)


def _start(installation: Installation, script: str, *arguments: float) -> Run:
    return installation.launch([sys.executable, "-c", script, *map(str, arguments)])


def _bench_env(installation: Installation) -> dict[str, str]:
    return {"MUSTER_API_KEY": installation.key, "PYTHONPATH": str(ROOT)}
