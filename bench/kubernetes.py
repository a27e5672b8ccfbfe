"""What Muster adds on a cluster: time to a pod's place, requests, memory, and how soon it knows."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from bench.crowded import crowd
from bench.harness import Bar, Plan, Row, interleave, single
from bench.incluster import REAL, SIMULATED, USER_AGENT, InCluster, cluster_with, muster_in
from bench.processes import until
from bench.recording import Recording
from cluster.requests import Request
from muster.client.sdk import Run
from muster.domain.run import RunState

ABOUT = "One API server, scheduler and kubelet on this machine, and simulated nodes (KWOK) beside it."
PLACEMENTS, RUNS, LIVE, AT_ONCE = 8, 5, 4, 300
QUIET = 20.0  #: seconds in which nothing changes
MOST_CROWDS = 3  #: each takes two minutes, and has a thousand changes
_PATIENCE = 180.0
_PAUSE = 0.3
_SETTLED = 12.0  #: seconds until the agent has learned, too, that the cluster measures no usage
_CLEANED = 120.0  #: objects of an ended run stay for a minute
_RUN_ID = "muster.dev/run-id"


def run(plan: Plan) -> Iterator[Row]:
    with cluster_with(-(-AT_ONCE // 100), plan.folder / "cluster") as cluster:
        brief = {"muster.test/runs-for": "50ms"}
        with muster_in(cluster, plan.folder / "kubernetes", "bench", simulated=brief) as muster:
            yield requests_in_quiet(plan, muster)
            yield requests_of_a_run(plan, muster)
            yield placement(plan, muster)
        rounds, at_once = min(plan.rounds, MOST_CROWDS), plan.count(AT_ONCE)
        found = [crowd(plan, cluster, number, runs=at_once) for number in range(rounds)]
    runs = f"{at_once} runs at once"
    yield single(
        f"{runs}: the agent's memory at most",
        [one.megabytes for one in found],
        "MB",
        bar=Bar(sense="≤", limit=200),
        note="PSS",
    )
    yield single(
        f"{runs}: from the cluster's watch to Muster's event stream, p95",
        [one.p95 for one in found],
        "ms",
        bar=Bar(sense="≤", limit=1000),
    )


def placement(plan: Plan, muster: InCluster) -> Row:
    """From the call that launches, or the raw request, until the pod has a node, in the eyes of a watch."""
    numbers, times = count(1), plan.count(PLACEMENTS)
    first = muster.launch(SIMULATED, "true")
    first.wait(_PATIENCE)
    job = muster.client.get_manifest(first.id).manifest
    with muster.pods() as pods:

        def launched() -> float:
            began = time.monotonic_ns()
            run = muster.launch(SIMULATED, "true")
            took = (_placed(pods, _RUN_ID, run.id) - began) / 1e6
            _expect(run.wait(_PATIENCE), RunState.SUCCEEDED, run)
            return took

        def posted() -> float:
            name = f"raw-{next(numbers)}"
            body = json.dumps(_raw(job, name))
            began = time.monotonic_ns()
            headers = {"Content-Type": "application/json"}
            muster.cluster.api.post(muster.jobs, content=body, headers=headers).raise_for_status()
            return (_placed(pods, "raw", name) - began) / 1e6

        def several(once: Callable[[], float]) -> float:
            taken = []
            for _ in range(times):
                time.sleep(random.uniform(0, _PAUSE))  # noqa: S311 - a phase, no secret
                taken.append(once())
            return statistics.median(taken)

        contest = interleave(
            plan,
            "kubernetes, placed",
            "ms",
            {"Muster": lambda: several(launched), "raw POST": lambda: several(posted)},
        )
    return contest.difference(
        "launch → pod scheduled: Muster above a raw POST of the Job",
        "Muster",
        "raw POST",
        bar=Bar(sense="≤", limit=150),
        note=f"median of {times} in each round, on a simulated node",
    )


def _placed(pods: Recording, label: str, value: str) -> int:
    """When a pod with this label was seen to have a node."""

    def look(at: int, line: bytes) -> int | None:
        pod = json.loads(line)["object"]
        labels = pod["metadata"].get("labels") or {}
        return at if labels.get(label) == value and pod["spec"].get("nodeName") else None

    return pods.find(look, seconds=_PATIENCE, what=f"a place for {value}")


def _raw(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The same Job under another name, so that no agent takes it for a run's."""
    template = job["spec"]["template"]
    labels = {"labels": {"raw": name}}
    return {
        **job,
        "metadata": {**job["metadata"], "name": name, **labels},
        "spec": {**job["spec"], "template": {**template, "metadata": {**template["metadata"], **labels}}},
    }


def requests_of_a_run(plan: Plan, muster: InCluster) -> Row:
    """One run after the other, until all their objects are gone. The first, for which the agent may have to
    look up this and that, is not counted."""
    asked: dict[str, int] = {}
    begins: list[datetime] = []
    for _ in range(1 + plan.count(RUNS)):
        begins.append(datetime.now(UTC))
        run = muster.launch(REAL, "echo", "hello")
        _expect(run.wait(_PATIENCE), RunState.SUCCEEDED, run)
        asked[run.id] = 0

    def cleaned() -> bool:
        return not muster.cluster.api.get(muster.jobs).raise_for_status().json()["items"]

    until(cleaned, seconds=_CLEANED, what="the clean-up", every=1.0)
    runs, kinds = list(asked), Counter[str]()
    for request in _asked(muster, begins[0]):
        named = [run_id for run_id in runs if run_id in request.uri]
        run_id = named[0] if named else runs[sum(begin <= request.received_at for begin in begins) - 1]
        asked[run_id] += 1
        if run_id != runs[0]:
            kinds[f"{request.verb} {request.resource}"] += 1
    note = ", ".join(f"{number / (len(runs) - 1):g} {kind}" for kind, number in kinds.items())
    return single(
        "requests of one run, from submission to clean-up",
        [asked[run_id] for run_id in runs[1:]],
        "requests",
        bar=Bar(sense="≤", limit=8),
        note=f"at the API server, on the real node, watches aside: {note}",
    )


def requests_in_quiet(plan: Plan, muster: InCluster) -> Row:
    runs = [muster.launch(REAL, "sleep", "3600") for _ in range(plan.count(LIVE))]
    for run in runs:
        until(lambda run=run: run.state is RunState.RUNNING, seconds=_PATIENCE, what="a run that lives")  # type: ignore[misc]
    time.sleep(_SETTLED)
    began = datetime.now(UTC)
    time.sleep(QUIET * min(1.0, plan.scale * 2))
    asked = len(_asked(muster, began))
    for run in runs:
        run.stop()
        _expect(run.wait(_PATIENCE), RunState.STOPPED, run)
    return single(
        f"requests in {QUIET:.0f} s with {len(runs)} live runs",
        [asked],
        "requests",
        bar=Bar(sense="≤", limit=0),
        note="their logs are followed all the while; watches aside; a metrics API, if there is one, is asked "
        "once in 10 s for all runs together",
    )


def _asked(muster: InCluster, since: datetime) -> list[Request]:
    """What the agent asked of the API server, but to watch."""
    asked = muster.cluster.requests(user_agent=USER_AGENT)
    return [one for one in asked if one.verb != "watch" and one.received_at >= since]


def _expect(state: RunState, wanted: RunState, run: Run) -> None:
    if state is not wanted:
        raise RuntimeError(f"a run {state}: {run.why().summary}")
