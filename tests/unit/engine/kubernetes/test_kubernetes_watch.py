"""What a watch does when the cluster falters; `tests/cluster/test_watches.py` has the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from muster.engine.kubernetes import watch as module
from muster.engine.kubernetes.api import PODS, Api, Object
from muster.engine.kubernetes.connect import Connection
from muster.engine.kubernetes.watch import Watch

Answer = Callable[[], httpx2.Response]


def item(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def listed(*names: str, version: int = 1) -> httpx2.Response:
    content = {"metadata": {"resourceVersion": str(version)}, "items": [item(name) for name in names]}
    return httpx2.Response(200, json=content)


def told(*events: tuple[str, Any]) -> httpx2.Response:
    lines = [json.dumps({"type": what, "object": about}) for what, about in events]
    return httpx2.Response(200, content="".join(f"{line}\n" for line in lines))


def refused(status: int, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, json={"reason": "No", "message": "not now"}, headers=headers)


class Story:
    """A cluster that gives these answers, one after the other, and then none."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self._answers: Iterator[httpx2.Response] = iter(answers)
        self.asked: list[dict[str, str]] = []
        self.seen: list[tuple[str, bool]] = []
        self.over = asyncio.Event()
        http = httpx2.AsyncClient(base_url="http://cluster", transport=httpx2.MockTransport(self._handle))
        where = Connection(http=http, server="http://cluster", cluster="c", namespace="n", namespaces=("n",))
        self.watch = Watch(Api(where), PODS, "n", self._saw)

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(dict(request.url.params))
        answer = next(self._answers, None)
        if answer is None:
            self.over.set()
            await asyncio.Event().wait()
        assert answer is not None
        return answer

    def _saw(self, about: Object, there: bool) -> None:
        self.seen.append((about["metadata"]["name"], there))

    async def run(self) -> None:
        task = asyncio.create_task(self.watch.run())
        async with asyncio.timeout(10):
            await self.over.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited between tries; it does not really."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    class Quick:
        def __getattr__(self, name: str) -> Any:
            return sleep if name == "sleep" else getattr(asyncio, name)

    monkeypatch.setattr(module, "asyncio", Quick())
    return waited


def play(*answers: httpx2.Response) -> Story:
    async def scenario() -> Story:
        story = Story(*answers)
        await story.run()
        return story

    return asyncio.run(scenario())


def test_a_bookmark_moves_the_place_from_which_it_goes_on() -> None:
    story = play(listed("a", version=5), told(("BOOKMARK", item("", 90))), told())
    assert [one.get("resourceVersion") for one in story.asked] == [None, "5", "90", "90"]
    assert story.seen == [("a", True)]


def test_after_410_all_is_listed_anew_and_what_is_missing_is_told_as_gone() -> None:
    gone = told(("ERROR", {"code": 410, "reason": "Expired", "message": "too old"}))
    story = play(listed("a", "b"), gone, listed("b", "c", version=9))
    assert story.seen == [("a", True), ("b", True), ("b", True), ("c", True), ("a", False)]
    assert story.asked[-1]["resourceVersion"] == "9"


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_what_is_refused_is_tried_again_after_growing_pauses(status: int, pauses: list[float]) -> None:
    story = play(*(refused(status) for _ in range(12)), listed("a"))
    assert story.watch.synced.is_set()
    assert story.seen == [("a", True)]
    assert len(pauses) == 12
    assert pauses[0] <= 0.5
    assert pauses[3] > 2 * pauses[0]
    assert 40 < max(pauses) <= 60


def test_a_cluster_that_says_how_long_to_wait_is_heeded(pauses: list[float]) -> None:
    play(refused(429, **{"Retry-After": "7"}), listed("a"))
    assert pauses == [7.0]


@pytest.mark.parametrize(("status", "at_once"), [(401, True), (403, True), (429, False), (503, False)])
def test_only_a_refusal_that_does_not_pass_is_an_answer(
    status: int, at_once: bool, pauses: list[float]
) -> None:
    story = play(refused(status))
    assert story.watch.answered.is_set() is at_once
    assert not story.watch.synced.is_set()


def test_after_a_refusal_everything_is_listed_anew(pauses: list[float]) -> None:
    """Rights that were taken and given back may be others."""
    story = play(listed("a"), refused(403), listed(version=3))
    assert story.seen == [("a", True), ("a", False)]
