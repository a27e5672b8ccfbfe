"""What the operator costs: hundreds of trainings at once on simulated nodes, then a minute of quiet."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.crowded import Peak
from bench.harness import Bar, CannotMeasure, Plan, Row, say, single
from bench.processes import Processes, end, until
from cluster.cluster import Cluster
from cluster.errors import CannotBeHad
from cluster.images import BUSYBOX
from cluster.nodes import SELECTOR, TOLERATION
from cluster.trainings import Trainings, install, training

ABOUT = "PyTorchTrainingJobs of four replicas on nodes that KWOK simulates, by `muster operator`."
JOBS, REPLICAS = 200, 4
QUIET = 60.0  #: seconds
MOST_ROUNDS = 3
_PATIENCE = 600.0
_STOPS = re.compile(r'"reconciles": (\d+)')


@dataclass(frozen=True, kw_only=True)
class Figures:
    seconds: float  #: until all run
    reconciles: float  #: for each job and second of them
    megabytes: float
    writes: int  #: in quiet


def run(plan: Plan) -> Iterator[Row]:
    jobs = plan.count(JOBS)
    try:
        cluster = Cluster.up()
    except CannotBeHad as reason:
        raise CannotMeasure(str(reason)) from reason
    with cluster:
        cluster.add_nodes(-(-jobs * REPLICAS // 100))
        install(cluster)
        found = [_measure(plan, cluster, jobs, number) for number in range(min(plan.rounds, MOST_ROUNDS))]
    what = f"{jobs} jobs of {REPLICAS} replicas at once"
    yield single(f"{what}: until all are Running", [one.seconds for one in found], "s")
    yield single(
        f"{what}: reconciles for each job and second until then",
        [one.reconciles for one in found],
        "/s",
        bar=Bar(sense="≤", limit=1),
    )
    yield single(
        f"{what}: the operator's memory at most",
        [one.megabytes for one in found],
        "MB",
        bar=Bar(sense="≤", limit=200),
        note="PSS",
    )
    yield single(
        f"{what}: writes in {QUIET:.0f} s while they run",
        [one.writes for one in found],
        "requests",
        bar=Bar(sense="≤", limit=0),
        note="at the API server; by its audit log",
    )


def _measure(plan: Plan, cluster: Cluster, jobs: int, number: int) -> Figures:
    namespace = f"trainings-{number}"
    folder = plan.folder / f"operator-{number}"
    cluster.api.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
    with Processes(folder) as processes:
        trainings = Trainings(cluster, namespace, folder)
        words: list[str | Path] = [
            "operator",
            "run",
            "--namespace",
            namespace,
            "--kubeconfig",
            trainings.kubeconfig,
        ]
        operator = processes.spawn("operator", [sys.executable, "-m", "muster.cli", *words])
        processes.wait_for_words("operator", operator, "serves")
        with Peak(psutil.Process(operator.pid)) as peak:
            began = time.monotonic()
            for one in range(jobs):
                _create(cluster, namespace, f"training-{one}")
            until(lambda: _running(cluster, namespace) == jobs, seconds=_PATIENCE, what="all run", every=0.5)
            seconds = time.monotonic() - began
            _settle(trainings)
            quiet_from = datetime.now(UTC)
            time.sleep(QUIET * min(1.0, plan.scale * 2))
            writes = _writes(trainings, quiet_from)
        end(operator)
        counted = _STOPS.search(processes.log("operator").read_text())
        if counted is None:
            raise CannotMeasure("the operator did not say how often it looked")
    _remove(cluster, namespace)
    figures = Figures(
        seconds=seconds,
        reconciles=int(counted[1]) / jobs / seconds,
        megabytes=peak.megabytes,
        writes=writes,
    )
    say(f"operator, round {number + 1}: {figures}")
    return figures


def _create(cluster: Cluster, namespace: str, name: str) -> None:
    container = {
        "name": "pytorch",
        "image": BUSYBOX,
        "args": ["train.py"],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    spec = {"nodeSelector": SELECTOR, "tolerations": [TOLERATION], "containers": [container]}
    worker = {"type": "worker", "replicas": REPLICAS, "restartPolicy": "ExitCode", "template": {"spec": spec}}
    job = training(worker, name=name, torchrunConfig={"enabled": True})
    cluster.api.post(_path(namespace), json=job).raise_for_status()


def _path(namespace: str) -> str:
    return f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/pytorchtrainingjobs"


def _running(cluster: Cluster, namespace: str) -> int:
    items = cluster.api.get(_path(namespace)).raise_for_status().json()["items"]
    return sum((item.get("status") or {}).get("phase") == "Running" for item in items)


def _settle(trainings: Trainings) -> None:
    """Until it has written down all that has changed."""
    last, since = -1, time.monotonic()

    def look() -> bool:
        nonlocal last, since
        now = len(trainings.writes())
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > 5

    until(look, seconds=120, what="the operator to be done", every=1.0)


def _writes(trainings: Trainings, since: datetime) -> int:
    asked = trainings.cluster.requests(user=trainings.user)
    return sum(one.verb not in ("get", "list", "watch") and one.received_at >= since for one in asked)


def _remove(cluster: Cluster, namespace: str) -> None:
    cluster.api.delete(_path(namespace)).raise_for_status()

    def gone() -> bool:
        answer = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods", params={"limit": "1"})
        return not answer.raise_for_status().json()["items"]

    until(gone, seconds=_PATIENCE, what="the pods to go", every=1.0)
