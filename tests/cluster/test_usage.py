"""What members use, told by a real kubelet, and by a real metrics API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from installation import until
from integration.engine.contract import KEY, Bench
from muster.domain.training import Training
from muster.engine.kubernetes.access import EXTRAS, Extra, rights
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.render import render
from muster.engine.kubernetes.role import rules
from muster.engine.port import Sample

DEADLINE = 120.0  #: seconds; metrics-server looks every ten, on a busy machine later
GROUP = "metrics.k8s.io"
RULES = rules(rights())  #: nothing that is about usage


def rules_of(extra: Extra) -> list[dict[str, Any]]:
    """What the role has for this, where somebody chose it."""
    return rules(right for right in EXTRAS if right.extra is extra)


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, directory: Path, *, members: int) -> AsyncIterator[Bench]:
    """A busy run in the cluster."""

    template = {"kind": "Job", "template": {"spec": {"containers": [{"image": BUSYBOX}]}}}
    engine = KubernetesEngine(
        connect(ClusterSettings(kubeconfig=kubeconfig, namespace=namespace)),
        directory / "engine",
        agent="test",
        keep=timedelta(hours=1),
    )
    bench = Bench(engine=engine, render=render, config=template, directory=directory)
    listening = asyncio.create_task(bench.listen())
    try:
        await bench.shell("while :; do :; done", training=Training(nodes=members))
        await bench.running(members=members)
        yield bench
    finally:
        await engine.discard(KEY)
        await engine.close()
        await asyncio.wait_for(listening, DEADLINE)


async def samples(bench: Bench, enough: Callable[[list[Sample]], bool]) -> list[Sample]:
    deadline = time.monotonic() + DEADLINE
    while not enough(found := await bench.engine.usage()):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)
    return found


def test_a_kubelet_tells_of_processor_memory_network_and_disk(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    def is_known(found: list[Sample]) -> bool:
        """A kubelet looks at a pod's network and its disk each in its own rounds."""
        return len(found) == 2 and all(
            (one.cpu or 0) > 0.01 and one.net_received and one.net_sent and one.disk_used for one in found
        )

    kubeconfig = cluster.kubeconfig_for("agent", namespace, RULES, cluster_rules=rules_of(Extra.KUBELET))

    async def scenario() -> None:
        async with running(kubeconfig, namespace, tmp_path, members=2) as bench:
            found = await samples(bench, is_known)
            assert [(one.key, one.rank) for one in found] == [(KEY, 0), (KEY, 1)]
            assert all(0 < (one.memory or 0) < 2**30 for one in found)

    asyncio.run(scenario())


def test_who_may_not_ask_gets_no_samples_and_asks_but_once(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = cluster.kubeconfig_for("agent", namespace, RULES)

    async def scenario() -> None:
        async with running(kubeconfig, namespace, tmp_path, members=1) as bench:
            for _ in range(5):
                assert await bench.engine.usage() == []

    asyncio.run(scenario())
    user = f"system:serviceaccount:{namespace}:agent"
    asked = [one.uri for one in cluster.requests(user=user)]
    assert len([uri for uri in asked if "stats/summary" in uri]) == 1
    assert len([uri for uri in asked if GROUP in uri]) == 1


def test_a_metrics_api_is_asked_once_for_all_runs_of_a_namespace(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """metrics-server itself, behind the API server."""
    cluster.start_metrics()
    kubeconfig = cluster.kubeconfig_for("agent", namespace, [*RULES, *rules_of(Extra.METRICS)])
    user = f"system:serviceaccount:{namespace}:agent"

    def asked() -> list[str]:
        return [one.uri for one in cluster.requests(user=user) if GROUP in one.uri]

    def is_busy(found: list[Sample]) -> bool:
        return len(found) == 2 and all((one.cpu or 0) > 0.01 for one in found)

    async def scenario() -> None:
        async with running(kubeconfig, namespace, tmp_path, members=2) as bench:
            found = await samples(bench, is_busy)
            assert [(one.key, one.rank) for one in found] == [(KEY, 0), (KEY, 1)]
            assert all(0 < (one.memory or 0) < 2**30 for one in found)
            before = len(asked())
            await bench.engine.usage()
            until(lambda: len(asked()) > before, what="it is in the API server's log")
            assert asked()[before:] == [
                f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/pods?labelSelector=muster.dev%2Frun-id"
            ]

    asyncio.run(scenario())
