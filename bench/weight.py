"""What Muster weighs: how long a user waits for it, what it takes when idle, how it lists many runs."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.harness import Bar, Contest, Figure, Plan, Row, Summary, interleave, number_text
from bench.installed import muster_up
from bench.machine import ROOT, venv
from bench.server import USER, prepare, serving
from installation import Installation
from muster.client.settings import ClientSettings
from muster.domain.run import RunState
from muster.domain.runorder import RunKey, RunOrder
from muster.server.context import utc_now

ABOUT = "What a user waits for, and what lies around when nothing runs."
_MUSTER = ROOT / ".venv" / "bin" / "muster"
_IDLE = 10.0
_STORED = 100_000
_IMPORT = "import time; t = time.perf_counter(); import muster; print(time.perf_counter() - t)"


def run(plan: Plan) -> Iterator[Row]:
    yield from waiting(plan)
    yield idling(plan)
    yield slowest_list(plan)


def waiting(plan: Plan) -> list[Row]:
    versions = interleave(
        plan,
        "weight, --version",
        "ms",
        {
            "muster": lambda: call_time([_MUSTER, "--version"], times=5),
            "bare Python": lambda: call_time([sys.executable, "-c", "pass"], times=5),
            "rq": lambda: call_time([venv("rq") / "rq", "--version"]),
            "ray": lambda: call_time([venv("ray") / "ray", "--version"]),
            "prefect": lambda: call_time([venv("prefect") / "prefect", "--version"]),
        },
    )
    imports = interleave(plan, "weight", "ms", {"import": lambda: import_time(times=5)})
    ready = interleave(plan, "weight, muster up ready", "s", {"ready": lambda: ready_time(plan)})
    return [
        _with_peers(versions, "muster --version", "muster", Bar(sense="≤", limit=100)),
        imports.alone("import muster", "import", bar=Bar(sense="≤", limit=50)),
        ready.alone("muster up, first start until ready", "ready", bar=Bar(sense="≤", limit=2)),
    ]


def _with_peers(contest: Contest, what: str, name: str, bar: Bar) -> Row:
    return Row(
        what=what,
        unit=contest.unit,
        result=Summary.of(contest.values[name]),
        bar=bar,
        behind=tuple(contest.figure(other) for other in contest.values if other != name),
    )


def call_time(words: Sequence[str | Path], *, times: int = 1) -> float:
    """Milliseconds from typing it to its end, median."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def import_time(*, times: int) -> float:
    words = [sys.executable, "-c", _IMPORT]
    return 1000 * statistics.median(float(subprocess.check_output(words)) for _ in range(times))


def ready_time(plan: Plan) -> float:
    """Seconds until a fresh installation says it is ready."""
    with tempfile.TemporaryDirectory(dir=plan.folder) as name:
        installation = Installation(Path(name))
        began = time.perf_counter()
        try:
            installation.start()
            return time.perf_counter() - began
        finally:
            installation.destroy()


def idling(plan: Plan) -> Row:
    contest = interleave(plan, "weight, idle", "MB", {"idle": lambda: idle_size(plan)})
    return contest.alone(
        "idle after 10 s, all processes of muster up", "idle", bar=Bar(sense="≤", limit=150), note="PSS"
    )


def idle_size(plan: Plan) -> float:
    """Megabytes; pages shared with others count in part (PSS)."""
    with tempfile.TemporaryDirectory(dir=plan.folder) as name, muster_up(Path(name)) as installation:
        time.sleep(_IDLE)
        server = psutil.Process(installation.server_pid())
        tree = [server, *server.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in tree) / 1e6


def slowest_list(plan: Plan) -> Row:
    """The first page of every list, and of runs under every filter."""
    stored = plan.count(_STORED)
    store = prepare(plan.folder / "lists", None, queued=stored, vary=_different)
    with serving(store) as settings:
        lists = interleave(
            plan,
            "weight, lists",
            "ms",
            {name: _first_page(settings, path, params) for name, (path, params) in _LISTS.items()},
        )
    figures = sorted((lists.figure(name) for name in lists.values), key=_median, reverse=True)
    slowest, others = figures[0], figures[1:]
    return Row(
        what=f"slowest first page with {stored:,} runs: {slowest.name}",
        unit="ms",
        result=slowest.summary,
        bar=Bar(sense="≤", limit=20),
        note="at the server: over a kept connection, less a request that does nothing; then "
        + ", ".join(f"{figure.name} {number_text(_median(figure))}" for figure in others),
    )


#: name → path, parameters
_LISTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "runs": ("/runs", {}),
    "runs of an entity": ("/runs", {"entity": USER}),
    "runs of a project": ("/runs", {"project": "project-7"}),
    "runs of a rare project": ("/runs", {"project": "rare"}),
    "runs of a queue": ("/runs", {"queue": "local"}),
    "runs of an author": ("/runs", {"author": "user-3"}),
    "runs by text": ("/runs", {"text": "name-99"}),
    "runs by a text nobody has": ("/runs", {"text": "nowhere"}),
    **{f"runs {state}": ("/runs", {"state": state.value}) for state in RunState},
    "runs of a project, author and state": (
        "/runs",
        {"project": "project-7", "author": "user-3", "state": "failed"},
    ),
    **{
        f"runs by {RunOrder(by=key, down=down)}": ("/runs", {"sort": str(RunOrder(by=key, down=down))})
        for key in RunKey
        for down in (False, True)
    },
    "queues": ("/queues", {}),
    "agents": ("/agents", {}),
    "keys": ("/keys", {}),
    "entities": ("/entities", {}),
    "audit": ("/audit", {}),
}
_ENDED = (RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED)


def _different(number: int) -> Mapping[str, Any]:
    """Mostly ended runs of many projects and authors; one in a hundred waits."""
    state = RunState.QUEUED if number % 100 == 0 else _ENDED[number % len(_ENDED)]
    at = utc_now() - timedelta(minutes=number)
    length = timedelta(seconds=number % 7_919)
    ended = (
        {"started_at": at - length, "ended_at": at}
        if state.terminal
        else {"started_at": None, "ended_at": None}
    )
    return {
        "name": f"name-{number}",
        "project": "rare" if number % 20_000 == 1 else f"project-{number % 20}",
        "author": f"user-{number % 7}",
        "state": state.value,
        "gpus": (0, 0, 0, 1, 2, 4, 8)[number % 7],
        **ended,
    }


def _first_page(
    settings: ClientSettings, path: str, params: Mapping[str, Any], *, times: int = 15
) -> Callable[[], float]:
    """Milliseconds more than a request that does nothing, median."""

    async def work() -> float:
        headers = {"Authorization": f"Bearer {settings.api_key}"}
        async with httpx.AsyncClient(base_url=settings.url, headers=headers) as client:

            async def took(url: str, query: Mapping[str, Any]) -> float:
                began = time.perf_counter()
                (await client.get(url, params=query)).raise_for_status()
                return time.perf_counter() - began

            await took("/healthz", {})
            pairs = [(await took(f"/api/v1{path}", params), await took("/healthz", {})) for _ in range(times)]
        return 1000 * statistics.median(whole - nothing for whole, nothing in pairs)

    return lambda: asyncio.run(work())


def _median(figure: Figure) -> float:
    return figure.summary.median
