"""What members use, told by a real kubelet, and by a metrics API behind the real API server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from cluster.pki import Authority
from installation import until
from integration.engine.contract import KEY, Bench
from muster.domain.training import Training
from muster.engine.kubernetes.access import EXTRAS, Extra, rights
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.render import render
from muster.engine.kubernetes.role import rules
from muster.engine.port import Sample

DEADLINE = 60.0
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
    def is_busy(found: list[Sample]) -> bool:
        return len(found) == 2 and all((one.cpu or 0) > 0.01 for one in found)

    kubeconfig = cluster.kubeconfig_for("agent", namespace, RULES, cluster_rules=rules_of(Extra.KUBELET))

    async def scenario() -> None:
        async with running(kubeconfig, namespace, tmp_path, members=2) as bench:
            found = await samples(bench, is_busy)
            assert [(one.key, one.rank) for one in found] == [(KEY, 0), (KEY, 1)]
            for one in found:
                assert 0 < (one.memory or 0) < 2**30
                assert (one.net_received or 0) > 0
                assert (one.net_sent or 0) > 0
                assert (one.disk_used or 0) > 0

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
    """The metrics API is a stand-in that answers in the documented form; all on the way to it is real."""
    kubeconfig = cluster.kubeconfig_for("agent", namespace, [*RULES, *rules_of(Extra.METRICS)])

    async def scenario() -> None:
        with metrics_api(cluster, namespace, tmp_path) as asked:
            async with running(kubeconfig, namespace, tmp_path, members=2) as bench:
                asked.clear()
                found = await bench.engine.usage()
                assert [(one.rank, one.cpu, one.memory) for one in found] == [
                    (0, 0.125, 64 * 2**20),
                    (1, 0.125, 64 * 2**20),
                ]
                assert asked == [
                    f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/pods?labelSelector=muster.dev%2Frun-id"
                ]

    asyncio.run(scenario())


@contextmanager
def metrics_api(cluster: Cluster, namespace: str, folder: Path) -> Iterator[list[str]]:
    """An API server of this test's own behind the cluster's: the metrics of all pods with a run's label."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/pods" in self.path:
                asked.append(self.path)
            body = json.dumps(_answer(cluster, namespace, self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    authority = Authority(folder / "pki")
    certificate = authority.server("metrics", names=(f"metrics.{namespace}.svc",))
    server = ThreadingHTTPServer((cluster.host_address, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    name = f"v1beta1.{GROUP}"
    try:
        cluster.apply(
            *_objects(cluster.host_address, server.server_port, namespace, authority.certificate),
            namespace=namespace,
        )
        until(lambda: _is_available(cluster, name), what="the metrics API is available")
        yield asked
    finally:
        cluster.api.delete(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}")
        server.shutdown()
        thread.join()
        server.server_close()


def _objects(address: str, port: int, namespace: str, authority: Path) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics"},
            "spec": {"clusterIP": "None", "ports": [{"port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "metrics", "labels": {"kubernetes.io/service-name": "metrics"}},
            "addressType": "IPv4",
            "ports": [{"name": "", "port": port}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{GROUP}"},
            "spec": {
                "group": GROUP,
                "version": "v1beta1",
                "service": {"name": "metrics", "namespace": namespace, "port": 443},
                "caBundle": base64.b64encode(authority.read_bytes()).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]


def _is_available(cluster: Cluster, name: str) -> bool:
    answer = cluster.api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}").json()
    conditions = answer.get("status", {}).get("conditions", [])
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


def _answer(cluster: Cluster, namespace: str, path: str) -> dict[str, Any]:
    if "/pods" not in path:
        resource = {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{GROUP}/v1beta1",
            "resources": [resource],
        }
    pods = json.loads(cluster.kubectl("get", "pods", f"--namespace={namespace}", "--output=json"))["items"]
    usage = {"cpu": "125000000n", "memory": "65536Ki"}
    items = [
        {
            "metadata": {"name": pod["metadata"]["name"], "namespace": namespace},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "15s",
            "containers": [{"name": one["name"], "usage": usage} for one in pod["spec"]["containers"]],
        }
        for pod in pods
    ]
    return {"kind": "PodMetricsList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": items}
