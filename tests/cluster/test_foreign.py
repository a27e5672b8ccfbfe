"""Kinds that Muster has no row for, shaped like a RayJob: the test plays their controller."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from cluster.runs import ClusterBench, bench_in, key
from muster.domain.observation import ReplicaState
from muster.engine.kubernetes import attempt

GROUP = "ray.example"
RULES = {
    "muster.dev/succeeded-when": "status.jobStatus == 'SUCCEEDED'",
    "muster.dev/failed-when": "status.jobStatus == 'FAILED'",
    "muster.dev/message": "status.message",
}


def definition(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module")
def ray(cluster: Cluster) -> Cluster:
    kinds = [definition(kind) for kind in ("RayJob", "RayCluster")]
    cluster.apply(*kinds, namespace="default")
    for kind in kinds:
        name = f"crd/{kind['metadata']['name']}"
        cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=60s")
    return cluster


def job(**annotations: str) -> dict[str, Any]:
    """Its pods are nowhere described."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RayJob",
        "metadata": {"annotations": annotations},
        "spec": {"entrypoint": "python train.py"},
    }


async def owned(bench: ClusterBench, owner: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """Create what a controller would, in the name of its owner."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    item["metadata"]["ownerReferences"] = [reference]
    made = await bench.kubectl("create", "--filename=-", "--output=json", input=json.dumps(item))
    created: dict[str, Any] = json.loads(made)
    return created


async def run_by_a_cluster(bench: ClusterBench, number: int, script: str, **rules: str) -> dict[str, Any]:
    """A RayJob that makes a RayCluster that makes a pod."""
    await bench.submit(key=key(number), config=job(**rules))
    label = f"--selector=muster.dev/run-id={key(number).run_id}"
    found = json.loads(await bench.kubectl("get", f"rayjobs.{GROUP}", label, "--output=json"))
    (made,) = found["items"]
    name = made["metadata"]["name"]
    between = {"apiVersion": f"{GROUP}/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": {}}
    ray_cluster = await owned(bench, made, between)
    container = {"name": "head", "image": BUSYBOX, "command": ["sh", "-c", script]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    await owned(
        bench, ray_cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    )
    return {"name": name}


async def says(bench: ClusterBench, name: str, **status: Any) -> None:
    change = json.dumps({"status": status})
    await bench.kubectl(
        "patch", f"rayjobs.{GROUP}", name, "--subresource=status", "--type=merge", f"--patch={change}"
    )


def test_a_kind_that_nobody_knows_is_watched_to_its_end(
    ray: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "LINGER", timedelta(seconds=2))

    async def ends_as_its_owner_says(bench: ClusterBench) -> None:
        """The head goes on, as that of a Ray cluster does, until Muster ends it."""
        made = await run_by_a_cluster(bench, 1, "echo trained; exec sleep 300", **RULES)
        await bench.running(key(1))
        await says(bench, made["name"], jobStatus="SUCCEEDED", message="done")
        replica = await bench.only(key(1))
        assert replica.state is ReplicaState.SUCCEEDED, replica
        assert bench.log(key(1)) == b"trained\n"

    async def fails_as_its_owner_says(bench: ClusterBench) -> None:
        made = await run_by_a_cluster(bench, 2, "exec sleep 300", **RULES)
        await bench.running(key(2))
        await says(bench, made["name"], jobStatus="FAILED", message="the head is deaf")
        replica = await bench.only(key(2))
        assert replica.state is ReplicaState.FAILED, replica
        assert replica.reason == "muster.dev/failed-when holds: the head is deaf"

    async def is_read_by_its_phase(bench: ClusterBench) -> None:
        """A pod that failed is not the end where the controller says that it goes on."""
        made = await run_by_a_cluster(bench, 3, "echo once; exit 3")
        await says(bench, made["name"], phase="Restarting")
        await bench.says(b"once", key(3))
        await says(bench, made["name"], phase="Failed", message="gave up")
        replica = await bench.only(key(3))
        assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 3), replica

    async def ends_as_its_pods_do(bench: ClusterBench) -> None:
        await run_by_a_cluster(bench, 4, "echo done")
        replica = await bench.only(key(4))
        assert replica.state is ReplicaState.SUCCEEDED, replica
        await bench.engine.discard(key(4))
        await bench.gone(key(4))

    async def scenario() -> None:
        async with bench_in(ray, namespace, tmp_path) as bench, asyncio.TaskGroup() as tasks:
            for part in (
                ends_as_its_owner_says,
                fails_as_its_owner_says,
                is_read_by_its_phase,
                ends_as_its_pods_do,
            ):
                tasks.create_task(part(bench))

    asyncio.run(scenario())


def test_an_agent_that_never_saw_its_kind_takes_a_run_over(
    ray: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pods or without: what a run was started from tells where to look."""
    monkeypatch.setattr(attempt, "LINGER", timedelta(seconds=2))

    async def takes_over(number: int, *, pods: bool) -> None:
        async with bench_in(ray, namespace, tmp_path, agent=f"first-{number}") as first:
            if pods:
                made = await run_by_a_cluster(first, number, "echo up; exec sleep 300", **RULES)
                await first.running(key(number))
            else:
                await first.submit(key=key(number), config=job(**RULES))
                label = f"--selector=muster.dev/run-id={key(number).run_id}"
                name = await first.kubectl("get", f"rayjobs.{GROUP}", label, "--output=name")
                made = {"name": name.strip().partition("/")[2]}
        async with bench_in(ray, namespace, tmp_path, agent=f"second-{number}") as second:
            assert await second.engine.adopt(key(number), 2, config=job(**RULES))
            await says(second, made["name"], jobStatus="FAILED", message="seen by the second")
            replica = await second.only(key(number))
            assert (replica.state, replica.reason) == (
                ReplicaState.FAILED,
                "muster.dev/failed-when holds: seen by the second",
            )

    async def scenario() -> None:
        await asyncio.gather(takes_over(1, pods=False), takes_over(2, pods=True))

    asyncio.run(scenario())
