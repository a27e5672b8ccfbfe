"""Logs at speed: how soon a line arrives, how much one follower takes, what fifty cost everybody else.

    python bench/followers.py

starts an installation of its own in a temporary folder, with the server, an agent and real runs, and
prints one JSON document.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent / "tests"))

from installation import Installation  # noqa: E402 - found beside the tests

FOLLOWERS = 50
PROBES = 50  #: requests a second that look at the list of runs meanwhile
SLOW_LINES, FAST_LINES = 5_000, 50_000  #: lines a second

STAMPS = """
import time
for _ in range(150):
    print(time.time(), flush=True)
    time.sleep(0.073)
"""
#: Lines of 80 bytes at a steady rate; the last one says when it was printed.
FLOOD = """
import sys, time
rate, seconds = int(sys.argv[1]), float(sys.argv[2])
begun, number = time.monotonic(), 0
while (spent := time.monotonic() - begun) < seconds:
    due = int(spent * rate)
    sys.stdout.write("".join(f"{n:08d} {'x' * 70}\\n" for n in range(number, due)))
    sys.stdout.flush()
    number = due
    time.sleep(0.01)
print("total", number, time.time(), flush=True)
"""


def measure() -> dict[str, Any]:
    """All figures, of a fresh installation."""
    with tempfile.TemporaryDirectory() as folder:
        muster = Installation(Path(folder))
        muster.start()
        try:
            return {
                "latency_ms": _latency(muster),
                "fast_run": _fast_run(muster),
                "api_ms_in_a_flood": _bystanders(muster, followers=0),
                f"api_ms_with_{FOLLOWERS}_followers": _bystanders(muster, followers=FOLLOWERS),
            }
        finally:
            muster.destroy()


def _latency(muster: Installation) -> dict[str, float]:
    """From `print` to a follower, one line at a time."""
    run = muster.launch(["python3", "-c", STAMPS])
    late = [1000 * (time.time() - float(line)) for line in run.logs(follow=True)]
    return _spread(late[5:])


def _fast_run(muster: Installation, seconds: float = 6) -> dict[str, Any]:
    """Does one follower keep up with the fastest run, and is every line there, in order?"""
    run = muster.launch(["python3", "-c", FLOOD, str(FAST_LINES), str(seconds)])
    before = _cpu_seconds(muster.server_pid())
    *lines, last = run.logs(follow=True)
    ended = time.time()
    _, total, printed = last.split()
    in_order = all(int(line[:8]) == number for number, line in enumerate(lines))
    return {
        "lines": len(lines),
        "whole": in_order and len(lines) == int(total),
        "seconds_after_the_last_line": round(ended - float(printed), 3),
        "server_cpu_seconds": round(_cpu_seconds(muster.server_pid()) - before, 2),
    }


def _bystanders(muster: Installation, *, followers: int, seconds: float = 15) -> dict[str, Any]:
    """What other requests take while a run floods, with followers and without."""
    run = muster.launch(["python3", "-c", FLOOD, str(SLOW_LINES), str(seconds)])
    before = _cpu_seconds(muster.server_pid())
    with _in_a_process("follow", muster, run.id, str(followers)) as following:
        with _in_a_process("probe", muster, str(seconds - 4)) as probing:
            took = json.loads(probing.communicate()[0])
        run.wait(120)
        ended = time.time()
        seen = json.loads(following.communicate()[0])
    whole = sum(1 for _ in run.logs()) * followers
    return {
        **_spread(took),
        "server_cpu_seconds": round(_cpu_seconds(muster.server_pid()) - before, 2),
        **(
            {"all_whole": seen["lines"] == whole, "end_after_run": round(seen["ended"] - ended, 3)}
            if followers
            else {}
        ),
    }


@contextmanager
def _in_a_process(role: str, muster: Installation, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(HERE), role, muster.url, muster.key, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _probe(url: str, key: str, seconds: str) -> list[float]:
    """A steady beat of requests; each counts from when it was due, so waiting in line is not forgotten."""
    took: list[float] = []
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        await client.get("/api/v1/runs?limit=20")
        await asyncio.sleep(2)
        begun = time.perf_counter()

        async def ask(number: int) -> None:
            due = begun + number / PROBES
            await asyncio.sleep(due - time.perf_counter())
            due = max(due, time.perf_counter() - 0.002)  # our own timer's lateness is not the server's
            (await client.get("/api/v1/runs?limit=20")).raise_for_status()
            took.append(1000 * (time.perf_counter() - due))

        await asyncio.gather(*(ask(number) for number in range(int(PROBES * (float(seconds) - 2)))))
    return took


async def _follow(url: str, key: str, run_id: str, number: str) -> dict[str, float]:
    """Many followers that only count lines: they must not be what is slow."""
    counts = await asyncio.gather(*(_count_lines(url, key, run_id) for _ in range(int(number))))
    return {"lines": sum(counts), "ended": time.time()}


async def _count_lines(url: str, key: str, run_id: str) -> int:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**20)
    head = f"GET /api/v1/runs/{run_id}/logs/stream HTTP/1.1\r\nHost: {host}:{port}\r\n"
    writer.write(f"{head}Authorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode())
    lines, last = 0, b""
    while data := await reader.read(2**18):
        lines += data.count(rb"\n") + (last[-1:] == b"\\" and data[:1] == b"n")
        last = data
    writer.close()
    return lines


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"median": round(cuts[49], 1), "p99": round(cuts[98], 1), "max": round(max(values), 1)}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


if __name__ == "__main__":
    roles = {"probe": _probe, "follow": _follow}
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(roles[sys.argv[1]](*sys.argv[2:]))))
    else:
        print(json.dumps(measure(), indent=2))
