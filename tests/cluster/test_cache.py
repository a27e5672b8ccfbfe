"""A cache that runs share, on a volume claim: the template of examples/queues/gpu-nfs.yaml."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from cluster.accounts import engine_of
from cluster.cluster import Cluster
from muster.domain.document import parse
from muster.domain.observation import AttemptKey, ReplicaState
from muster.domain.template import bind
from muster.domain.variables import Variable
from muster.engine.kubernetes.connect import ClusterSettings, connect

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "queues" / "gpu-nfs.yaml"
FIRST, SECOND = (AttemptKey(run_id=f"r12345678{digit}", attempt=1) for digit in (1, 2))
LOOK = """
cd /home/user/.cache
if [ -e weights ]; then echo "found $(cat weights)" && exit; fi
echo "weights of the first" > weights && echo filled
"""


def template() -> Any:
    """The example's, with as much as the node of these tests has."""
    definition = parse(EXAMPLE.read_text())
    variables = [Variable.parse(name, given) for name, given in definition["variables"].items()]
    config, _ = bind(definition["config"], variables, {}, queue="gpu-nfs")
    assert isinstance(config, dict)
    spec: Any = config["spec"]
    limits = spec["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == 1
    limits.update({"cpu": "100m", "memory": "64Mi"})
    return config


def provide_claim(cluster: Cluster, namespace: str, folder: Path) -> None:
    """What an admin of the cluster does once: a volume, here a folder of the node, and a claim on it."""
    name = f"cache-of-{namespace}"
    both = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**both, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "nfs-pvc"},
        "spec": {**both, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.apply(volume, claim, namespace=namespace)


def test_a_second_run_finds_the_cache_that_the_first_filled(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    provide_claim(cluster, namespace, cache)
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace)

    async def scenario() -> None:
        async with engine_of(connect(settings), tmp_path, config=template(), keep=0) as bench:
            for key, said in ((FIRST, b"filled\n"), (SECOND, b"found weights of the first\n")):
                await bench.shell(LOOK, key=key)
                replica = await bench.only(key)
                assert (replica.state, bench.log(key)) == (ReplicaState.SUCCEEDED, said)
                await bench.engine.clean(key)  # and it is not the run's to remove

    asyncio.run(scenario())
    assert (cache / "weights").read_text() == "weights of the first\n"
    try:
        found = cluster.kubectl("get", "pvc", "nfs-pvc", f"--namespace={namespace}", "--output=name")
        assert found == "persistentvolumeclaim/nfs-pvc\n"
    finally:
        cluster.kubectl("delete", "pv", f"cache-of-{namespace}", "--wait=false")


def test_what_a_run_writes_to_its_outputs_stays_where_the_page_says(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    page = (EXAMPLE.parents[2] / "docs" / "kubernetes.md").read_text()
    (shown,) = re.findall(r"```yaml\n(template:.*?)```", page, re.DOTALL)
    config = {"kind": "Job", **parse(shown.replace("claimName: results", "claimName: nfs-pvc"))}
    results = tmp_path / "results"
    results.mkdir()
    provide_claim(cluster, namespace, results)
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace)

    async def scenario() -> None:
        async with engine_of(connect(settings), tmp_path, config=config) as bench:
            for key in (FIRST, SECOND):
                await bench.shell('echo "$MUSTER_RUN_ID" > "$MUSTER_OUTPUT_DIR/mine"', key=key)
                assert (await bench.only(key)).state is ReplicaState.SUCCEEDED

    try:
        asyncio.run(scenario())
    finally:
        cluster.kubectl("delete", "pv", f"cache-of-{namespace}", "--wait=false")
    for key in (FIRST, SECOND):
        assert (results / key.run_id / "mine").read_text() == f"{key.run_id}\n"
