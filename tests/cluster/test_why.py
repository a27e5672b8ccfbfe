"""From the command line to the scheduler and back: why a run waits, and what the running one uses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.images import BUSYBOX
from installation import MUSTER, Installation, until

CONFIG = {
    "kind": "Job",
    "template": {
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"image": BUSYBOX, "resources": {"limits": {"nvidia.com/gpu": "{{gpus}}"}}}],
        }
    },
}
VARIABLES = {"gpus": {"type": "integer", "default": 1, "minimum": 0, "maximum": 64}}


@pytest.fixture
def muster(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Installation]:
    """With an agent that serves the queue `cluster`."""
    muster = Installation(tmp_path)
    queue, agent = tmp_path / "queue.yaml", tmp_path / "agent.yaml"
    queue.write_text(json.dumps({"resource": "kubernetes", "config": CONFIG, "variables": VARIABLES}))
    served = {"kubeconfig": str(cluster.kubeconfig), "namespace": namespace}
    settings = {"name": "gate", "engine": "kubernetes", "queues": ["cluster"], "kubernetes": served}
    agent.write_text(json.dumps(settings | {"data_dir": str(muster.data / "cluster")}))
    try:
        muster.start()
        muster.muster("queue", "create", "cluster", "--config", str(queue), check=True)
        with (tmp_path / "agent.log").open("wb") as log:
            process = subprocess.Popen(
                [*MUSTER, "agent", "--config", str(agent)], env=muster.env, stdout=log, stderr=log
            )
        try:
            yield muster
        finally:
            process.terminate()
            process.wait(30)
    finally:
        muster.destroy()


def say(muster: Installation, *words: str) -> Any:
    """What a command answers with `--json`."""
    done = muster.muster(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_that_has_no_place_says_why_and_the_running_one_what_it_uses(
    cluster: Cluster, muster: Installation
) -> None:
    def launch(gpus: int, script: str) -> str:
        words = ("launch", "--json", "-q", "cluster", "--set", f"gpus={gpus}", "--", "sh", "-c", script)
        return str(say(muster, *words)["id"])

    big = launch(GPUS - 1, "while :; do :; done")
    until(
        lambda: say(muster, "run", "show", "--json", big)["state"] == "running",
        what="the first run runs",
        seconds=60,
    )
    small = launch(2, "true")

    def why() -> Any:
        found = say(muster, "run", "why", "--json", small)
        return found if "It needs" in found["summary"] else None

    found = until(why, what="the reason", seconds=60)
    host = cluster.server.removeprefix("https://")
    assert found["summary"] == (
        f"It waits for a place in the cluster at {host}: "
        "Not enough nvidia.com/gpu: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        f"It needs 2 GPUs on one node; {cluster.node} has 1 free."
    )
    assert found["advice"] == "Wait until other runs end, or launch it with fewer GPUs on each node."

    def used() -> Any:
        [series] = say(muster, "run", "usage", "--json", big)["items"] or [None]
        return series and [value for value in series["values"]["cpu"] if value]

    assert until(used, what="a sample", seconds=60)
    listed = muster.muster("agent", "list").stdout
    assert "placed by the cluster" in listed
    assert str(2**59) not in listed
    say(muster, "run", "stop", "--json", big)
    until(
        lambda: say(muster, "run", "show", "--json", small)["state"] == "succeeded",
        what="its turn",
        seconds=60,
    )
