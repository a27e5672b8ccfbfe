"""One training, on every kind of workload, and what can happen to it: the table of the proof.

Each kind is tried on its real controller. All that happens to one kind happens at the same time.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.field import Field
from cluster.images import PYTHON
from cluster.runs import ClusterBench, bench_in, key
from cluster.trainings import Trainings, install
from installation import text_of
from muster.domain.observation import AttemptKey, ReplicaSeen, ReplicaState
from muster.domain.run import AttemptEnd, RunState
from muster.domain.training import Training
from muster.domain.verdict import AttemptView, Judgement, judge, merge

ROOT = Path(__file__).resolve().parents[2]
PAIR = Training(nodes=2)
STAY = "echo up; exec sleep 300"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind, its controller, and how a template of its own asks for one restart."""

    name: str
    version: str
    kind: str
    controller: Callable[[Cluster, str, Path], AbstractContextManager[object]]
    restarting: Callable[[dict[str, Any]], dict[str, Any]]  #: the `spec` for two members with this pod
    waits: str = "Insufficient nvidia.com/gpu"  #: why there is no room for both
    all_or_none: bool = False  #: its scheduler places no member before there is room for all

    def training(self, **container: Any) -> dict[str, Any]:
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        return {"apiVersion": self.version, "kind": self.kind, "template": {"spec": spec}}

    def template(self, pod: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": self.version, "kind": self.kind, "spec": self.restarting(pod)}


def _volcano(pod: dict[str, Any]) -> dict[str, Any]:
    return {
        "schedulerName": "volcano",
        "minAvailable": 2,
        "maxRetry": 2,  # one restart
        "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "plugins": {"pytorch": ["--master=master", "--worker=worker"], "svc": []},
        "tasks": [{"name": name, "replicas": 1, "template": pod} for name in ("master", "worker")],
    }


def _pytorchjob(pod: dict[str, Any]) -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": pod}
    return {"runPolicy": {"backoffLimit": 3}, "pytorchReplicaSpecs": {"Master": role, "Worker": role}}


def _jobset(pod: dict[str, Any]) -> dict[str, Any]:
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": pod}
    return {
        "failurePolicy": {"maxRestarts": 1},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
    }


def _trainingjob(pod: dict[str, Any]) -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": pod}
    return {
        "runPolicy": {"backoffLimit": 1},
        "replicaSpecs": [{"type": name, **role} for name in ("master", "worker")],
    }


def installed(
    start: Callable[[Cluster], None],
) -> Callable[[Cluster, str, Path], AbstractContextManager[object]]:
    """One of the whole cluster, which stays."""

    def running(cluster: Cluster, namespace: str, folder: Path) -> AbstractContextManager[object]:
        start(cluster)
        return nullcontext()

    return running


@contextmanager
def our_operator(cluster: Cluster, namespace: str, folder: Path) -> Iterator[None]:
    install(cluster)
    trainings = Trainings(cluster, namespace, folder)
    trainings.start()
    try:
        yield
    finally:
        trainings.close()


CASES = [
    pytest.param(
        Case(
            name="volcano",
            version="batch.volcano.sh/v1alpha1",
            kind="Job",
            controller=installed(Cluster.start_volcano),
            restarting=_volcano,
            waits="tasks in gang unschedulable: pod group is not ready, 2 minAvailable",
            all_or_none=True,
        ),
        id="volcano",
        marks=pytest.mark.training,
    ),
    pytest.param(
        Case(
            name="pytorchjob",
            version="kubeflow.org/v1",
            kind="PyTorchJob",
            controller=installed(Cluster.start_training_operator),
            restarting=_pytorchjob,
        ),
        id="pytorchjob",
        marks=pytest.mark.training,
    ),
    pytest.param(
        Case(
            name="jobset",
            version="jobset.x-k8s.io/v1alpha2",
            kind="JobSet",
            controller=installed(Cluster.start_jobset),
            restarting=_jobset,
        ),
        id="jobset",
    ),
    pytest.param(
        Case(
            name="trainingjob",
            version="batch.tensorstack.dev/v1beta1",
            kind="PyTorchTrainingJob",
            controller=our_operator,
            restarting=_trainingjob,
        ),
        id="trainingjob",
    ),
]


def verdict(bench: ClusterBench, key: AttemptKey, *, stop: bool = False) -> Judgement:
    view = AttemptView(members=2)
    for seen in bench.seen:
        if seen.key == key and isinstance(seen.fact, ReplicaSeen):
            view = merge(view, seen.fact)
    return judge(view, stop_requested=stop)


def said(bench: ClusterBench, key: AttemptKey, rank: int) -> bytes:
    """By its program; Kubeflow's operator has workers wait in a container of its own, which talks."""
    lines = bench.log(key, rank).splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(b"[init-pytorch]"))


