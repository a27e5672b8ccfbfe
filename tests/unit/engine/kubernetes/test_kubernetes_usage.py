"""What the metrics API and a kubelet tell, read into numbers. Their answers are recorded ones, shortened."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.engine.kubernetes.api import Api, ApiError, Unreachable
from muster.engine.kubernetes.attempt import Attempt
from muster.engine.kubernetes.pod import Pod
from muster.engine.kubernetes.usage import (
    LOOK_AGAIN,
    SILENT_AGAIN,
    UsageMeter,
    Use,
    read_metrics,
    read_summary,
)

KEY = AttemptKey(run_id="r123456789", attempt=1)
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/lab/pods"
SUMMARY = "/api/v1/nodes/{}/proxy/stats/summary"


def metrics(*pods: tuple[str, str, str]) -> dict[str, Any]:
    items = [
        {
            "metadata": {"name": name, "namespace": "lab"},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "15s",
            "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
        }
        for name, cpu, memory in pods
    ]
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items}


def summary(uid: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "cpu": {"usageNanoCores": 124116610, "usageCoreNanoSeconds": 1603347000},
        "memory": {"usageBytes": 21839872, "workingSetBytes": 868352, "rssBytes": 61440},
    }
    return {
        "pods": [
            {
                "podRef": {"name": "busy", "namespace": "lab", "uid": uid},
                "containers": [container, {"name": "other", "memory": {"workingSetBytes": 1000}}],
                "cpu": {"usageNanoCores": 0},
                "memory": {"workingSetBytes": 0},
                "network": {"name": "eth0", "rxBytes": 946, "txBytes": 472},
                "ephemeral-storage": {"usedBytes": 21024768},
            }
        ]
    }


def test_the_containers_of_a_pod_count_together() -> None:
    answer = metrics(("busy", "1500000000n", "20Mi"))
    answer["items"][0]["containers"].append({"name": "side", "usage": {"cpu": "250m", "memory": "1024Ki"}})
    assert read_metrics(answer) == {("lab", "busy"): Use(cpu=1.75, memory=21 * 2**20)}


def test_a_summary_tells_of_containers_and_of_network_and_disk_of_their_pod() -> None:
    assert read_summary(summary("u1")) == {
        "u1": Use(cpu=0.12411661, memory=869352, net_received=946, net_sent=472, disk_used=21024768)
    }


@pytest.mark.parametrize(
    "answer", [{}, {"items": None}, {"items": [{"metadata": {"namespace": "lab", "name": "new"}}]}]
)
def test_what_is_not_told_is_not_made_up(answer: dict[str, Any]) -> None:
    assert set(read_metrics(answer).values()) <= {Use()}


class Answers:
    """An API server that gives prepared answers, and remembers what it was asked."""

    def __init__(self, answers: dict[str, dict[str, Any] | Exception]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def call(self, method: str, path: str, *, params: Any = None) -> dict[str, Any]:
        self.asked.append(path)
        answer = self.answers.get(path, ApiError(404, "NotFound", "404 page not found"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def attempt(*nodes: str) -> Attempt:
    """Its members run on these nodes; their uids are u0, u1 …"""
    made = Attempt(key=KEY, epoch=1, members=len(nodes), at_once=len(nodes))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for rank, node in enumerate(nodes):
        made.pods[f"u{rank}"] = Pod(
            uid=f"u{rank}",
            name=f"pod-{rank}",
            namespace="lab",
            key=KEY,
            created=at,
            index=rank,
            node=node,
            phase="Running",
        )
        made.told[rank] = Replica(rank=rank, state=ReplicaState.RUNNING)
    return made


class Meter:
    def __init__(self, answers: dict[str, dict[str, Any] | Exception]) -> None:
        self.now = 0.0
        self.api = Answers(answers)
        self._meter = UsageMeter(cast(Api, self.api), clock=lambda: self.now)

    def measure(self, *attempts: Attempt) -> list[tuple[int, float | None, int | None, int | None]]:
        samples = asyncio.run(self._meter.measure(attempts, at=7.0))
        assert {sample.at for sample in samples} <= {7.0}
        return [(one.rank, one.cpu, one.memory, one.net_received) for one in samples]


def test_both_sources_are_joined_the_metrics_api_first() -> None:
    meter = Meter(
        {
            METRICS: metrics(("pod-0", "2", "1Ki"), ("elsewhere", "9", "9Ki")),
            SUMMARY.format("a"): summary("u0"),
            SUMMARY.format("b"): summary("u1"),
        }
    )
    assert meter.measure(attempt("a", "b")) == [(0, 2.0, 1024, 946), (1, 0.12411661, 869352, 946)]
    assert sorted(meter.api.asked) == sorted([METRICS, SUMMARY.format("a"), SUMMARY.format("b")])


def test_nothing_is_asked_while_nothing_runs() -> None:
    meter = Meter({})
    ended = attempt("a")
    ended.told[0] = Replica(rank=0, state=ReplicaState.SUCCEEDED)
    assert meter.measure() == meter.measure(ended) == []
    assert meter.api.asked == []


def test_what_nobody_told_of_has_no_sample() -> None:
    assert Meter({}).measure(attempt("a")) == []


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_missing_metrics_api_is_looked_for_again_after_minutes(status: int) -> None:
    meter = Meter({METRICS: ApiError(status, "", ""), SUMMARY.format("a"): summary("u0")})
    for _ in range(3):
        meter.now += 10
        assert meter.measure(attempt("a")) == [(0, 0.12411661, 869352, 946)]
    assert meter.api.asked.count(METRICS) == 1
    meter.api.answers[METRICS] = metrics(("pod-0", "2", "1Ki"))
    meter.now += LOOK_AGAIN
    assert meter.measure(attempt("a")) == [(0, 2.0, 1024, 946)]


def test_a_right_that_is_missing_is_missing_for_all_nodes() -> None:
    forbidden = ApiError(403, "Forbidden", "")
    meter = Meter({SUMMARY.format("a"): forbidden, SUMMARY.format("b"): forbidden})
    meter.measure(attempt("a"))
    meter.measure(attempt("a", "b"))
    assert [path for path in meter.api.asked if "summary" in path] == [SUMMARY.format("a")]


@pytest.mark.parametrize("silence", [Unreachable("no answer"), ApiError(500, "", "dial tcp: refused")])
def test_a_silent_node_is_left_alone_for_a_while(silence: Exception) -> None:
    meter = Meter({SUMMARY.format("a"): silence, SUMMARY.format("b"): summary("u1")})
    for _ in range(2):
        assert meter.measure(attempt("a", "b")) == [(1, 0.12411661, 869352, 946)]
    assert meter.api.asked.count(SUMMARY.format("a")) == 1
    meter.now += SILENT_AGAIN
    meter.measure(attempt("a", "b"))
    assert meter.api.asked.count(SUMMARY.format("a")) == 2


def test_a_server_that_is_away_is_asked_at_the_next_pass() -> None:
    meter = Meter({METRICS: Unreachable("no answer")})
    meter.measure(attempt("a"))
    meter.measure(attempt("a"))
    assert meter.api.asked.count(METRICS) == 2
