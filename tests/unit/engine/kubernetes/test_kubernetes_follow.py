"""How a pod's log is asked for when it cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from muster.domain.observation import AttemptKey
from muster.engine.kubernetes import follow
from muster.engine.kubernetes.api import Api
from muster.engine.kubernetes.connect import Connection
from muster.engine.kubernetes.follow import Follower
from muster.engine.kubernetes.pod import Container, Ended, Pod
from muster.engine.kubernetes.spool import Spool

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_AT, _LATER = "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:02.5Z"
RUNS = Pod(
    uid="u",
    name="p",
    namespace="n",
    key=AttemptKey(run_id="r123456789", attempt=1),
    created=NOW,
    node="a",
    phase="Running",
    containers=(Container(name="main", running_since=NOW),),
)
ENDED = replace(
    RUNS,
    phase="Succeeded",
    containers=(Container(name="main", ended=Ended(exit_code=0, started_at=NOW, ended_at=NOW)),),
)
Answer = Callable[[int], httpx2.Response]


class Log:
    """Of one pod, in a cluster that answers as told."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self.answer: Callable[[httpx2.Request], httpx2.Response] = lambda request: answer(self.asked)
        self.asked = 0
        self.ended = asyncio.Event()
        self.spool = Spool.open(folder / "0.log")
        http = httpx2.AsyncClient(base_url="http://cluster", transport=httpx2.MockTransport(self._handle))
        connection = Connection(
            http=http, server="http://cluster", cluster="c", namespace="n", namespaces=("n",)
        )
        self.follower = Follower(Api(connection), RUNS, self.spool, on_end=self.ended.set)

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        return self.answer(request)

    async def asks(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.asked < times:  # noqa: ASYNC110 - asked from a callback of the transport
                await asyncio.sleep(0.001)

    async def ends(self) -> None:
        async with asyncio.timeout(10):
            await self.ended.wait()


def refused(number: int) -> httpx2.Response:
    return httpx2.Response(500, json={"message": "no preferred addresses found"})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> tuple[float, ...]:
    """Short at first; then longer than any test."""
    monkeypatch.setattr(follow, "AGAIN", (0.001, 0.002, 0.003))
    monkeypatch.setattr(follow, "SELDOM", (0.001, 0.002, 0.003, 3600.0))
    monkeypatch.setattr(follow, "STATUS_WAIT", 0.001)
    return follow.SELDOM


def test_a_log_that_was_refused_all_along_is_asked_for_once_more_at_the_end(
    tmp_path: Path, pauses: tuple[float, ...]
) -> None:
    async def scenario() -> None:
        log = Log(tmp_path, refused)
        log.follower.see(RUNS)
        await log.asks(len(pauses))
        log.follower.see(ENDED)
        await log.ends()
        assert log.asked == len(pauses) + 1
        assert log.follower.progress().whole

    asyncio.run(scenario())


def test_a_log_that_can_be_read_at_the_end_is_read(tmp_path: Path, pauses: tuple[float, ...]) -> None:
    def answer(number: int) -> httpx2.Response:
        return refused(number) if number <= len(pauses) else httpx2.Response(200, content=f"{_AT} hello\n")

    async def scenario() -> None:
        log = Log(tmp_path, answer)
        log.follower.see(RUNS)
        await log.asks(len(pauses))
        log.follower.see(ENDED)
        await log.ends()
        assert log.spool.path.read_text() == "hello\n"

    asyncio.run(scenario())


def test_what_a_kubelet_says_in_place_of_a_log_is_not_taken_for_one(
    tmp_path: Path, pauses: tuple[float, ...]
) -> None:
    """It answers 200 for a container that was removed."""

    async def scenario() -> None:
        words = "unable to retrieve container logs for containerd://6ee1946a2fe4"
        log = Log(tmp_path, lambda number: httpx2.Response(200, content=words))
        log.follower.see(ENDED)
        await log.ends()
        assert log.spool.length == 0
        assert log.asked == 1

    asyncio.run(scenario())


def test_a_log_that_fails_at_the_end_for_the_first_time_is_tried_again(
    tmp_path: Path, pauses: tuple[float, ...]
) -> None:
    def answer(number: int) -> httpx2.Response:
        return refused(number) if number < 3 else httpx2.Response(200, content=f"{_AT} hello\n")

    async def scenario() -> None:
        log = Log(tmp_path, answer)
        log.follower.see(ENDED)
        await log.ends()
        assert log.spool.path.read_text() == "hello\n"

    asyncio.run(scenario())


def test_what_was_refused_before_lines_came_does_not_count_after_them(
    tmp_path: Path, pauses: tuple[float, ...]
) -> None:
    """The connection breaks after a line; then the pod ends, and the cluster falters."""

    def answer(number: int) -> httpx2.Response:
        match number:
            case 1 | 2 | 3 | 6:
                return refused(number)
            case 4:
                return httpx2.Response(200, content=f"{_AT} one\n")
            case 5:
                logs[0].follower.see(ENDED)
                return refused(number)
        return httpx2.Response(200, content=f"{_AT} one\n{_LATER} two\n")

    async def scenario() -> None:
        log = Log(tmp_path, answer)
        logs.append(log)
        log.follower.see(RUNS)
        await log.ends()
        assert log.spool.path.read_text() == "one\ntwo\n"

    logs: list[Log] = []
    asyncio.run(scenario())


CRASHED = Container(name="main", ended=Ended(exit_code=3, started_at=NOW, ended_at=NOW))
AGAIN = Container(name="main", restarts=1, running_since=NOW, before=CRASHED.ended)
WELL = Container(
    name="main",
    restarts=1,
    ended=Ended(exit_code=0, started_at=NOW, ended_at=NOW),
    before=CRASHED.ended,
)
RESTARTS = replace(RUNS, restart_policy="OnFailure")
_LIVES = (f"{_AT} one\n", f"{_LATER} two\n", "2026-01-01T00:00:03.5Z three\n")


class Kubelet:
    """Starts its container again; the pod's status tells of that a little later."""

    def __init__(self, folder: Path) -> None:
        self.life = 0  #: that the container is in
        self.oldest = 0  #: whose log is there
        self.is_between = False  #: it has ended, and waits to be started again
        self.log = Log(folder, lambda number: httpx2.Response(500))
        self.log.answer = self._answer

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        life = self.life - ("previous" in request.url.params and not self.is_between)
        if life < 0:
            return httpx2.Response(400, json={"message": "previous terminated container not found"})
        if life < self.oldest:
            return httpx2.Response(200, content="unable to retrieve container logs for containerd://6ee1946a")
        limit = request.url.params.get("limitBytes")
        return httpx2.Response(200, content=_LIVES[life][: int(limit) if limit else None])

    def tell(self, *containers: Container, phase: str = "Running") -> None:
        self.log.follower.see(replace(RESTARTS, phase=phase, containers=containers))

    async def all_lines(self) -> list[str]:
        """Once both lives have been read to their end."""
        async with asyncio.timeout(10):
            while not self.log.follower.progress().whole:
                self.log.ended.clear()
                await self.log.ended.wait()
        return self.log.spool.path.read_text().splitlines()


@pytest.mark.parametrize("seen_alive", [True, False])
def test_the_log_of_a_container_that_was_started_again_is_not_taken_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen_alive: bool
) -> None:
    monkeypatch.setattr(follow, "STATUS_WAIT", 10.0)

    async def scenario() -> None:
        kubelet = Kubelet(tmp_path)
        if seen_alive:
            kubelet.tell(Container(name="main", running_since=NOW))
            await kubelet.log.asks(1)
        kubelet.life = 1
        kubelet.tell(CRASHED)
        await asyncio.sleep(0.05)  # nothing comes to wait for: it must not take what it is given
        assert "two" not in kubelet.log.spool.path.read_text()
        kubelet.tell(AGAIN)
        kubelet.tell(WELL, phase="Succeeded")
        assert await kubelet.all_lines() == ["one", "two"]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_life_whose_log_goes_with_the_end_of_the_next_is_kept_if_it_could_be_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """A kubelet removes a dead container as soon as the next is dead, too."""
    monkeypatch.setattr(follow, "STATUS_WAIT", 10.0)

    async def scenario() -> None:
        kubelet = Kubelet(tmp_path)
        kubelet.life = int(is_late)
        kubelet.tell(CRASHED)
        await kubelet.log.asks(1)
        kubelet.life, kubelet.oldest = 1, 1
        kubelet.tell(WELL, phase="Succeeded")
        assert await kubelet.all_lines() == (["two"] if is_late else ["one", "two"])

    asyncio.run(scenario())


