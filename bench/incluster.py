"""Muster on the Kubernetes of the tests: `muster server`, `muster agent`, and queues whose runs are Jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench import kubelet
from bench.harness import CannotMeasure
from bench.machine import ROOT
from bench.processes import Processes
from bench.recording import Recording
from bench.server import prepare, serving
from cluster.accounts import account
from cluster.cluster import Cluster
from cluster.errors import CannotBeHad
from cluster.images import BUSYBOX
from cluster.nodes import SELECTOR, TOLERATION
from muster.client.sdk import Run
from muster.client.settings import ClientSettings
from muster.client.sync import Client
from muster.engine.kubernetes.access import rights
from muster.wire.queues import QueueRequest
from muster.wire.runs import LaunchRequest, RetryModel

REAL, SIMULATED = "real", "simulated"  #: queues, by the nodes that their runs go to
_PATHS = f"{ROOT}:{ROOT / 'tests'}"
USER_AGENT = "muster/"  #: how the agent's requests begin to tell who asks
_ASKS = {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}


@contextmanager
def cluster_with(nodes: int, folder: Path) -> Iterator[Cluster]:
    """With so many simulated nodes, whose pods have logs."""
    try:
        cluster = Cluster.up()
    except CannotBeHad as reason:
        raise CannotMeasure(str(reason)) from reason
    with cluster, Processes(folder) as processes:
        logs = processes.spawn("kubelet", kubelet.command(cluster), env={"PYTHONPATH": _PATHS}, talks=True)
        assert logs.stdout is not None
        port = int(logs.stdout.readline() or 0)
        if not port:
            raise CannotMeasure(f"no logs of simulated pods: {processes.log('kubelet').read_text()[-300:]}")
        for node in cluster.add_nodes(nodes):
            kubelet.announce(cluster, node, port)
        yield cluster


@dataclass(frozen=True, kw_only=True)
class InCluster:
    """A server and an agent with the role that Muster writes for it. All runs are in one namespace."""

    cluster: Cluster
    namespace: str
    settings: ClientSettings
    agent: psutil.Process

    @cached_property
    def client(self) -> Client:
        return Client(settings=self.settings)

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def launch(self, queue: str, *command: str) -> Run:
        return Run(self.client, self.client.launch(request(queue, *command)))

    def pods(self) -> Recording:
        """What the cluster says of the pods, from now on."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return Recording(self.cluster.api, path, watch="1", resourceVersion="0")

    def events(self) -> Recording:
        """What Muster says of its runs, from now on."""
        headers = {"Authorization": f"Bearer {self.settings.api_key}"}
        client = httpx.Client(base_url=self.settings.url, headers=headers, trust_env=False)
        return Recording(client, "/api/v1/events")


def request(queue: str, *command: str) -> LaunchRequest:
    """It is not tried again: a run that was lost would be no measure of anything."""
    return LaunchRequest(queue=queue, command=list(command), image=BUSYBOX, retry=RetryModel(max=0))


@contextmanager
def muster_in(
    cluster: Cluster, folder: Path, namespace: str, *, simulated: Mapping[str, str]
) -> Iterator[InCluster]:
    """Up, with its agent there, for as long as the block lasts. `simulated`: annotations that steer the
    pods on simulated nodes."""
    cluster.api.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
    store = prepare(folder / "server", None, queued=1)
    config = {
        "name": namespace,
        "engine": "kubernetes",
        "queues": [REAL, SIMULATED],
        "data_dir": str(folder),
        "kubernetes": {"kubeconfig": str(account(cluster, namespace, list(rights())))},
    }
    (folder / "agent.yaml").write_text(json.dumps(config))
    with serving(store) as settings, Processes(folder) as processes:
        with Client(settings=settings) as client:
            for name, node in ((REAL, _job({})), (SIMULATED, _job(simulated, **_SIMULATED))):
                client.create_queue(QueueRequest(name=name, resource="kubernetes", config=node))
        agent = processes.spawn(
            "agent",
            [sys.executable, "-m", "muster.cli", "agent", "--config", folder / "agent.yaml"],
            env={"MUSTER_URL": settings.url, "MUSTER_API_KEY": settings.api_key or ""},
        )
        processes.wait_for_words("agent", agent, "serves")
        made = InCluster(
            cluster=cluster, namespace=namespace, settings=settings, agent=psutil.Process(agent.pid)
        )
        try:
            yield made
        finally:
            made.client.close()


_SIMULATED: Mapping[str, Any] = {"nodeSelector": SELECTOR, "tolerations": [TOLERATION]}


def _job(annotations: Mapping[str, str], **pod: Any) -> dict[str, Any]:
    spec = {"containers": [_ASKS], "terminationGracePeriodSeconds": 1, **pod}
    return {"spec": {"template": {"metadata": {"annotations": dict(annotations)}, "spec": spec}}}
