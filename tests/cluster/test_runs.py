"""Runs in a real cluster through the whole of Muster: server, agent, API server, kubelet, containers."""

from __future__ import annotations

import json
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
from muster.engine.kubernetes.access import rights
from muster.engine.kubernetes.role import rules
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


def test_what_is_orphaned_is_swept(field: Field) -> None:
    """Somebody deletes the Job and keeps what it owned."""
    field.queue("training", {"kind": "Job", "template": {"spec": {"containers": [{}]}}})
    field.start_agent("training")
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
    run = field.launch("training", ["sh", "-c", script], image=BUSYBOX, training={"nodes": 2})
    until(lambda: {text_of(run, rank) for rank in (0, 1)} == {"up\n"}, seconds=120, what="both are up")
    job = f"job/muster-{run.id}-1"
    field.cluster.kubectl("delete", job, f"--namespace={field.namespace}", "--cascade=orphan")
    left = field.left(run)
    assert {name.partition("/")[0] for name in left} == {"pod", "secret", "service", "configmap"}
    run.stop()
    assert run.wait(90) is RunState.STOPPED
    until(lambda: not field.left(run), seconds=90, what="nothing left")


def test_a_gang_that_loses_a_member_is_tried_again_with_its_priority(field: Field) -> None:
    spec = {"containers": [{}], "terminationGracePeriodSeconds": 1}
    field.queue("training", {"kind": "Job", "template": {"spec": spec}})
    field.start_agent("training")
    script = 'echo "attempt $MUSTER_ATTEMPT"; if [ $MUSTER_ATTEMPT = 1 ]; then exec sleep 300; fi'
    run = field.launch(
        "training", ["sh", "-c", script], image=BUSYBOX, training={"nodes": 2}, priority="high"
    )
    until(lambda: run.state is RunState.RUNNING, seconds=120, what="running")
    place = f"/api/v1/namespaces/{field.namespace}/pods"
    pods = field.cluster.api.get(place).raise_for_status().json()["items"]
    name = pods[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    field.cluster.api.post(f"{place}/{name}/eviction", json=eviction).raise_for_status()
    assert run.wait(180) is RunState.SUCCEEDED, run.why().summary
    after = _of(field, run.id)
    assert (after.attempt, after.priority) == (2, "high")
    assert {text_of(run, rank) for rank in (0, 1)} == {"attempt 2\n"}


def test_an_agent_whose_credentials_are_refused_waits_for_better_ones(field: Field, tmp_path: Path) -> None:
    """And names what is wrong at once; the token is in a file, which somebody mends."""
    cluster, token = field.cluster, tmp_path / "token"
    content = json.loads(cluster.kubeconfig_for("late", field.namespace, rules(rights())).read_text())
    good = content["users"][0]["user"].pop("token")
    content["users"][0]["user"]["tokenFile"] = str(token)
    kubeconfig = tmp_path / "late.kubeconfig"
    kubeconfig.write_text(json.dumps(content))
    token.write_text("not.a.token")
    field.queue("k8s", PLAIN)
    field.start_agent("k8s", kubeconfig=kubeconfig)
    run = field.launch("k8s", ["echo", "at last"], image=BUSYBOX)
    words = "credentials of this agent are not accepted"
    until(lambda: _waits_for(run, words), seconds=60, what="the reason")
    until(lambda: "cannot look for what runs left" in field.log.read_text(), seconds=60, what="its own word")
    assert "not.a.token" not in field.log.read_text()
    token.write_text(good)
    assert run.wait(180) is RunState.SUCCEEDED, run.why().summary
    assert text_of(run) == "at last\n"
    assert not field.agent_died()


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


@pytest.mark.torch
@pytest.mark.parametrize("max_restarts", [0, 1], ids=["static", "c10d"])
def test_members_wait_for_rank_0_no_longer_than_the_rendezvous_may_take(
    field: Field, torch_python: Path, tmp_path: Path, max_restarts: int
) -> None:
    """Rank 0 is there, and can be looked up by name, but never opens its port."""
    deaf = tmp_path / "bin" / "python"
    deaf.parent.mkdir()
    deaf.write_text(
        "#!/bin/sh\n"
        'case "$NODE_RANK $*" in "0 -m torch.distributed.run"*) exec sleep 600 ;; esac\n'
        f'exec {torch_python} "$@"\n'
    )
    deaf.chmod(0o755)
    folders = {"torch": torch_python.parents[1], "python": Path(sys.base_prefix), "bin": deaf.parent}
    container = {
        "env": [{"name": "PATH", "value": f"{deaf.parent}:/usr/bin:/bin"}],
        "volumeMounts": [
            {"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()
        ],
    }
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    field.queue("training", {"kind": "Job", "template": {"spec": spec}})
    field.start_agent("training")
    shape = {"nodes": 2, "rdzv_timeout": 15, "max_restarts": max_restarts}
    run = field.launch("training", ["train.py"], image=PYTHON, training=shape)
    assert run.wait(300) is RunState.FAILED
    model = _of(field, run.id)
    assert model.failure is not None
    assert model.failure.kind == "rendezvous_timeout", model.failure
    assert model.failure.rank == 1
    member = field.client.list_replicas(run.id).items[1]
    assert member.started_at is not None
    assert member.ended_at is not None
    took = (member.ended_at - member.started_at).total_seconds()
    assert 15 <= took < 90, "torch itself takes a while to start on a busy machine"


def _of(field: Field, run_id: str) -> RunModel:
    return field.client.get_run(run_id)
