"""A run that the cluster has no place for waits, says why, and goes on when there is one; or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.runs import ClusterBench, bench_in, job, key, rendered
from muster.agent.postmortem import find_cause
from muster.domain.errors import ClusterRefused
from muster.domain.observation import AttemptKey, Replica, ReplicaSeen, ReplicaState
from muster.domain.run import AttemptEnd
from muster.domain.verdict import AttemptView, judge, merge
from muster.engine.port import Work

Scenario = Callable[[ClusterBench], Coroutine[Any, Any, None]]
SLEEP = "echo up; exec sleep 60"


def gpus(number: int) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": number}}}


def run(cluster: Cluster, namespace: str, directory: Path, scenario: Scenario) -> None:
    async def inside() -> None:
        async with bench_in(cluster, namespace, directory) as bench:
            await scenario(bench)

    asyncio.run(inside())


def waits(bench: ClusterBench, name: AttemptKey, words: str) -> Callable[[], Replica | None]:
    def look() -> Replica | None:
        replica = bench.replicas(name).get(0)
        is_waiting = replica is not None and replica.state is ReplicaState.PENDING
        return replica if replica is not None and is_waiting and words in replica.reason else None

    return look


def test_what_fits_nowhere_is_said_with_what_is_short(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async def scenario(bench: ClusterBench) -> None:
        big = {"resources": {"limits": {"nvidia.com/gpu": GPUS + 1, "memory": "900Gi"}}}
        await bench.shell(SLEEP, key=key(1), config=job(big))
        replica = await bench.until(waits(bench, key(1), "nodes are available"), "the scheduler's words")
        assert replica.reason.startswith(
            "Not enough memory, nvidia.com/gpu: 0/1 nodes are available: 1 Insufficient memory, "
            "1 Insufficient nvidia.com/gpu."
        )
        await bench.engine.stop(key(1))
        assert (await bench.only(key(1))).state is ReplicaState.STOPPED

    run(cluster, namespace, tmp_path, scenario)


def test_what_a_quota_refuses_waits_for_room(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "0"}},
    }
    cluster.apply(quota, namespace=namespace)

    async def scenario(bench: ClusterBench) -> None:
        await bench.shell("echo up", key=key(1), config=job())
        replica = await bench.until(waits(bench, key(1), "quota"), "the quota's words")
        assert replica.reason == "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0"
        await asyncio.to_thread(
            bench.cluster.apply, {**quota, "spec": {"hard": {"pods": "1"}}}, namespace=namespace
        )
        replica = await bench.only(key(1))
        assert (replica.state, bench.log(key(1))) == (ReplicaState.SUCCEEDED, b"up\n")
        refusals = [note for note in bench.notes(key(1)) if "quota" in note]
        assert len(refusals) == 1, "tried many times, and told once"

    run(cluster, namespace, tmp_path, scenario)


def test_what_a_rule_of_the_namespace_refuses_fails_in_its_words(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

    async def scenario(bench: ClusterBench) -> None:
        await bench.shell("echo up", key=key(1), config=job())
        replica = await bench.only(key(1))
        assert replica.state is ReplicaState.FAILED
        failure = find_cause(bench.engine, key(1), {0: replica})
        assert failure.kind == "admission_refused"
        assert failure.summary.startswith(
            "The program could not start: the namespace enforces the Pod Security Standard restricted:latest"
        )
        assert "runAsNonRoot" in failure.summary
        await bench.gone(key(1))

    run(cluster, namespace, tmp_path, scenario)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            job({"image": "a", "volumeMounts": [{"name": "nowhere", "mountPath": "/x"}]}),
            "volumeMounts[0].name",
        ),
        (job(parallelism=-1), "spec.parallelism"),
    ],
    ids=["mount", "count"],
)
def test_an_object_that_the_cluster_would_refuse_is_refused_before_it_is_made(
    cluster: Cluster, namespace: str, tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    async def scenario(bench: ClusterBench) -> None:
        work = Work(
            key=key(1),
            run_name="my run",
            project="proj",
            entity="ann",
            queue="gpu",
            author="ann",
            config=config,
            command=("true",),
        )
        with pytest.raises(ClusterRefused) as refused:
            await bench.engine.check(rendered(work))
        assert refused.value.detail.startswith("The cluster refuses Job muster-r000000001-1: ")
        assert says in refused.value.detail
        assert await bench.engine.leftovers() == []

    run(cluster, namespace, tmp_path, scenario)


def test_a_run_whose_place_is_given_to_another_is_preempted(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    cluster.apply(urgent)

    async def scenario(bench: ClusterBench) -> None:
        await bench.shell(SLEEP, key=key(1), config=job(gpus(GPUS)))
        await bench.running(key(1))
        await bench.shell(
            "echo mine", key=key(2), config=job(gpus(GPUS), pod={"priorityClassName": "urgent"})
        )
        preempted, other = await asyncio.gather(bench.only(key(1)), bench.only(key(2)))
        assert preempted.state is ReplicaState.PREEMPTED
        assert "was taken away (PreemptionByScheduler)" in preempted.reason
        verdict = judge(merge(AttemptView(members=1), ReplicaSeen(replica=preempted)), stop_requested=False)
        assert verdict.end is AttemptEnd.PREEMPTED
        assert other.state is ReplicaState.SUCCEEDED

    try:
        run(cluster, namespace, tmp_path, scenario)
    finally:
        cluster.kubectl("delete", "priorityclass", "urgent")


def test_a_run_on_a_node_that_goes_silent_is_lost(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async def scenario(bench: ClusterBench) -> None:
        await bench.shell(SLEEP, key=key(1), config=job())
        await bench.says(b"up", key(1))
        await asyncio.to_thread(bench.cluster.stop_kubelet)
        try:
            replica = await bench.only(key(1))
        finally:
            await asyncio.to_thread(bench.cluster.start_kubelet)
        assert replica.state is ReplicaState.LOST
        assert replica.reason.startswith(f"Node {bench.cluster.node} of pod {replica.handle} does not answer")
        assert replica.log_bytes == len(bench.log(key(1))) == 3
        verdict = judge(merge(AttemptView(members=1), ReplicaSeen(replica=replica)), stop_requested=False)
        assert verdict.end is AttemptEnd.LOST

    run(cluster, namespace, tmp_path, scenario)