def test_a_stream_that_begins_otherwise_is_of_the_next_life_if_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection broke, and when it was made again the container was another."""
    monkeypatch.setattr(follow, "STATUS_WAIT", 0.05)
    monkeypatch.setattr(follow, "AGAIN", (0.001,))

    async def scenario() -> None:
        kubelet = Kubelet(tmp_path)
        kubelet.tell(Container(name="main", running_since=NOW))
        await kubelet.log.asks(1)
        kubelet.life = 1
        await kubelet.log.asks(2)
        kubelet.tell(AGAIN)
        await kubelet.log.asks(4)
        kubelet.tell(replace(AGAIN, running_since=None, ended=CRASHED.ended), phase="Failed")
        assert await kubelet.all_lines() == ["one", "two"]

    asyncio.run(scenario())


BETWEEN = Container(name="main", restarts=1, waiting="CrashLoopBackOff", before=CRASHED.ended)


@pytest.mark.parametrize("told", [True, False])
def test_a_container_that_waits_to_be_started_again_gives_its_newest_life_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """Asked for the life before, the cluster gives the newest then, too."""
    monkeypatch.setattr(follow, "STATUS_WAIT", 10.0)

    async def scenario() -> None:
        kubelet = Kubelet(tmp_path)
        kubelet.tell(Container(name="main", running_since=NOW))
        await kubelet.log.asks(1)
        kubelet.life, kubelet.is_between = 1, True
        if not told:  # the status is behind: it begins otherwise, so that is waited for
            kubelet.tell(AGAIN)
            await kubelet.log.asks(2)
        kubelet.tell(BETWEEN)
        assert await kubelet.all_lines() == ["one", "two"]
        kubelet.life, kubelet.is_between = 2, False
        kubelet.tell(replace(AGAIN, restarts=2))
        kubelet.tell(replace(AGAIN, restarts=2, running_since=None, ended=CRASHED.ended), phase="Failed")
        assert await kubelet.all_lines() == ["one", "two", "three"]

    asyncio.run(scenario())


def test_a_container_first_seen_while_it_waits_to_be_started_again_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "STATUS_WAIT", 10.0)

    async def scenario() -> None:
        kubelet = Kubelet(tmp_path)
        kubelet.life, kubelet.is_between = 1, True
        kubelet.tell(BETWEEN)
        assert await kubelet.all_lines() == ["two"]

    asyncio.run(scenario())


def test_a_stream_that_ends_before_the_end_was_known_is_not_taken_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet that goes away ends it in good order, and the container prints on."""
    monkeypatch.setattr(follow, "STATUS_WAIT", 10.0)

    def answer(number: int) -> httpx2.Response:
        more = f"{_LATER} two\n" if number == 2 else ""
        return httpx2.Response(200, content=f"{_AT} one\n{more}")

    async def scenario() -> None:
        log = Log(tmp_path, answer)
        log.follower.see(RUNS)
        await log.asks(1)
        log.follower.see(ENDED)
        await log.ends()
        assert log.spool.path.read_text() == "one\ntwo\n"
        assert log.asked == 2

    asyncio.run(scenario())
