"""A training of every kind outlives the agents that look after it: before it has pods, and while it runs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from cluster.cluster import Cluster
from cluster.field import Field
from cluster.images import BUSYBOX
from cluster.kinds import CASES, Case
from cluster.outcome import of_program
from installation import text_of, until
from muster.client.sdk import Run
from muster.domain.run import RunState

NO_PODS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"pods": "0"}},
}
COUNT = (
    'i=0; while [ $i -lt 100 ] || ! [ -e /kept/go ]; do echo "line $i"; i=$((i+1)); sleep 0.05; done; '
    'echo "end of $RANK"'
)


def _objects(field: Field, case: Case, run: Run) -> list[dict[str, object]]:
    label = f"--selector=muster.dev/run-id={run.id}"
    words = ("get", case.resource, f"--namespace={field.namespace}", label, "--output=json")
    items: list[dict[str, object]] = json.loads(field.cluster.kubectl(*words))["items"]
    return items


def _is_released(field: Field, case: Case, run: Run) -> bool:
    return any("muster.dev/partial" not in str(item) for item in _objects(field, case, run))


@pytest.mark.parametrize("case", CASES)
def test_agents_that_are_killed_lose_no_training(
    case: Case, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """They are not even told which kinds there are."""
    config = case.training(volumeMounts=[{"name": "kept", "mountPath": "/kept"}])
    config["template"]["spec"]["volumes"] = [{"name": "kept", "hostPath": {"path": str(tmp_path)}}]
    field = Field(tmp_path, cluster, namespace)
    try:
        with case.controller(cluster, namespace, tmp_path):
            cluster.apply(NO_PODS, namespace=namespace)
            until(lambda: "hard" in _quota_status(cluster, namespace), what="the quota holds")
            field.queue("training", config)
            field.start_agent("training")
            run = field.launch("training", ["sh", "-c", COUNT], image=BUSYBOX, training={"nodes": 2})
            until(lambda: _is_released(field, case, run), seconds=60, what="its object")
            field.kill_agent(signal.SIGKILL)
            field.start_agent("training")
            cluster.kubectl("delete", "quota", "none", f"--namespace={namespace}")
            until(lambda: run.state is RunState.RUNNING, seconds=120, what="it runs")
            until(lambda: "line 10\n" in text_of(run, 1), seconds=60, what="its log grows")
            field.kill_agent(signal.SIGKILL)
            field.start_agent("training")
            (tmp_path / "go").touch()
            assert run.wait(180) is RunState.SUCCEEDED, run.why().summary
            assert run.model.attempt == 1
            assert [one.restarts for one in field.client.list_replicas(run.id).items] == [0, 0]
            for rank in range(2):
                *lines, last = of_program(text_of(run, rank)).splitlines()
                assert lines == [f"line {number}" for number in range(len(lines))]
                assert last == f"end of {rank}"
            assert len(_objects(field, case, run)) <= 1
    finally:
        field.close()


def _quota_status(cluster: Cluster, namespace: str) -> dict[str, object]:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/none"
    found: dict[str, object] = cluster.api.get(path).raise_for_status().json().get("status", {})
    return found
