"""Volcano's own ways, on the real Volcano: its restarts, its commands, its time-outs, and its gangs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.field import Field
from cluster.images import BUSYBOX
from cluster.kinds import our_operator
from cluster.runs import ClusterBench, bench_in, key
from cluster.trainings import replicas, training
from installation import text_of, until
from muster.client.sdk import Run
from muster.domain import document
from muster.domain.observation import AttemptKey, ReplicaState
from muster.domain.run import RunState

pytestmark = pytest.mark.training
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "queues" / "volcano.yaml"
STAY = "echo up; exec sleep 300"


def job(*policies: dict[str, Any], members: int = 1, container: Any = None, **spec: Any) -> dict[str, Any]:
    pod = {
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "${image_uri}", **(container or {})}],
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "spec": {
            "schedulerName": "volcano",
            "policies": list(policies),
            "tasks": [{"name": "worker", "replicas": members, "template": {"spec": pod}}],
            **spec,
        },
    }


async def command(bench: ClusterBench, key: AttemptKey, action: str) -> None:
    """As `vcctl` gives one."""
    label = f"--selector=muster.dev/run-id={key.run_id}"
    (made,) = json.loads(await bench.kubectl("get", "jobs.batch.volcano.sh", label, "--output=json"))["items"]
    target = {name: made["metadata"][name] for name in ("name", "uid")}
    given = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": f"{action.lower()}-{key.run_id}"},
        "action": action,
        "target": {"apiVersion": made["apiVersion"], "kind": "Job", "controller": True, **target},
    }
    await bench.kubectl("create", "--filename=-", input=json.dumps(given))


async def phase(bench: ClusterBench, key: AttemptKey) -> str:
    label = f"--selector=muster.dev/run-id={key.run_id}"
    where = "--output=jsonpath={.items[0].status.state.phase}"
    return await bench.kubectl("get", "jobs.batch.volcano.sh", label, where)


def restarts(max_retry: int, expected: int) -> Callable[[ClusterBench, AttemptKey], Awaitable[None]]:
    async def fails_for_ever(bench: ClusterBench, key: AttemptKey) -> None:
        config = job({"event": "PodFailed", "action": "RestartJob"}, maxRetry=max_retry)
        await bench.shell("echo life; sleep 1; exit 5", key=key, config=config)
        replica = await bench.only(key)
        assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 5), replica
        assert replica.restarts == expected, replica
        assert bench.log(key) == b"life\n" * (expected + 1)
        assert await phase(bench, key) == "Failed"

    fails_for_ever.__name__ = f"maxRetry_{max_retry}_restarts_{expected}"
    return fails_for_ever


async def is_restarted_when_evicted(bench: ClusterBench, key: AttemptKey) -> None:
    config = job({"event": "PodEvicted", "action": "RestartJob"}, maxRetry=3)
    await bench.shell(STAY, key=key, config=config)
    (first,) = (await bench.running(key)).values()
    await bench.says(b"up", key)
    await bench.evict(first.handle)

    # Volcano may put another pod in the place of the one that is gone before it restarts the whole Job.
    def again() -> bool:
        told = bench.replicas(key)[0]
        return told.restarts in (1, 2) and told.state is ReplicaState.RUNNING

    await bench.until(again, "it runs again")
    await bench.until(lambda: bench.log(key) in (b"up\nup\n", b"up\nup\nup\n"), "the log of each life")


async def ends_when_evicted(bench: ClusterBench, key: AttemptKey) -> None:
    config = job({"event": "PodEvicted", "action": "TerminateJob"})
    await bench.shell(STAY, key=key, config=config)
    (first,) = (await bench.running(key)).values()
    await bench.evict(first.handle)
    replica = await bench.only(key)
    assert replica.state is ReplicaState.PREEMPTED, replica
    assert await phase(bench, key) == "Terminated"


async def is_aborted(bench: ClusterBench, key: AttemptKey) -> None:
    """By somebody's command: it was ended on purpose, past Muster."""
    await bench.shell(STAY, key=key, config=job())
    await bench.running(key)
    await command(bench, key, "AbortJob")
    replica = await bench.only(key)
    assert replica.state is ReplicaState.STOPPED, replica
    assert "was ended: " in replica.reason, replica
    assert await phase(bench, key) == "Aborted"


