"""Runs in a real cluster through the whole of Muster: server, agent, API server, kubelet, containers."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.field import Field
from cluster.images import BUSYBOX, PYTHON
from installation import text_of, until
from muster.domain.run import RunState
from muster.wire.runs import RunModel

ROOT = Path(__file__).resolve().parents[2]
PLAIN: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [{}]}}}}
PER_GPU: dict[str, Any] = {
    "spec": {
        "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "{{gpus}}"}}}]}}
    }
}
LINES = 300


@pytest.fixture
def torch_python() -> Path:
    python = os.environ.get("MUSTER_TEST_TORCH_PYTHON")
    assert python, "Set MUSTER_TEST_TORCH_PYTHON to a Python that has PyTorch."
    return Path(python)


@pytest.fixture
def field(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Field]:
    field = Field(tmp_path, cluster, namespace)
    try:
        yield field
    finally:
        field.close()


def counting(lines: int = LINES) -> list[str]:
    """Prints its lines over some seconds."""
    return ["sh", "-c", f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); sleep 0.02; done"]


def expected(lines: int = LINES) -> str:
    return "".join(f"line {number}\n" for number in range(lines))


def test_a_run_goes_through_its_states_and_leaves_its_log(field: Field) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s")
    run = field.launch(
        "k8s", ["sh", "-c", "echo $MUSTER_RUN_ID; echo $MUSTER_API_KEY | wc -c"], image=BUSYBOX
    )
    assert run.wait(120) is RunState.SUCCEEDED
    first, second = text_of(run).splitlines()
    assert first == run.id
    assert int(second) > 40
    states = [event.data["to"] for event in run.events() if event.type == "state"]
    assert states[:2] == ["queued", "claimed"]
    assert states[-1] == "succeeded"
    (replica,) = field.client.list_replicas(run.id).items
    assert replica.node == field.cluster.node
    manifest = field.muster("run", "manifest", run.id)
    assert "secretKeyRef" in manifest


def test_as_many_runs_as_gpus_run_at_once_and_the_next_is_told_what_it_lacks(field: Field) -> None:
    field.queue(
        "gpu", PER_GPU, variables={"gpus": {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}}
    )
    field.start_agent("gpu")
    four = [field.launch("gpu", ["sleep", "300"], image=BUSYBOX) for _ in range(GPUS)]
    for run in four:
        until(lambda run=run: run.state is RunState.RUNNING, seconds=120, what="running")  # type: ignore[misc]
    fifth = field.launch("gpu", ["sleep", "300"], image=BUSYBOX)
    words = until(lambda: _waits_for(fifth, "Insufficient nvidia.com/gpu"), seconds=60, what="the reason")
    assert "1 Insufficient nvidia.com/gpu" in words
    four[0].stop()
    until(lambda: fifth.state is RunState.RUNNING, seconds=120, what="the fifth runs")
    assert four[0].wait(60) is RunState.STOPPED
    until(lambda: not field.left(four[0]), seconds=90, what="nothing left of the stopped run")


def _waits_for(run: Any, words: str) -> str | None:
    why = run.why()
    said = " ".join([why.summary, *why.details])
    return said if words in said else None


def test_an_agent_killed_while_ten_runs_are_live_loses_nothing(field: Field) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s")
    runs = [field.launch("k8s", counting(), image=BUSYBOX) for _ in range(10)]
    for run in runs:
        until(lambda run=run: len(text_of(run)) > 50, seconds=180, what="its first lines")  # type: ignore[misc]
    field.kill_agent(signal.SIGKILL)
    field.start_agent("k8s")
    assert [run.wait(240) for run in runs] == [RunState.SUCCEEDED] * 10
    assert {text_of(run) for run in runs} == {expected()}
    assert {_of(field, run.id).attempt for run in runs} == {1}


@pytest.mark.parametrize(
    "point",
    [
        "kube.create.before",
        "kube.create.after",
        "kube.companion.before",
        "kube.companion.after",
        "kube.release.before",
        "kube.release.after",
    ],
)
def test_an_agent_that_dies_while_it_starts_a_run_leaves_no_half_of_it(field: Field, point: str) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s", MUSTER_FAILPOINT=point)
    run = field.launch("k8s", ["echo", "once"], image=BUSYBOX)
    until(field.agent_died, seconds=60, what=f"killed at {point}")
    field.start_agent("k8s")
    assert run.wait(120) is RunState.SUCCEEDED, run.why().summary
    assert text_of(run) == "once\n"
    assert _of(field, run.id).attempt == 1


def test_another_agent_on_another_machine_goes_on_with_the_logs(field: Field) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s", name="first")
    run = field.launch("k8s", counting(), image=BUSYBOX)
    until(lambda: len(text_of(run)) > 50, seconds=120, what="its first lines")
    field.kill_agent(signal.SIGKILL)
    field.start_agent("k8s", name="second")
    assert run.wait(180) is RunState.SUCCEEDED
    assert text_of(run) == expected()
    assert _of(field, run.id).attempt == 1


def test_an_api_server_that_is_restarted_loses_nothing(field: Field) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s")
    runs = [field.launch("k8s", counting(), image=BUSYBOX) for _ in range(3)]
    for run in runs:
        until(lambda run=run: len(text_of(run)) > 50, seconds=120, what="its first lines")  # type: ignore[misc]
    field.cluster.restart_apiserver()
    assert [run.wait(180) for run in runs] == [RunState.SUCCEEDED] * 3
    assert {text_of(run) for run in runs} == {expected()}


def test_a_stopped_run_leaves_nothing_in_the_cluster(field: Field) -> None:
    field.queue("k8s", PLAIN)
    field.start_agent("k8s")
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    run = field.launch("k8s", ["sh", "-c", script], image=BUSYBOX)
    until(lambda: "up" in text_of(run), seconds=120, what="up")
    run.stop()
    assert run.wait(90) is RunState.STOPPED
    assert text_of(run) == "up\nbye\n"
    until(lambda: not field.left(run), seconds=60, what="nothing left")


def test_code_comes_into_a_stock_image_without_a_build(field: Field, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "words").write_text("brought along")
    (folder / "say.sh").write_text('cat data/words; echo; echo "${MUSTER_CODE_KEY:-no key}"')
    field.queue("training", {"kind": "Job", "template": {"spec": {"containers": [{}]}}})
    field.start_agent("training")
    run = field.launch("training", ["sh", "say.sh"], path=folder, image=BUSYBOX)
    assert run.wait(120) is RunState.SUCCEEDED, run.why().summary
    assert text_of(run).endswith("brought along\nno key\n")


@pytest.mark.torch
def test_a_two_node_training_runs_to_success_and_its_loss_falls(field: Field, torch_python: Path) -> None:
    """PyTorch is in no image here: its environment, and the Python under it, are folders of the node."""
    folders = {
        "torch": torch_python.parents[1],
        "python": Path(sys.base_prefix),
        "code": ROOT / "examples" / "ddp",
    }
    container = {
        "resources": {"requests": {"cpu": "500m"}},
        "workingDir": str(folders["code"]),
        "env": [{"name": "PATH", "value": f"{torch_python.parent}:/usr/bin:/bin"}],
        "volumeMounts": [
            {"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()
        ],
    }
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
    template = {"spec": {"containers": [container], "volumes": volumes}}
    field.queue("training", {"kind": "Job", "template": template})
    field.start_agent("training")
    run = field.launch(
        "training",
        ["train.py", "--epochs", "3"],
        image=PYTHON,
        training={"nodes": 2, "procs_per_node": 2},
    )
    assert run.wait(300) is RunState.SUCCEEDED, run.why().summary
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", text_of(run))]
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]


def _of(field: Field, run_id: str) -> RunModel:
    return field.client.get_run(run_id)
