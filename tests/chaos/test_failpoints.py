"""A process dies at every place where it may, is started again, and everything comes out right.

One installation serves all of them: what a point needs is started for it, dies there while runs are on
their way, and is started again. Then each run must be at its one end, the right one, with nothing left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import create_engine, select

from chaos import checks, record
from chaos.drill import insist
from chaos.fleet import Fleet
from chaos.orders import FOREVER, SCRIPT, Kind, Order
from chaos.submit import RUN
from installation import Installation, until
from muster.client.sync import Client
from muster.client.upload import upload_code
from muster.domain.run import RunState
from muster.store.schema import snapshots
from muster.wire.runs import LaunchRequest

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "muster"
AGENT = "agent-0"
PATIENCE = 120.0  #: seconds for what takes one or two on a machine with nothing else to do
#: When the process comes to the point: as runs are launched; as it starts again while a run is on its way;
#: as it then takes that over; as it starts and finds what a run left whose end was told.
#: As runs are launched on an agent that just began, and measures for the first time.
When = Literal["launching", "measuring", "starting", "taking over", "tidying"]


@dataclass(frozen=True, kw_only=True)
class Point:
    name: str  #: `@2`: the second time it comes there
    process: Literal["server", "agent"]
    when: When = "launching"
    seconds: float = 0.3  #: that the plain run takes
    environment: bool = False  #: the code asks for an environment of its own
    quick: bool = False  #: part of `make test`


def server(name: str, when: When = "launching", **options: bool | float) -> Point:
    return Point(name=name, process="server", when=when, **options)  # type: ignore[arg-type]


def agent(name: str, when: When = "launching", **options: bool | float) -> Point:
    return Point(name=name, process="agent", when=when, **options)  # type: ignore[arg-type]


POINTS = (
    *(server(f"commit.before@{nth}") for nth in (1, 2, 3, 5, 8)),
    *(server(f"commit.after@{nth}", quick=nth == 3) for nth in (1, 2, 3, 5, 8)),
    server("blob.before", quick=True),
    server("blob.after"),
    server("log.before"),
    server("log.after"),
    server("usage.before", "measuring", seconds=7.0),
    server("usage.after", "measuring", seconds=7.0),
    *(agent(f"request.before@{nth}") for nth in (1, 3)),
    *(agent(f"request.after@{nth}") for nth in (1, 3)),
    agent("register.before", "starting"),
    agent("register.after", "starting"),
    agent("poll.after"),
    agent("report.before"),
    agent("report.after", quick=True),
    agent("ship.before"),
    agent("ship.after"),
    agent("code.before"),
    agent("code.after"),
    agent("checkout.before"),
    agent("checkout.after"),
    agent("environment.before", environment=True),
    agent("environment.after", environment=True),
    agent("submit.before"),
    agent("submit.after"),
    agent("epoch.before"),
    agent("epoch.after"),
    agent("intent.before"),
    agent("intent.after", quick=True),
    *(agent(f"spawn.before@{nth}") for nth in (1, 2, 3)),
    *(agent(f"spawn.after@{nth}", quick=nth == 2) for nth in (1, 2, 3)),
    agent("settle.before"),
    agent("settle.after"),
    agent("stop.before"),
    agent("stop.after"),
    agent("signal.before"),
    agent("signal.after"),
    agent("clean.before"),
    agent("clean.after"),
    agent("remove.before"),
    agent("remove.after"),
    agent("adopt.before", "taking over", seconds=3.0),
    agent("adopt.after", "taking over", seconds=3.0, quick=True),
    agent("epoch.after", "taking over", seconds=3.0),
    agent("discard.before", "tidying"),
    agent("discard.after", "tidying"),
)
#: Only come to when an attempt was given up whose processes live, which takes ten minutes: tested below.
GIVEN_UP = ("kill.before", "kill.after")


def test_every_point_in_the_source_is_tried() -> None:
    found = {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r'^\s+failpoint\("([^"]+)"\)', file.read_text(), re.MULTILINE)
    }
    here = {point.name.partition("@")[0] for point in POINTS} | set(GIVEN_UP)
    others = [file.read_text() for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    elsewhere = {name for name in found - here if any(f'"{name}"' in text for text in others)}
    assert found == here | elsewhere


@dataclass
class Rig:
    """A server and an agent, one of them about to die at a point."""

    fleet: Fleet
    marks: Path
    prepared: dict[str, Point] = field(default_factory=dict)  #: what each process was started for
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def spent(self, process: str) -> Path:
        """While this is there, no point kills the process."""
        return self.fleet.home / f"spent-{process}"

    def start(self, process: str, point: Point) -> None:
        env = {"MUSTER_FAILPOINT": point.name, "MUSTER_FAILPOINT_ONCE": str(self.spent(process))}
        if process == "server":
            self.fleet.start_server(env=env)
        else:
            self.fleet.start_agent(AGENT, env=env)
        self.prepared[process] = point

    def prepare(self, point: Point) -> None:
        """The process is there, and will die at the point once `arm` was called."""
        if self.prepared.get(point.process) != point:
            self.kill(point.process)
            self.start(point.process, point)

    def kill(self, process: str) -> None:
        if process == "server":
            self.fleet.kill_server()
        else:
            self.fleet.kill_agent(AGENT)

    def arm(self, process: str) -> None:
        self.spent(process).unlink()

    def calm(self, point: Point) -> None:
        """Nobody dies, both processes are there: also after a test that failed half-way."""
        for process in ("server", "agent"):
            self.spent(process).touch()
        if self.fleet.server().poll() is not None:
            self.start("server", point)
        if self.fleet.agent(AGENT).poll() is not None:
            self.start("agent", point)

    def await_death(self, process: str) -> None:
        victim = self.fleet.server() if process == "server" else self.fleet.agent(AGENT)
        assert victim.wait(PATIENCE) == -signal.SIGKILL
        assert self.spent(process).exists()

    def await_nothing_left(self, before: set[str]) -> None:
        def left() -> set[str]:
            return set(self.fleet.leftovers()) - before

        with suppress(AssertionError):
            until(lambda: not left(), seconds=PATIENCE)
        assert not left()

    def new_folder(self, point: Point) -> Path:
        """Code that was never seen before: it must be uploaded and fetched."""
        number = next(self._numbers)
        folder = self.fleet.home / f"code-{number}"
        folder.mkdir()
        (folder / "run.sh").write_bytes(SCRIPT.read_bytes())
        (folder / "notes").write_text(f"{number}\n")
        if point.environment:
            (folder / "requirements.txt").write_text(f"never-{number}; python_version < '3'\n")
        return folder


class Launches(threading.Thread):
    """A few runs of different kinds, launched by somebody who does not give up."""

    def __init__(self, client: Client, rig: Rig, point: Point) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._rig = rig
        self._point = point
        self._key = os.urandom(8).hex()
        self.launched: dict[str, Order] = {}

    def run(self) -> None:
        self._launch_with_code(Order(kind=Kind.PLAIN, seconds=0.1))
        self._launch(Order(kind=Kind.PLAIN, seconds=self._point.seconds))
        self._launch(Order(kind=Kind.GANG, seconds=0.2))
        self._launch(Order(kind=Kind.ONCE, seconds=0.05))
        stopped = self._launch(Order(kind=Kind.STOPPED, seconds=FOREVER))
        until((self._rig.marks / f"{stopped}.marks").exists, seconds=PATIENCE)
        insist(partial(self._client.stop_run, stopped))

    def _launch_with_code(self, order: Order) -> None:
        folder = self._rig.new_folder(self._point)
        request = order.request(self._rig.marks)
        request.command[1] = "run.sh"
        client = self._client

        def upload() -> str:
            work = upload_code(client.asynchronous, folder, command=request.command, entity=None)
            return client.wait(work)[0].id

        self._send(order, request.model_copy(update={"snapshot": insist(upload)}))

    def _launch(self, order: Order) -> str:
        return self._send(order, order.request(self._rig.marks))

    def _send(self, order: Order, request: LaunchRequest) -> str:
        key = f"{self._key}-{len(self.launched)}"
        run = insist(lambda: self._client.launch(request, idempotency_key=key))
        self.launched[run.id] = order
        return run.id


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    home = tmp_path_factory.mktemp("failpoints")
    made = Rig(Fleet(home), home / "marks")
    made.marks.mkdir()
    for process in ("server", "agent"):
        made.spent(process).touch()
    try:
        made.fleet.set_up(agents=1)
        yield made
    finally:
        made.fleet.tear_down()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            point,
            id=f"{point.name}-{point.when}".replace(" ", "-"),
            marks=[] if point.quick else [pytest.mark.slow],
        )
        for point in POINTS
    ],
)
def test_whoever_dies_there_everything_comes_out_right(rig: Rig, point: Point) -> None:
    following = dict(pairwise(POINTS))
    with rig.fleet.client() as client:
        rig.calm(point)
        before = set(rig.fleet.leftovers())
        launches = Launches(client, rig, point)
        match point.when:
            case "launching" | "measuring":
                rig.prepare(point)
                if point.when == "measuring":
                    rig.kill("agent")
                    rig.start("agent", point)
                _ready(rig, client)
                rig.arm(point.process)
                launches.start()
            case "starting" | "taking over":
                launches.start()
                until(rig.fleet.run_processes, what="a run on its way")
                rig.kill("agent")
                rig.arm("agent")
                rig.start("agent", point)
            case "tidying":
                rig.prepare(agent("clean.before"))
                _ready(rig, client)
                rig.arm("agent")
                launches.start()
                rig.await_death("agent")
                rig.arm("agent")
                rig.start("agent", point)
        rig.await_death(point.process)
        rig.start(point.process, following.get(point, point))
        launches.join(PATIENCE)
        assert len(launches.launched) == 5
        until(lambda: all(_ended(client, run_id) for run_id in launches.launched), seconds=PATIENCE)
        records = record.read(rig.fleet.database_url)
        mine = {run_id: records[run_id] for run_id in launches.launched}
        assert list(checks.problems(mine, launches.launched, rig.marks, client)) == []
        rig.await_nothing_left(before)
        assert _orphan_blobs(rig.fleet) == []


@pytest.mark.parametrize("then", ["is tried again", pytest.param("is stopped", marks=pytest.mark.slow)])
def test_what_a_failed_attempt_left_goes_while_the_run_waits_for_another(rig: Rig, then: str) -> None:
    """The agent died when the end was told, before it had put the attempt away."""
    point = agent("clean.before")
    with rig.fleet.client() as client:
        rig.calm(point)
        before = set(rig.fleet.leftovers())
        rig.prepare(point)
        _ready(rig, client)
        rig.arm("agent")
        run = client.launch(Order(kind=Kind.ONCE, seconds=1.0).request(rig.marks))
        until((rig.marks / f"{run.id}.marks").exists, seconds=PATIENCE)
        client.pause_queue("local")
        rig.await_death("agent")
        attempt = {path for path in rig.fleet.leftovers() if f"{run.id}.1" in path}
        assert attempt
        output = rig.fleet.data / "agent" / "outputs" / run.id
        output.mkdir(exist_ok=True)  # as an agent leaves it that dies a moment earlier
        rig.start("agent", point)
        until(lambda: not attempt & set(rig.fleet.leftovers()), seconds=PATIENCE)
        assert client.get_run(run.id).state is RunState.QUEUED
        assert output.exists(), "another attempt may be about to use it"
        if then == "is stopped":
            client.stop_run(run.id)
        client.resume_queue("local")
        until(lambda: _ended(client, run.id), seconds=PATIENCE)
        rig.await_nothing_left(before)


@pytest.mark.parametrize("point", GIVEN_UP)
def test_who_dies_as_it_ends_a_given_up_attempt_is_followed_by_one_who_does(
    tmp_path: Path, point: str
) -> None:
    (tmp_path / "marks").mkdir()
    fleet = Fleet(tmp_path, env=Installation(tmp_path).env)
    begun = tmp_path / "marks" / f"{RUN}.marks"

    def submit(attempt: int, **env: str) -> int:
        command = [sys.executable, "-m", "chaos.submit", str(tmp_path), str(attempt)]
        return subprocess.run(command, env={**fleet.env, "PYTHONPATH": str(TESTS), **env}).returncode

    try:
        assert submit(1) == 0
        until(begun.exists)
        first = set(fleet.run_processes())
        assert submit(2, MUSTER_FAILPOINT=point) == -signal.SIGKILL
        assert submit(2) == 0
        until(lambda: len(begun.read_text().splitlines()) == 2)
        assert not first & set(fleet.run_processes())
        marks = checks.read_marks(tmp_path / "marks", RUN)
        assert [(mark.word, mark.attempt) for mark in marks] == [("begin", 1), ("begin", 2)]
    finally:
        fleet.tear_down()


def _ended(client: Client, run_id: str) -> bool:
    return insist(partial(client.get_run, run_id)).state.terminal


def _ready(rig: Rig, client: Client) -> None:
    """Both processes are up: the server answers, and the agent has asked for work."""

    def asked() -> bool:
        agents = insist(client.list_agents).items
        return bool(agents) and rig.fleet.agent(AGENT).poll() is None and agents[0].online

    until(asked)


def _orphan_blobs(fleet: Fleet) -> list[str]:
    """Files of code that belong to no snapshot, or are not whole."""
    with create_engine(fleet.database_url).connect() as conn:
        manifests = conn.execute(select(snapshots.c.manifest)).scalars().all()
    known = {file["sha256"] for manifest in manifests for file in manifest["files"]}
    files = [path for path in (fleet.data / "code").glob("*/*/*") if path.name not in known]
    return [f"{path} is left" for path in files]