async def meets(case: Case, bench: ClusterBench, folder: Path) -> None:
    """All know who they are, and where the first is."""
    script = (
        'if [ "$RANK" = 0 ]; then echo met | nc -l -p $MASTER_PORT; '
        'else until nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; fi; echo "$RANK of $WORLD_SIZE"'
    )
    await bench.shell(script, key=key(1), config=case.training(), training=PAIR)
    replicas = await bench.ended(key(1), members=2)
    assert {one.state for one in replicas.values()} == {ReplicaState.SUCCEEDED}, replicas
    assert [bench.log(key(1), rank).splitlines()[-1] for rank in range(2)] == [b"0 of 2", b"1 of 2"]
    assert verdict(bench, key(1)).end is AttemptEnd.SUCCEEDED
    await bench.engine.discard(key(1))
    await bench.gone(key(1))


async def is_started_again(case: Case, bench: ClusterBench, folder: Path) -> None:
    """A worker crashes once, and its owner's template has it started again."""
    mount = {"name": "kept", "mountPath": "/kept"}
    kept = {"name": "kept", "hostPath": {"path": str(folder)}}
    name = "pytorch" if case.kind == "PyTorchJob" else "main"
    pod = {
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": name, "image": "${image_uri}", "volumeMounts": [mount]}],
            "volumes": [kept],
        }
    }
    script = (
        f"RANK=${{RANK:-$JOB_COMPLETION_INDEX}}; echo rank $RANK; if [ $RANK = 0 ]; then sleep 3; exit; fi; "
        f"if mkdir /kept/{case.name} 2>/dev/null; then exit 3; fi; echo again"
    )
    await bench.shell(script, key=key(2), config=case.template(pod))
    replicas = await bench.ended(key(2), members=2)
    assert {one.state for one in replicas.values()} == {ReplicaState.SUCCEEDED}, replicas
    assert replicas[1].restarts == 1
    assert said(bench, key(2), 1) == b"rank 1\nrank 1\nagain\n"
    assert verdict(bench, key(2)).end is AttemptEnd.SUCCEEDED


async def is_evicted(case: Case, bench: ClusterBench, folder: Path) -> None:
    """A worker is taken away: the attempt ends, and the run goes back to its queue."""
    await bench.shell(STAY, key=key(3), config=case.training(), training=PAIR)
    running = await bench.running(key(3), members=2)
    await bench.evict(running[1].handle)
    replicas = await bench.ended(key(3), members=2)
    assert replicas[1].state is ReplicaState.PREEMPTED, replicas
    assert replicas[0].state is ReplicaState.STOPPED, replicas
    judged = verdict(bench, key(3))
    assert (judged.end, judged.state) == (AttemptEnd.PREEMPTED, RunState.QUEUED)
    assert "was taken away" in judged.reason


async def crashes(case: Case, bench: ClusterBench, folder: Path) -> None:
    """A worker fails in a training: all end with it, and it is named."""
    script = 'echo up; if [ "$RANK" = 1 ]; then exit 7; fi; exec sleep 300'
    await bench.shell(script, key=key(4), config=case.training(), training=PAIR)
    replicas = await bench.ended(key(4), members=2)
    assert (replicas[1].state, replicas[1].exit_code) == (ReplicaState.FAILED, 7), replicas
    assert replicas[0].state is ReplicaState.STOPPED, replicas
    assert replicas[0].reason == "It was ended because rank 1 failed."
    assert verdict(bench, key(4)).end is AttemptEnd.FAILED
    assert [said(bench, key(4), rank) for rank in range(2)] == [b"up\n", b"up\n"]