async def is_terminated(bench: ClusterBench, key: AttemptKey) -> None:
    await bench.shell(STAY, key=key, config=job())
    await bench.running(key)
    await command(bench, key, "TerminateJob")
    replica = await bench.only(key)
    assert replica.state is ReplicaState.STOPPED, replica
    assert await phase(bench, key) == "Terminated"


async def is_completed(bench: ClusterBench, key: AttemptKey) -> None:
    """What still runs then has done what was asked of it."""
    await bench.shell(STAY, key=key, config=job())
    await bench.running(key)
    await command(bench, key, "CompleteJob")
    replica = await bench.only(key)
    assert replica.state is ReplicaState.SUCCEEDED, replica
    assert await phase(bench, key) == "Completed"


async def is_pending_for_too_long(bench: ClusterBench, key: AttemptKey) -> None:
    """There are no such GPUs, and its owner does not wait for ever."""
    limits = {"limits": {"nvidia.com/gpu": GPUS + 1}}
    config = job(
        {"event": "PodPending", "action": "TerminateJob", "timeout": "3s"}, container={"resources": limits}
    )
    await bench.shell(STAY, key=key, config=config)
    replica = await bench.only(key)
    assert replica.state is ReplicaState.FAILED, replica
    assert await phase(bench, key) == "Terminated"
    assert re.fullmatch(r"Terminated\. It had not started: .*gang unschedulable: .*", replica.reason), replica
    assert f"It needs {GPUS + 1} GPUs on one node" in replica.reason


PARTS: tuple[Callable[[ClusterBench, AttemptKey], Awaitable[None]], ...] = (
    restarts(1, 0),
    restarts(2, 1),
    restarts(0, 2),
    is_restarted_when_evicted,
    ends_when_evicted,
    is_aborted,
    is_terminated,
    is_completed,
    is_pending_for_too_long,
)


