"""Runs on the cluster as its tests need them: the templates of queues, and a bench to try them on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from integration.engine.contract import Bench
from muster.domain.observation import AttemptKey, Noted
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.member import Patience
from muster.engine.kubernetes.pods import find
from muster.engine.kubernetes.render import render
from muster.engine.port import Rendered, Work

SHORT = Patience(
    hopeless=timedelta(seconds=1),
    pull=timedelta(seconds=1),
    prepare=timedelta(seconds=10),  # a token of a service account may be a little late
    refused=timedelta(seconds=1),
)
DEADLINE = 120.0  #: seconds; many pods come up at once


def job(
    container: Mapping[str, Any] | None = None,
    *others: Mapping[str, Any],
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """The config of a queue whose runs are Jobs; its pods do not linger."""
    containers = [dict(container or {}), *({"image": BUSYBOX, **other} for other in others)]
    inside = {"terminationGracePeriodSeconds": 1, "containers": containers, **(pod or {})}
    return {"spec": {"template": {"spec": inside}, **spec}}


def key(number: int, attempt: int = 1) -> AttemptKey:
    return AttemptKey(run_id=f"r{number:09}", attempt=attempt)


def rendered(work: Work) -> Rendered:
    """With an image, unless the template has its own."""
    images = [pod.containers[0].get("image") for pod in find(work.config)]
    has_own = not images or any(image not in (None, "${image_uri}") for image in images)
    return render(work if has_own else replace(work, image=BUSYBOX))


class ClusterBench(Bench):
    cluster: Cluster
    namespace: str

    async def kubectl(self, *words: str, input: str | None = None) -> str:  # noqa: A002
        """As somebody else would."""
        return await asyncio.to_thread(
            self.cluster.kubectl, f"--namespace={self.namespace}", *words, input=input
        )

    async def evict(self, pod: str) -> None:
        metadata = {"name": pod, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        await self.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(body))

    async def gone(self, key: AttemptKey) -> None:
        """Until nothing of it is in the cluster."""
        deadline = time.monotonic() + self.deadline
        while key in await self.engine.leftovers():
            assert time.monotonic() < deadline, f"{key} is still there"
            await asyncio.sleep(0.1)

    def notes(self, key: AttemptKey) -> list[str]:
        return [seen.fact.message for seen in self.seen if seen.key == key and isinstance(seen.fact, Noted)]


@asynccontextmanager
async def bench_in(
    cluster: Cluster,
    namespace: str,
    directory: Path,
    *,
    agent: str = "test",
    patience: Patience = SHORT,
    deadline: float = DEADLINE,
    kubeconfig: Path | None = None,
) -> AsyncIterator[ClusterBench]:
    """An engine of its own, with all rights or those of a `kubeconfig`. What it leaves goes with the
    namespace."""
    settings = ClusterSettings(kubeconfig=kubeconfig or cluster.kubeconfig, namespace=namespace)
    connection = connect(settings)
    engine = KubernetesEngine(
        connection, directory / agent, agent=agent, keep=timedelta(hours=1), patience=patience
    )
    bench = ClusterBench(engine=engine, render=rendered, config={}, directory=directory, deadline=deadline)
    bench.cluster, bench.namespace = cluster, namespace
    listening = asyncio.create_task(bench.listen())
    try:
        yield bench
    finally:
        await engine.close()
        await asyncio.wait_for(listening, deadline)
