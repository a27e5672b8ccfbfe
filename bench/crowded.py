"""Hundreds of runs at once on simulated nodes: what the agent weighs, how soon Muster knows what changed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Self

import psutil

from bench.harness import CannotMeasure, Plan, percentile, say
from bench.incluster import SIMULATED, muster_in, request
from bench.recording import Recording
from cluster.cluster import Cluster
from muster.domain.run import RunState

_LASTS = 60  #: seconds that each runs, so that the first is still there when the last has come
_PATIENCE = 600.0
_WAY = (RunState.PENDING, RunState.STARTING, RunState.RUNNING, RunState.SUCCEEDED)

#: run → how far along `_WAY` → when
Course = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, kw_only=True)
class CrowdFigures:
    megabytes: float  #: of the agent, at its largest
    p95: float  #: milliseconds
    slowest: float
    changes: int


def crowd(plan: Plan, cluster: Cluster, number: int, *, runs: int) -> CrowdFigures:
    lasts = {"muster.test/runs-for": f"{max(10, round(_LASTS * min(1.0, plan.scale * 2)))}s"}
    folder = plan.folder / f"crowd-{number}"
    with (
        muster_in(cluster, folder, f"crowd-{number}", simulated=lasts) as muster,
        muster.pods() as pods,
        muster.events() as events,
        Peak(muster.agent) as peak,
    ):
        muster.client.launch_batch([request(SIMULATED, "true")] * runs)
        _wait_for_all(events, runs)
    in_cluster, in_store = seen_in_cluster(pods), seen_in_store(events)
    together = most_at_once(in_cluster)
    if together < runs:
        raise CannotMeasure(f"only {together} of {runs} ran at the same time")
    found = list(delays(in_cluster, in_store))
    figures = CrowdFigures(
        megabytes=peak.megabytes, p95=percentile(found, 95), slowest=max(found), changes=len(found)
    )
    say(f"kubernetes, crowd {number + 1}: {figures}")
    return figures


def _wait_for_all(events: Recording, runs: int) -> None:
    ended = 0

    def last(at: int, line: bytes) -> bool | None:
        nonlocal ended
        event = _event(line)
        state = RunState(event["data"]["to"]) if event is not None else None
        if event is not None and state in (RunState.FAILED, RunState.STOPPED):
            raise CannotMeasure(f"a run {state}: {event['data'].get('reason')}")
        ended += state is RunState.SUCCEEDED
        return True if ended == runs else None

    events.find(last, seconds=_PATIENCE, what=f"the end of {runs} runs")


def seen_in_cluster(pods: Recording) -> Course:
    """When each run's pod got how far, as the API server told."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for at, line in pods.lines:
        pod = json.loads(line)["object"]
        if pod["kind"] != "Pod":
            raise CannotMeasure(f"the watch broke off: {pod}")
        run_id = pod["metadata"]["labels"]["muster.dev/run-id"]
        found[run_id].setdefault(_WAY.index(_state_of(pod)), at)
    return found


def _state_of(pod: Mapping[str, Any]) -> RunState:
    match pod["status"].get("phase"):
        case "Succeeded":
            return RunState.SUCCEEDED
        case "Running":
            return RunState.RUNNING
    return RunState.STARTING if pod["spec"].get("nodeName") else RunState.PENDING


def seen_in_store(events: Recording) -> Course:
    """When each run was told to be how far, by the server's stream, which reads what is committed."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for at, line in events.lines:
        event = _event(line)
        if event is not None and (state := RunState(event["data"]["to"])) in _WAY:
            found[event["run_id"]].setdefault(_WAY.index(state), at)
    return found


def _event(line: bytes) -> dict[str, Any] | None:
    """A move of a run, if it is one."""
    if not line.startswith(b"data: "):
        return None
    event: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    return event if event.get("type") == "state" else None


def delays(in_cluster: Course, in_store: Course) -> Iterator[float]:
    """Milliseconds, for each change of each pod, until the store was as far, or further."""
    for run_id, course in in_cluster.items():
        for place, at in course.items():
            yield (min(then for other, then in in_store[run_id].items() if other >= place) - at) / 1e6


def most_at_once(course: Course) -> int:
    """How many pods ran at the same time."""
    running, ended = _WAY.index(RunState.RUNNING), _WAY.index(RunState.SUCCEEDED)
    steps = [(one[running], 1) for one in course.values() if running in one]
    steps += [(one[ended], -1) for one in course.values() if ended in one]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


class Peak:
    """Looks at the memory of a process now and then; pages shared with others count in part (PSS)."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._over = Event()
        self._thread = Thread(target=self._look)
        self.megabytes = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            self.megabytes = max(self.megabytes, self._process.memory_full_info().pss / 1e6)
