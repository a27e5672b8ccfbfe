"""Pods that follow each other: each member is told once, with all that its pods said."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.cluster import Cluster
from cluster.runs import ClusterBench, bench_in, job, key
from muster.domain.observation import AttemptKey, ReplicaSeen, ReplicaState
from muster.domain.run import AttemptEnd, RunState
from muster.domain.training import Training
from muster.domain.verdict import AttemptView, judge, merge

SUCCEEDED = ReplicaState.SUCCEEDED


def runs_before(bench: ClusterBench, key: AttemptKey, *, rank: int) -> bool:
    """Was the run called running before that member was there?"""
    view = AttemptView(members=3)
    for seen in (one for one in bench.seen if one.key == key):
        if isinstance(seen.fact, ReplicaSeen) and seen.fact.replica.rank == rank:
            return judge(view, stop_requested=False).state is RunState.RUNNING
        view = merge(view, seen.fact)
    return False


def test_pods_that_follow_each_other(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """All at once: a controller waits ten seconds before it replaces a pod."""
    mount = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    kept = {"volumes": [{"name": "kept", "hostPath": {"path": str(tmp_path)}}]}

    async def replaced_after_a_failure(bench: ClusterBench) -> None:
        script = "if [ -e /kept/1 ]; then echo second; else touch /kept/1; echo first; exit 1; fi"
        await bench.shell(script, key=key(1), config=job(mount, pod=kept, backoffLimit=1))
        replica = await bench.only(key(1))
        assert (replica.state, replica.restarts) == (SUCCEEDED, 1)
        assert bench.log(key(1)) == b"first\nsecond\n"
        assert replica.log_bytes == 13

    async def replaced_in_vain(bench: ClusterBench) -> None:
        await bench.shell("echo life; exit 6", key=key(2), config=job(backoffLimit=1))
        replica = await bench.only(key(2))
        assert (replica.state, replica.exit_code, replica.restarts) == (ReplicaState.FAILED, 6, 1)
        assert bench.log(key(2)) == b"life\nlife\n"

    async def replaced_after_a_deletion(bench: ClusterBench) -> None:
        script = "if [ -e /kept/3 ]; then echo second; else touch /kept/3; echo first; exec sleep 60; fi"
        await bench.shell(script, key=key(3), config=job(mount, pod=kept, backoffLimit=1))
        await bench.says(b"first", key(3))
        await bench.kubectl("delete", "pod", bench.replicas(key(3))[0].handle, "--wait=false")
        replica = await bench.only(key(3))
        assert (replica.state, replica.restarts) == (SUCCEEDED, 1)
        assert bench.log(key(3)) == b"first\nsecond\n"

    async def more_than_run_at_a_time(bench: ClusterBench) -> None:
        await bench.shell("echo $HOSTNAME", key=key(4), config=job(completions=3, parallelism=1))
        replicas = await bench.ended(key(4), members=3)
        for rank, replica in replicas.items():
            assert replica.state is SUCCEEDED
            assert bench.log(key(4), rank).decode() == f"{replica.handle}\n"
        assert len({replica.handle for replica in replicas.values()}) == 3
        assert runs_before(bench, key(4), rank=1), "it runs as soon as one does"

    async def more_than_run_at_a_time_numbered(bench: ClusterBench) -> None:
        config = job(completions=3, parallelism=2, completionMode="Indexed")
        await bench.shell("echo $JOB_COMPLETION_INDEX", key=key(5), config=config)
        replicas = await bench.ended(key(5), members=3)
        assert {replica.state for replica in replicas.values()} == {SUCCEEDED}
        assert [bench.log(key(5), rank) for rank in range(3)] == [b"0\n", b"1\n", b"2\n"]
        assert runs_before(bench, key(5), rank=2), "it runs as soon as two do"

    async def one_of_two_evicted(bench: ClusterBench) -> None:
        config = {
            "kind": "Job",
            "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [{}]}},
        }
        await bench.shell("echo up; exec sleep 60", key=key(6), config=config, training=Training(nodes=2))
        running = await bench.running(key(6), members=2)
        await bench.evict(running[1].handle)
        replicas = await bench.ended(key(6), members=2)
        assert replicas[1].state is ReplicaState.PREEMPTED
        assert replicas[0].state is ReplicaState.STOPPED
        assert replicas[0].reason == "It was ended because rank 1 was taken away."
        view = AttemptView(members=2)
        for replica in replicas.values():
            view = merge(view, ReplicaSeen(replica=replica))
        assert judge(view, stop_requested=False).end is AttemptEnd.PREEMPTED

    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench, asyncio.TaskGroup() as tasks:
            for part in (
                replaced_after_a_failure,
                replaced_in_vain,
                replaced_after_a_deletion,
                more_than_run_at_a_time,
                more_than_run_at_a_time_numbered,
                one_of_two_evicted,
            ):
                tasks.create_task(part(bench))

    asyncio.run(scenario())
