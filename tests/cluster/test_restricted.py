"""In a namespace that enforces the restricted Pod Security Standard, all that Muster writes is let in."""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cluster.accounts import TEMPLATE, engine_of
from cluster.cluster import Cluster
from integration.engine.contract import KEY
from muster.domain.observation import ReplicaState
from muster.domain.policy import Security
from muster.domain.training import Launcher, Training
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.port import Work

MANIFEST: dict[str, Any] = {"spec": {"template": TEMPLATE["template"]}}
WHO = 'echo "$(id -u) $(grep NoNewPrivs /proc/self/status)"; touch /dev/shm/mine "$MUSTER_OUTPUT_DIR/mine"'
ROW = [
    pytest.param(MANIFEST, None, id="a whole Job"),
    pytest.param(TEMPLATE, None, id="a pod template"),
    pytest.param(TEMPLATE, Training(launcher=Launcher.PLAIN), id="one node"),
    pytest.param(TEMPLATE, Training(nodes=2, launcher=Launcher.PLAIN), id="two nodes"),
]


@pytest.fixture
def strict(cluster: Cluster, namespace: str) -> str:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    return namespace


@pytest.mark.parametrize(("config", "training"), ROW)
def test_what_a_restricted_queue_writes_is_admitted_and_runs(
    cluster: Cluster, strict: str, tmp_path: Path, config: dict[str, Any], training: Training | None
) -> None:
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=strict)
    members = training.nodes if training else 1

    async def scenario() -> None:
        async with engine_of(
            connect(settings), tmp_path, config=config, security=Security.RESTRICTED
        ) as bench:
            await bench.shell(WHO, training=training)
            ended = await bench.ended(members=members)
            for rank, replica in ended.items():
                assert replica.state is ReplicaState.SUCCEEDED, (replica, bench.log(rank=rank))
                assert bench.log(rank=rank).split() == [b"1000", b"NoNewPrivs:", b"1"]

    asyncio.run(scenario())


@pytest.fixture
def snapshot(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """Where pods find the code of a run: an archive and its checksums."""
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (tmp_path / "train.sh").write_text('echo "code runs as $(id -u)"')
    with tarfile.open(folder / "archive", "w") as archive:
        archive.add(tmp_path / "train.sh", "train.sh")
    digest = hashlib.sha256((tmp_path / "train.sh").read_bytes()).hexdigest()
    (folder / "checksums").write_text(f"{digest}  train.sh\n")
    serve = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer((cluster.host_address, 0), serve) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{cluster.host_address}:{server.server_port}"
        server.shutdown()
        thread.join()


def test_so_is_a_run_of_code(cluster: Cluster, strict: str, tmp_path: Path, snapshot: str) -> None:
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=strict)
    work = Work(
        key=KEY,
        run_name="code",
        project="proj",
        entity="ann",
        queue="strict",
        author="ann",
        config=TEMPLATE,
        command=("sh", "train.sh"),
        training=Training(nodes=2, launcher=Launcher.PLAIN),
        has_code=True,
    )

    async def scenario() -> None:
        async with engine_of(connect(settings), tmp_path, security=Security.RESTRICTED) as bench:
            place = bench.place()
            env = {**place.env, "MUSTER_CODE_URL": snapshot, "MUSTER_CODE_KEY": "mc-none"}
            await bench.engine.submit(bench.render(work), replace(place, env=env))
            for rank, replica in (await bench.ended(members=2)).items():
                said = bench.log(rank=rank)
                assert (replica.state, said) == (ReplicaState.SUCCEEDED, b"code runs as 1000\n")

    asyncio.run(scenario())


def test_another_queue_is_told_why_its_pods_are_not_let_in(
    cluster: Cluster, strict: str, tmp_path: Path
) -> None:
    settings = ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=strict)

    async def scenario() -> None:
        async with engine_of(connect(settings), tmp_path) as bench:
            await bench.shell("true")
            replica = await bench.only()
            assert replica.state is ReplicaState.FAILED
            assert replica.reason is not None
            assert "violates PodSecurity" in replica.reason

    asyncio.run(scenario())
