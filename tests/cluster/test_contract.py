"""The kubernetes engine does what every engine must."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from integration.engine.contract import KEY, EngineContract
from muster.domain.errors import Conflict
from muster.domain.observation import ReplicaState
from muster.domain.training import Training
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.render import render
from muster.engine.port import Engine, Rendered, Work

SHARED = "/shared"


class TestKubernetesEngine(EngineContract):
    master = f"muster-{KEY.run_id}-{KEY.attempt}-0.muster-{KEY.run_id}-{KEY.attempt}-nodes"

    @pytest.fixture(autouse=True)
    def _in_the_cluster(self, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, tmp_path

    def make(self, directory: Path) -> Engine:
        connection = connect(ClusterSettings(kubeconfig=self.cluster.kubeconfig, namespace=self.namespace))
        return KubernetesEngine(connection, directory / "engine", agent="test", keep=timedelta(seconds=3600))

    def render(self, work: Work) -> Rendered:
        """The directory of the test is a folder of the node: the pods see the same files."""
        mount = {"name": "shared", "mountPath": str(self.directory)}
        env = [{"name": name, "value": value} for name, value in work.config.get("env", {}).items()]
        container: dict[str, Any] = {"volumeMounts": [mount], **({"env": env} if env else {})}
        spec = {
            "containers": [container],
            "terminationGracePeriodSeconds": max(1, int(work.config["stop_grace"])),
            "volumes": [{"name": "shared", "hostPath": {"path": str(self.directory)}}],
        }
        template = {"kind": "Job", "template": {"spec": spec}}
        training = work.training or Training()
        return render(replace(work, config=template, image=BUSYBOX, training=training))

    def test_output_is_kept_byte_for_byte(self, tmp_path: Path) -> None:
        """But for `\\r\\n`, of which the container's runtime makes `\\n`."""

        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(r"printf 'a\0\377\rx\nb\n\nend'")
                replica = await bench.only()
                assert bench.log() == b"a\0\xff\rx\nb\n\nend"
                assert replica.log_bytes == len(bench.log())

        asyncio.run(scenario())

    def test_cleaning_leaves_nothing(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("echo up; exec sleep 60", config={"stop_grace": 1})
                await bench.says(b"up")
                with pytest.raises(Conflict):
                    await bench.engine.clean(KEY)
                await bench.engine.stop(KEY)
                assert (await bench.only()).state is ReplicaState.STOPPED
                await bench.engine.clean(KEY)
                await bench.engine.clean(KEY)
                await bench.engine.discard(KEY)
                assert await bench.engine.leftovers() == []
                assert not bench.engine.log_path(KEY, 0).exists()
                kinds = "jobs,pods,secrets,services,configmaps"
                left = self.cluster.kubectl(
                    "get",
                    kinds,
                    f"--namespace={self.namespace}",
                    "--selector=muster.dev/run-id",
                    "--output=name",
                )
                assert left == ""

        asyncio.run(scenario())
