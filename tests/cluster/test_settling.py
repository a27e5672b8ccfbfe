"""A name that is taken is settled by whose it is. The name is fixed by the template in all of these."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from cluster.runs import ClusterBench, bench_in, job, key
from muster.domain.errors import CannotPlace, ClusterRefused, Overtaken
from muster.domain.observation import ReplicaState
from muster.engine.kubernetes.api import Api
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.render import render
from muster.engine.kubernetes.submit import Submitter
from muster.engine.port import Rendered, Work

SLEEP = "echo up; exec sleep 60"
FIXED = {"metadata": {"name": "train"}, **job()}


async def uid(bench: ClusterBench) -> str:
    return await bench.kubectl("get", "job", "train", "--output=jsonpath={.metadata.uid}")


def test_the_same_attempt_is_taken_over(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            bench_in(cluster, namespace, tmp_path) as old,
            bench_in(cluster, namespace, tmp_path, agent="other") as new,
        ):
            await old.shell(SLEEP, key=key(1), config=FIXED)
            before = await old.running(key(1))
            await new.shell(SLEEP, key=key(1), config=FIXED, epoch=2)
            after = await new.running(key(1))
            assert after[0].handle == before[0].handle
            with pytest.raises(Overtaken):
                await old.engine.stop(key(1))

    asyncio.run(scenario())


def test_an_older_attempt_is_removed_first(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            bench_in(cluster, namespace, tmp_path) as old,
            bench_in(cluster, namespace, tmp_path, agent="other") as new,
        ):
            await old.shell(SLEEP, key=key(1), config=FIXED)
            await old.running(key(1))
            first = await uid(old)
            await new.patiently("echo second", key=key(1, 2), config=FIXED, epoch=2)
            assert (await new.only(key(1, 2))).state is ReplicaState.SUCCEEDED
            assert new.log(key(1, 2)) == b"second\n"
            assert await uid(new) != first
            assert (await old.only(key(1))).state is ReplicaState.STOPPED

    asyncio.run(scenario())


def test_a_newer_attempt_means_that_this_agent_is_overtaken(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            await bench.shell(SLEEP, key=key(1, 2), config=FIXED, epoch=2)
            await bench.running(key(1, 2))
            with pytest.raises(Overtaken):
                await bench.shell(SLEEP, key=key(1), config=FIXED)
            assert bench.replicas(key(1, 2))[0].state is ReplicaState.RUNNING

    asyncio.run(scenario())


def test_what_is_not_the_runs_is_named_and_left_alone(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            await bench.kubectl("create", "job", "train", f"--image={BUSYBOX}", "--", "sleep", "60")
            theirs = await uid(bench)
            with pytest.raises(ClusterRefused, match="Job 'train' is there already, and is not Muster's"):
                await bench.shell(SLEEP, key=key(1), config=FIXED)
            assert await uid(bench) == theirs
            await bench.kubectl("delete", "job", "train", "--wait")
            await bench.shell(SLEEP, key=key(2), config=FIXED)
            with pytest.raises(ClusterRefused, match="is there already, and belongs to run r000000002") as no:
                await bench.shell(SLEEP, key=key(1), config=FIXED)
            assert (
                no.value.hint == "Put ${run_id} into the name in the queue's config, or leave the name out."
            )
            await bench.running(key(2))

    asyncio.run(scenario())


def fixed(attempt: int) -> Rendered:
    about = {"run_name": "my run", "project": "proj", "entity": "ann", "queue": "gpu", "author": "ann"}
    more: dict[str, Any] = {**about, "config": FIXED, "image": BUSYBOX, "command": ("sleep", "60")}
    return render(Work(key=key(1, attempt), **more))


def test_whoever_sees_an_older_attempt_only_when_creating_removes_that_very_one(
    cluster: Cluster, namespace: str
) -> None:
    """What an agent has seen of the cluster may be a moment old."""

    async def scenario() -> None:
        api = Api(connect(ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace)))
        submitter = Submitter(api, agent="test")
        first = await submitter.create(fixed(1), epoch=1, secrets={})
        with pytest.raises(CannotPlace, match="Attempt 1 of run r000000001 is still going away"):
            await submitter.create(fixed(2), epoch=2, secrets={})
        second = None
        while second is None:
            with suppress(CannotPlace):
                second = await submitter.create(fixed(2), epoch=2, secrets={})
            await asyncio.sleep(0.1)
        assert second.uid != first.uid
        with pytest.raises(Overtaken):
            await submitter.create(fixed(1), epoch=1, secrets={})
        assert not await submitter.remove(first), "the name is another's by now"
        assert await submitter.remove(second)
        await api.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