async def has_no_image(case: Case, bench: ClusterBench, folder: Path) -> None:
    config = case.training(image="example.invalid/nothing:1", imagePullPolicy="IfNotPresent")
    await bench.shell("true", key=key(5), config=config, training=PAIR)
    replicas = await bench.ended(key(5), members=2)
    failed = [one for one in replicas.values() if one.state is ReplicaState.FAILED]
    assert failed, replicas
    assert "example.invalid/nothing:1" in failed[0].reason
    assert verdict(bench, key(5)).end is AttemptEnd.FAILED


async def is_stopped(case: Case, bench: ClusterBench, folder: Path) -> None:
    await bench.shell(STAY, key=key(6), config=case.training(), training=PAIR)
    await bench.running(key(6), members=2)
    await bench.engine.stop(key(6))
    replicas = await bench.ended(key(6), members=2)
    assert {one.state for one in replicas.values()} == {ReplicaState.STOPPED}, replicas
    assert verdict(bench, key(6), stop=True).end is AttemptEnd.STOPPED
    await bench.engine.discard(key(6))
    await bench.gone(key(6))


async def does_not_fit(case: Case, bench: ClusterBench, folder: Path) -> None:
    """Two nodes that have room only one after the other."""
    gpus = GPUS // 2 + 1
    config = case.training(resources={"limits": {"nvidia.com/gpu": gpus}})
    await bench.shell(STAY, key=key(7), config=config, training=PAIR)

    def waits() -> str | None:
        pending = [one for one in bench.replicas(key(7)).values() if one.state is ReplicaState.PENDING]
        return next((one.reason for one in pending if case.waits in one.reason), None)

    await bench.until(waits, "the reason")
    if case.all_or_none:
        assert {one.state for one in bench.replicas(key(7)).values()} == {ReplicaState.PENDING}
    await bench.engine.stop(key(7))
    replicas = await bench.ended(key(7), members=2)
    assert {one.state for one in replicas.values()} == {ReplicaState.STOPPED}, replicas


SCENARIOS: tuple[Callable[[Case, ClusterBench, Path], Awaitable[None]], ...] = (
    meets,
    is_started_again,
    is_evicted,
    crashes,
    has_no_image,
    is_stopped,
    does_not_fit,
)


@pytest.mark.parametrize("case", CASES)
def test_a_training_and_what_can_happen_to_it(
    case: Case, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            found = await asyncio.gather(
                *(one(case, bench, tmp_path) for one in SCENARIOS), return_exceptions=True
            )
        wrong = {one.__name__: error for one, error in zip(SCENARIOS, found, strict=True) if error}
        assert not wrong, "\n".join(f"{name}: {error!r}" for name, error in wrong.items())

    with case.controller(cluster, namespace, tmp_path):
        asyncio.run(scenario())


@pytest.mark.torch
@pytest.mark.parametrize("case", CASES)
def test_two_nodes_train_together_and_the_loss_falls(
    case: Case, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Through all of Muster. PyTorch is in no image here: its environment, and the Python under it, are
    folders of the node."""
    python = Path(os.environ["MUSTER_TEST_TORCH_PYTHON"])
    code = ROOT / "examples" / "ddp"
    folders = {"torch": python.parents[1], "python": Path(sys.base_prefix), "code": code}
    mounts = [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()]
    config = case.training(
        resources={"requests": {"cpu": "200m"}},
        workingDir=str(code),
        env=[{"name": "PATH", "value": f"{python.parent}:/usr/bin:/bin"}],
        volumeMounts=mounts,
    )
    config["template"]["spec"]["volumes"] = [
        {"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()
    ]
    field = Field(tmp_path, cluster, namespace)
    with case.controller(cluster, namespace, tmp_path):
        try:
            field.queue("training", config)
            field.start_agent("training")
            shape = {"nodes": 2, "procs_per_node": 1}
            run = field.launch("training", ["train.py", "--epochs", "3"], image=PYTHON, training=shape)
            assert run.wait(300) is RunState.SUCCEEDED, run.why().summary
            losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", text_of(run))]
            assert losses[0] > losses[-1], losses
            assert len(field.client.list_replicas(run.id).items) == 2
        finally:
            field.close()
