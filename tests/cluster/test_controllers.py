"""The controllers of training resources do their work in the cluster, each as its project ships it."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.images import BUSYBOX
from installation import until

_SECONDS = 90.0
_VOLCANO = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs"
_POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
_PYTORCH = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
_JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"

#: One listens and the others come: the name of the first one resolves, and its port is reached.
_MEET = """
if [ "$RANK" = 0 ]; then echo met | nc -l -p $MASTER_PORT
else until nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; fi
echo $RANK of $WORLD_SIZE at $MASTER_ADDR
"""


def template(command: str, *, container: str = "main", gpus: int = 0) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    main = {
        "name": container,
        "image": BUSYBOX,
        "command": ["sh", "-ec", command],
        "resources": {"limits": limits},
    }
    return {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [main]}}


def volcano_job(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "it"},
        "spec": {"schedulerName": "volcano", "tasks": tasks, **spec},
    }


def create(cluster: Cluster, path: str, what: dict[str, Any]) -> dict[str, Any]:
    """What the API server made of it."""
    answer = cluster.api.post(path, json=what)
    assert answer.is_success, answer.text
    created: dict[str, Any] = answer.json()
    return created


def status(cluster: Cluster, path: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api.get(f"{path}/it").raise_for_status().json().get("status", {})
    return found


def conditions(cluster: Cluster, path: str) -> set[str]:
    """The types of those that hold."""
    return {one["type"] for one in status(cluster, path).get("conditions", []) if one["status"] == "True"}


def last_lines(cluster: Cluster, namespace: str) -> list[str]:
    """Of each pod, in the order of their names."""
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").raise_for_status().json()["items"]
    names = sorted(pod["metadata"]["name"] for pod in pods)
    logs = [cluster.kubectl("logs", f"--namespace={namespace}", name) for name in names]
    return [log.splitlines()[-1] for log in logs]


@pytest.mark.training
def test_a_job_of_volcano_tells_its_pods_of_each_other(cluster: Cluster, namespace: str) -> None:
    cluster.start_volcano()
    path = _VOLCANO.format(namespace)
    master = {"name": "master", "replicas": 1, "template": template(_MEET)}
    worker = {"name": "worker", "replicas": 1, "template": template(_MEET)}
    create(cluster, path, volcano_job(master, worker, plugins={"pytorch": [], "svc": []}))
    until(
        lambda: status(cluster, path).get("state", {}).get("phase") == "Completed",
        seconds=_SECONDS,
        what="the Job completes",
    )
    assert last_lines(cluster, namespace) == ["0 of 2 at it-master-0.it", "1 of 2 at it-master-0.it"]


@pytest.mark.training
def test_the_webhooks_of_volcano_fill_in_what_a_job_leaves_open(cluster: Cluster, namespace: str) -> None:
    cluster.start_volcano()
    task = {"name": "worker", "replicas": 2, "template": template("true")}
    made = create(cluster, _VOLCANO.format(namespace), volcano_job(task, maxRetry=0))["spec"]
    assert (made["queue"], made["minAvailable"], made["maxRetry"]) == ("default", 2, 3)


@pytest.mark.training
def test_a_gang_that_does_not_fit_starts_no_pod(cluster: Cluster, namespace: str) -> None:
    cluster.start_volcano()
    task = {"name": "worker", "replicas": 2, "template": template("true", gpus=GPUS)}
    create(cluster, _VOLCANO.format(namespace), volcano_job(task))

    def unschedulable() -> dict[str, Any] | None:
        groups = cluster.api.get(_POD_GROUPS.format(namespace)).raise_for_status().json()["items"]
        found = [one for group in groups for one in group.get("status", {}).get("conditions", [])]
        return next((one for one in found if one["type"] == "Unschedulable"), None)

    said = until(unschedulable, seconds=_SECONDS, what="Volcano says that it does not fit")
    assert said["reason"] == "NotEnoughResources"
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods").raise_for_status().json()["items"]
    assert not [pod for pod in pods if pod["spec"].get("nodeName")]


@pytest.mark.training
def test_a_pytorchjob_tells_its_pods_of_each_other(cluster: Cluster, namespace: str) -> None:
    cluster.start_training_operator()
    path = _PYTORCH.format(namespace)
    replica = {"replicas": 1, "restartPolicy": "Never", "template": template(_MEET, container="pytorch")}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "it"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }
    create(cluster, path, job)
    until(lambda: "Succeeded" in conditions(cluster, path), seconds=_SECONDS, what="the PyTorchJob succeeds")
    assert last_lines(cluster, namespace) == ["0 of 2 at it-master-0", "1 of 2 at it-master-0"]


def test_pods_of_a_jobset_find_each_other_by_name(cluster: Cluster, namespace: str) -> None:
    cluster.start_jobset()
    path = _JOBSET.format(namespace)
    where = "RANK=$JOB_COMPLETION_INDEX WORLD_SIZE=2 MASTER_PORT=5000 MASTER_ADDR=it-node-0-0.it"
    job = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "template": template(f"export {where}\n{_MEET}"),
    }
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "it"},
        "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]},
    }
    create(cluster, path, jobset)
    until(lambda: "Completed" in conditions(cluster, path), seconds=_SECONDS, what="the JobSet completes")
    assert last_lines(cluster, namespace) == ["0 of 2 at it-node-0-0.it", "1 of 2 at it-node-0-0.it"]
