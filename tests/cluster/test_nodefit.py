"""Why a member has no place, from the real scheduler and from a look at the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from cluster.nodes import SELECTOR, TOLERATION
from cluster.test_cluster import phase, pod
from cluster.test_usage import RULES, rules_of
from installation import until
from integration.engine.contract import DEADLINE, KEY, Bench
from muster.domain.observation import ReplicaState
from muster.domain.training import Training
from muster.engine.kubernetes.access import Extra
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.render import render

THERE: dict[str, Any] = {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]}
LOOK = rules_of(Extra.NODES)


@asynccontextmanager
async def waiting(kubeconfig: Path, namespace: str, directory: Path) -> AsyncIterator[Bench]:
    """A run that wants two nodes with two GPUs each."""
    container = {"image": BUSYBOX, "resources": {"limits": {"nvidia.com/gpu": 2}}}
    template = {"kind": "Job", "template": {"spec": {"containers": [container], **THERE}}}
    connection = connect(ClusterSettings(kubeconfig=kubeconfig, namespace=namespace))
    engine = KubernetesEngine(connection, directory / "engine", agent="test")
    bench = Bench(engine=engine, render=render, config=template, directory=directory)
    listening = asyncio.create_task(bench.listen())
    try:
        await bench.shell("true", training=Training(nodes=2))
        yield bench
    finally:
        await engine.discard(KEY)
        await engine.close()
        await asyncio.wait_for(listening, DEADLINE)


@pytest.fixture
def fragments(cluster: Cluster, namespace: str) -> Any:
    """Three simulated nodes with two GPUs; on two of them, one is in use."""
    nodes = cluster.add_nodes(3, gpus=2, labels={"fragments": "yes"})
    cluster.apply(
        *(
            pod(f"busy-{name}", "train", gpus=1, **THERE | {"nodeSelector": {"kubernetes.io/hostname": name}})
            for name in nodes[:2]
        ),
        namespace=namespace,
    )
    for name in nodes[:2]:
        until(lambda name=name: phase(cluster, namespace, f"busy-{name}") == "Running", what=f"busy-{name}")  # type: ignore[misc]
    yield nodes
    cluster.remove_nodes(nodes)


def test_the_scheduler_says_how_many_nodes_and_we_say_which(
    cluster: Cluster, namespace: str, tmp_path: Path, fragments: list[str]
) -> None:
    kubeconfig = cluster.kubeconfig_for("agent", namespace, RULES, cluster_rules=LOOK)
    one, other, whole = fragments

    async def scenario() -> None:
        async with waiting(kubeconfig, namespace, tmp_path) as bench:

            def look() -> str | None:
                states = {member.state: member for member in bench.replicas().values()}
                without = states.get(ReplicaState.PENDING)
                placed = [member for member in bench.replicas().values() if member.node == whole]
                return without.reason if without and placed and "It needs" in without.reason else None

            reason = await bench.until(look, "a member without a place")
            assert reason.startswith("Not enough nvidia.com/gpu: 0/4 nodes are available: ")
            assert "3 Insufficient nvidia.com/gpu" in reason
            assert f"It needs 2 GPUs on one node; {one} has 1 free, {other} 1 free, {whole} 0 free." in reason

    asyncio.run(scenario())
    user = f"system:serviceaccount:{namespace}:agent"
    looks = [one for one in cluster.requests(user=user) if one.resource == "nodes"]
    assert 1 <= len(looks) <= 3


def test_without_the_right_to_look_the_schedulers_words_stand_alone(
    cluster: Cluster, namespace: str, tmp_path: Path, fragments: list[str]
) -> None:
    kubeconfig = cluster.kubeconfig_for("agent", namespace, RULES)

    async def scenario() -> None:
        async with waiting(kubeconfig, namespace, tmp_path) as bench:

            def look() -> str | None:
                return next((member.reason for member in bench.replicas().values() if member.reason), None)

            reason = await bench.until(look, "a member without a place")
            assert reason.startswith("Not enough nvidia.com/gpu: 0/4 nodes are available: ")
            assert "It needs" not in reason

    asyncio.run(scenario())
    user = f"system:serviceaccount:{namespace}:agent"
    refused = [one.uri for one in cluster.requests(user=user) if one.code == 403]
    assert len(refused) == 1
    assert refused[0].startswith("/api/v1/pods?")
