"""The drill: many short runs over several agents, while server and agents are killed and frozen at random.

Checked from the server and from marks the runs themselves leave on disk: nothing lost, nothing committed
twice, never two processes of one run at once, every log whole.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from installation import MUSTER, Installation, until
from muster.client.settings import ClientSettings
from muster.client.sync import Client
from muster.domain.errors import MusterError
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest, RunModel

AGENTS = 4
FREEZE_SECONDS = 18.0  #: longer than a lease
#: Says on disk when it begins and ends, and how the same attempt looks in its log.
SCRIPT = (
    "echo begin; echo begin $MUSTER_ATTEMPT $(date +%s%N) >> {marks}/$MUSTER_RUN_ID; sleep 0.{tenths}; "
    "echo end $MUSTER_ATTEMPT $(date +%s%N) >> {marks}/$MUSTER_RUN_ID; echo end"
)


@dataclass
class Fleet:
    """One server and several agents on one machine, each a process of its own."""

    home: Path
    rng: random.Random
    env: dict[str, str] = field(default_factory=dict)
    server: subprocess.Popen[bytes] | None = None
    agents: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    port: int = 0
    kills: dict[str, int] = field(default_factory=lambda: {"server": 0, "agent": 0, "freeze": 0})

    def set_up(self) -> None:
        base = Installation(self.home)
        self.env = base.env
        made = base.muster("server", "init", "--user", "drill", check=True)
        self.env["MUSTER_API_KEY"] = made.stdout.strip()
        self.start_server()
        for number in range(AGENTS):
            self.start_agent(f"agent-{number}")

    def start_server(self) -> None:
        log = self.home / "server.log"
        mark = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            self.server = subprocess.Popen(
                [*MUSTER, "server", "--port", str(self.port)], env=self.env, stdout=out, stderr=out
            )
        found = until(lambda: re.search(r"serves at http://127\.0\.0\.1:(\d+)", log.read_text()[mark:]))
        self.port = int(found[1])
        self.env["MUSTER_URL"] = f"http://127.0.0.1:{self.port}"

    def start_agent(self, name: str) -> None:
        with (self.home / f"{name}.log").open("ab") as out:
            self.agents[name] = subprocess.Popen(
                [*MUSTER, "agent", "--name", name, "--queue", "local", "--max-jobs", "6"],
                env=self.env,
                stdout=out,
                stderr=out,
            )

    def client(self) -> Client:
        return Client(settings=ClientSettings(url=self.env["MUSTER_URL"], api_key=self.env["MUSTER_API_KEY"]))

    def kill_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.kills["server"] += 1
        self.start_server()

    def kill_agent(self) -> None:
        name = self.rng.choice(sorted(self.agents))
        self.agents[name].kill()
        self.agents[name].wait()
        self.kills["agent"] += 1
        self.start_agent(name)

    def freeze_agent(self) -> tuple[float, subprocess.Popen[bytes]]:
        name = self.rng.choice(sorted(self.agents))
        victim = self.agents[name]
        victim.send_signal(signal.SIGSTOP)
        self.kills["freeze"] += 1
        return time.monotonic() + FREEZE_SECONDS, victim

    def tear_down(self) -> None:
        for process in (*self.agents.values(), self.server):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    seed = int(os.environ.get("MUSTER_DRILL_SEED", random.SystemRandom().randrange(10**9)))
    print(f"seed {seed}")
    made = Fleet(tmp_path, random.Random(seed))  # noqa: S311 - where to strike, not a secret
    made.set_up()
    try:
        yield made
    finally:
        made.tear_down()


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_happens_twice(fleet: Fleet, tmp_path: Path) -> None:
    runs = int(os.environ.get("MUSTER_DRILL_RUNS", "300"))
    seconds = float(os.environ.get("MUSTER_DRILL_SECONDS", "45"))
    marks = tmp_path / "marks"
    marks.mkdir()
    with fleet.client() as client:
        launched = client.launch_batch(
            [
                LaunchRequest(
                    command=["sh", "-c", SCRIPT.format(marks=marks, tenths=fleet.rng.randrange(1, 6))],
                    values={"cpus": 0.1},
                )
                for _ in range(runs)
            ]
        ).items
        strike_until(fleet, time.monotonic() + seconds)
        ended = until(lambda: all_ended(client, runs), seconds=240, what="all runs to end")
        problems = [
            problem for run in ended for problem in (*told(run), *on_disk(run, marks), *logged(client, run))
        ]
    print(f"{runs} runs, {fleet.kills}, {sum(run.attempt > 1 for run in ended)} tried again")
    assert {run.id for run in ended} == {run.id for run in launched}
    assert problems == []


def strike_until(fleet: Fleet, deadline: float) -> None:
    thaw: list[tuple[float, subprocess.Popen[bytes]]] = []
    while time.monotonic() < deadline or thaw:
        for when, victim in [item for item in thaw if item[0] <= time.monotonic()]:
            victim.send_signal(signal.SIGCONT)
            thaw.remove((when, victim))
        if time.monotonic() < deadline:
            kind = fleet.rng.random()
            if kind < 0.3:
                fleet.kill_server()
            elif kind < 0.8:
                fleet.kill_agent()
            elif len(thaw) < 2:
                thaw.append(fleet.freeze_agent())
        time.sleep(fleet.rng.uniform(0.2, 1.5))


def all_ended(client: Client, count: int) -> list[RunModel]:
    found: list[RunModel] = []
    cursor: str | None = None
    try:
        while True:
            page = client.list_runs(limit=1000, cursor=cursor)
            found += page.items
            cursor = page.next
            if cursor is None:
                break
    except MusterError:
        return []
    done = len(found) == count and all(run.state.terminal for run in found)
    return found if done else []


def told(run: RunModel) -> list[str]:
    return [] if run.state is RunState.SUCCEEDED else [f"{run.id} is {run.state}: {run.failure}"]


def on_disk(run: RunModel, marks: Path) -> list[str]:
    """Every beginning has its end before the next beginning; the attempt that counts ended."""
    try:
        lines = (marks / run.id).read_text().splitlines()
    except FileNotFoundError:
        return [f"{run.id} left no mark"]
    events = sorted((int(at), word, int(attempt)) for word, attempt, at in (line.split() for line in lines))
    problems = []
    words = [(word, attempt) for _, word, attempt in events]
    for before, after in pairwise(words):
        if before[0] == after[0] == "begin" and before[1] == after[1]:
            problems.append(f"{run.id} began twice in attempt {after[1]}: {words}")
        if before[0] == "begin" and after[0] == "end" and before[1] != after[1]:
            problems.append(f"{run.id} overlapped: {words}")
    if ("end", run.attempt) not in words:
        problems.append(f"{run.id} is said to have ended in attempt {run.attempt}: {words}")
    return problems


def logged(client: Client, run: RunModel) -> list[str]:
    log = client.read_log(run.id, attempt=run.attempt)
    return [] if log == b"begin\nend\n" else [f"{run.id} has the log {log!r}"]