def test_what_volcano_does_with_a_job_is_told_as_it_is(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.start_volcano()

    async def scenario() -> list[BaseException | None]:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            return await asyncio.gather(
                *(part(bench, key(number)) for number, part in enumerate(PARTS)), return_exceptions=True
            )

    found = asyncio.run(scenario())
    wrong = {part.__name__: error for part, error in zip(PARTS, found, strict=True) if error}
    assert not wrong, "\n".join(f"{name}: {error!r}" for name, error in wrong.items())


MEET = (
    'if [ "$RANK" = 0 ]; then for i in $(seq 2 $WORLD_SIZE); do nc -l -p $MASTER_PORT; done; else '
    "until echo rank $RANK | nc -w 2 $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; exec sleep 300; fi; "
    "echo all of $WORLD_SIZE at $MASTER_PORT"
)


def test_the_tutorials_template_runs_as_it_is_written(cluster: Cluster, tmp_path: Path) -> None:
    """Its number of workers is a variable. When the master is done, the Job is."""
    cluster.start_volcano()
    config = document.parse(EXAMPLE.read_text(), name=EXAMPLE.name)
    assert isinstance(config, dict)
    namespace = config["metadata"]["namespace"]
    config["spec"]["tasks"][1]["replicas"] = "{{workers}}"
    workers = {"workers": {"type": "integer", "default": 1, "minimum": 1, "maximum": 8}}
    cluster.kubectl("create", "namespace", namespace)
    field = Field(tmp_path, cluster, namespace)
    try:
        field.queue("volcano", config, variables=workers)
        field.start_agent("volcano")
        for number in (1, 3):
            run = field.launch("volcano", ["sh", "-c", MEET], image=BUSYBOX, values={"workers": number})
            assert run.wait(180) is RunState.SUCCEEDED, run.why().summary
            *knocks, last = text_of(run, 0).splitlines()
            assert sorted(knocks) == [f"rank {rank}" for rank in range(1, number + 1)]
            assert last == f"all of {number + 1} at 23456"
            told = field.client.list_replicas(run.id).items
            assert [one.state for one in told] == ["succeeded"] * (number + 1)
            assert all(one.handle.startswith(f"train-{run.id}-") for one in told)
    finally:
        field.close()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def _waits(run: Run) -> str | None:
    told = run.why().summary
    return told if "2/2 tasks in gang unschedulable" in told else None


def test_a_gang_that_does_not_fit_starts_no_pod_and_why_has_the_words_of_its_group(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.start_volcano()
    config = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": GPUS}}}]}},
    }
    field = Field(tmp_path, cluster, namespace)
    try:
        field.queue("gang", config)
        field.start_agent("gang")
        run = field.launch("gang", ["sh", "-c", STAY], image=BUSYBOX, training={"nodes": 2})

        said = until(lambda: _waits(run), seconds=60, what="the reason")
        assert "pod group is not ready, 2 Pending, 2 minAvailable" in said
        pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").raise_for_status().json()["items"]
        assert not [pod for pod in pods if pod["spec"].get("nodeName")]
        assert run.state is RunState.PENDING
        run.stop()
        assert run.wait(90) is RunState.STOPPED
        until(lambda: not field.left(run), seconds=60, what="nothing left")
    finally:
        field.close()


def test_a_pytorchtrainingjob_is_placed_by_volcano_as_a_whole_or_not_at_all(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.start_volcano()
    with our_operator(cluster, namespace, tmp_path) as trainings:
        fits, big = replicas("worker", "exit 0", 2), replicas("worker", "exit 0", 2)
        limits = {"limits": {"nvidia.com/gpu": GPUS // 2 + 1}}
        big["template"]["spec"]["containers"][0]["resources"] = limits
        trainings.create(training(big, name="big", scheduler={"volcanoScheduler": {}}))
        trainings.create(training(fits, scheduler={"volcanoScheduler": {"queue": "default"}}))
        trainings.until("Succeeded")

        def waits() -> str | None:
            path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
            groups = cluster.api.get(path).raise_for_status().json()["items"]
            told = [
                one
                for group in groups
                if group["metadata"]["ownerReferences"][0]["name"] == "big"
                for one in (group.get("status") or {}).get("conditions") or ()
            ]
            return next((one["message"] for one in told if one["type"] == "Unschedulable"), None)

        assert "2 minAvailable" in until(waits, seconds=60, what="Volcano's words")
        pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").raise_for_status().json()["items"]
        mine = [pod for pod in pods if pod["metadata"]["name"].startswith("big-")]
        assert len(mine) == 2
        assert not [pod for pod in mine if pod["spec"].get("nodeName")]
        assert trainings.status("big")["phase"] == "Pending"


def test_a_pytorchtrainingjob_that_volcano_cannot_place_says_why(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.start_volcano()
    big = replicas("worker", "", 2)
    big["template"]["spec"]["containers"] = [
        {"name": "main", "image": "${image_uri}", "resources": {"limits": {"nvidia.com/gpu": GPUS}}}
    ]
    config = training(big, scheduler={"volcanoScheduler": {}}) | {"metadata": {}}
    field = Field(tmp_path, cluster, namespace)
    try:
        with our_operator(cluster, namespace, tmp_path):
            field.queue("gang", config)
            field.start_agent("gang")
            run = field.launch("gang", ["sh", "-c", STAY], image=BUSYBOX)
            said = until(lambda: _waits(run), seconds=60, what="the reason")
            assert "pod group is not ready, 2 Pending, 2 minAvailable" in said
            assert run.state is RunState.PENDING
            run.stop()
            assert run.wait(90) is RunState.STOPPED
    finally:
        field.close()
