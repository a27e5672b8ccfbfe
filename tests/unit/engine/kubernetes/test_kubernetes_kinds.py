"""What is known of each kind of workload: its states, its ranks, its traps, and what Muster writes."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import work
from muster.domain.errors import BadTemplate
from muster.domain.provenance import Origins, uniform
from muster.domain.training import Training
from muster.engine.kubernetes.config import check
from muster.engine.kubernetes.course import Course, Status
from muster.engine.kubernetes.kinds import KINDS, Kind, kind_of
from muster.engine.kubernetes.kinds.kind import Feature
from muster.engine.kubernetes.kinds.unknown import read_as_told
from muster.engine.kubernetes.pod import read_pod
from muster.engine.kubernetes.render import render, trace

BATCH, VOLCANO, KUBEFLOW = "batch/v1", "batch.volcano.sh/v1alpha1", "kubeflow.org/v1"
JOBSET, TENSORSTACK = "jobset.x-k8s.io/v1alpha2", "batch.tensorstack.dev/v1beta1"
WRITTEN = [kind for kind in KINDS.values() if kind.form is not None]


def condition(type_: str, reason: str = "", message: str = "", status: str = "True") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def volcano(phase: str, **more: str) -> dict[str, Any]:
    return {"state": {"phase": phase, **more}}


def conditions(*those: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": list(those)}


LATE = "PyTorchJob x has failed because it was active longer than specified deadline"

#: kind, its status as its controller writes it, how far it is, the reason
STATES: list[tuple[str, str, dict[str, Any], Course, str]] = [
    (BATCH, "Job", {}, Course.OPEN, ""),
    (BATCH, "Job", conditions(condition("Suspended", "JobSuspended")), Course.OPEN, ""),
    (
        BATCH,
        "Job",
        conditions(condition("Complete", "CompletionsReached")),
        Course.SUCCEEDED,
        "CompletionsReached",
    ),
    (BATCH, "Job", conditions(condition("Failed", "DeadlineExceeded")), Course.FAILED, "DeadlineExceeded"),
    (BATCH, "Job", conditions(condition("Failed", status="False")), Course.OPEN, ""),
    *((VOLCANO, "Job", volcano(phase), Course.OPEN, "") for phase in ("Pending", "Running", "Restarting")),
    *(
        (VOLCANO, "Job", volcano(phase), Course.OPEN, "")
        for phase in ("Aborting", "Completing", "Terminating")
    ),
    (VOLCANO, "Job", {}, Course.OPEN, ""),
    (VOLCANO, "Job", volcano("Completed"), Course.SUCCEEDED, "Completed"),
    (VOLCANO, "Job", volcano("Failed", reason="PodFailed"), Course.FAILED, "PodFailed"),
    (VOLCANO, "Job", volcano("Terminated"), Course.FAILED, "Terminated"),
    (VOLCANO, "Job", volcano("Aborted"), Course.STOPPED, "Aborted"),
    (KUBEFLOW, "PyTorchJob", conditions(condition("Created"), condition("Running")), Course.OPEN, ""),
    (KUBEFLOW, "PyTorchJob", conditions(condition("Restarting")), Course.OPEN, ""),
    (
        KUBEFLOW,
        "PyTorchJob",
        conditions(condition("Running", status="False"), condition("Succeeded", "PyTorchJobSucceeded")),
        Course.SUCCEEDED,
        "PyTorchJobSucceeded",
    ),
    (
        KUBEFLOW,
        "PyTorchJob",
        conditions(condition("Failed", "PyTorchJobFailed", LATE)),
        Course.FAILED,
        "DeadlineExceeded",
    ),
    (KUBEFLOW, "TFJob", conditions(condition("Failed", "TFJobFailed", "x")), Course.FAILED, "TFJobFailed"),
    (JOBSET, "JobSet", conditions(condition("StartupPolicyCompleted")), Course.OPEN, ""),
    (
        JOBSET,
        "JobSet",
        conditions(condition("Completed", "AllJobsCompleted")),
        Course.SUCCEEDED,
        "AllJobsCompleted",
    ),
    (JOBSET, "JobSet", conditions(condition("Failed", "FailedJobs")), Course.FAILED, "FailedJobs"),
    (TENSORSTACK, "PyTorchTrainingJob", {"phase": "Resuming"}, Course.OPEN, ""),
    (TENSORSTACK, "PyTorchTrainingJob", {"phase": "Succeeded"}, Course.SUCCEEDED, "Succeeded"),
    (
        TENSORSTACK,
        "PyTorchTrainingJob",
        {"phase": "Failed", **conditions(condition("Failed", "BackoffLimitExceeded"))},
        Course.FAILED,
        "BackoffLimitExceeded",
    ),
    ("acme.dev/v1", "Train", {"phase": "Running"}, Course.OPEN, ""),
    ("acme.dev/v1", "Train", {"phase": "SUCCEEDED"}, Course.SUCCEEDED, "SUCCEEDED"),
    ("acme.dev/v1", "Train", {"state": {"phase": "Aborted"}}, Course.STOPPED, "Aborted"),
    ("acme.dev/v1", "Train", {"state": "error"}, Course.FAILED, "error"),
    ("acme.dev/v1", "Train", conditions(condition("Complete", "Done")), Course.SUCCEEDED, "Done"),
    ("acme.dev/v1", "Train", {"phase": 7, "conditions": "none"}, Course.OPEN, ""),
]


@pytest.mark.parametrize(("version", "kind", "status", "course", "reason"), STATES)
def test_a_status_is_read_as_its_controller_means_it(
    version: str, kind: str, status: dict[str, Any], course: Course, reason: str
) -> None:
    told = kind_of(version, kind).read({"metadata": {}, "status": status})
    assert (told.course, told.reason) == (course, reason)


def test_a_paused_training_says_how_it_goes_on() -> None:
    told = kind_of(TENSORSTACK, "PyTorchTrainingJob").read({"status": {"phase": "Paused"}})
    assert told.course is Course.OPEN
    assert "runMode.pause.enabled: false" in told.waits


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Running"}, True),
        ({"state": {"phase": "Pending"}}, True),
        ({"phase": "Flabbergasted"}, False),
        ({}, False),
        (conditions(condition("Healthy")), False),
    ],
)
def test_of_an_unknown_kind_only_words_that_are_understood_are_trusted(
    status: dict[str, Any], told: bool
) -> None:
    assert kind_of("acme.dev/v1", "Train").read({"status": status}).told is told


RAY = {
    "muster.dev/succeeded-when": "status.jobStatus == 'SUCCEEDED'",
    "muster.dev/failed-when": "contains(['FAILED', 'STOPPED'], status.jobStatus)",
    "muster.dev/message": "status.message",
}


@pytest.mark.parametrize(
    ("status", "course"),
    [
        ({}, Course.OPEN),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, Course.OPEN),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "done"}, Course.SUCCEEDED),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "no head"}, Course.FAILED),
    ],
)
def test_an_owner_says_in_expressions_how_a_kind_ends(status: dict[str, Any], course: Course) -> None:
    told = read_as_told({"metadata": {"annotations": RAY}, "status": status})
    assert told is not None
    assert told.course is course
    assert told.message == status.get("message", "")


def test_without_expressions_nothing_is_told() -> None:
    assert read_as_told({"metadata": {"annotations": {"muster.dev/message": "x"}}, "status": {}}) is None


def test_an_expression_that_cannot_be_read_is_refused_when_the_queue_is_made() -> None:
    notes = {"muster.dev/failed-when": "status.[["}
    config = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"annotations": notes}, "spec": {}}
    with pytest.raises(BadTemplate, match=r"muster\.dev/failed-when is not a JMESPath expression"):
        check(config)


def metadata(labels: dict[str, str], notes: dict[str, str] | None = None, name: str = "x") -> dict[str, Any]:
    return {
        "uid": "u",
        "name": name,
        "namespace": "n",
        "creationTimestamp": "2026-11-16T10:00:00Z",
        "labels": {"muster.dev/run-id": "r1", "muster.dev/attempt": "1", **labels},
        "annotations": notes or {},
    }


#: labels and annotations of a pod, its name → its rank
RANKS: list[tuple[dict[str, str], dict[str, str], str, int | None]] = [
    ({"batch.kubernetes.io/job-completion-index": "3"}, {}, "x", 3),
    (
        {"volcano.sh/task-index": "0", "volcano.sh/task-spec": "worker"},
        {"muster.dev/first-rank": "1"},
        "x",
        1,
    ),
    ({"training.kubeflow.org/replica-index": "2"}, {"muster.dev/first-rank": "1"}, "x", 3),
    ({"tensorstack.dev/replica-index": "1"}, {}, "x", 1),
    ({"tensorstack.dev/owner-name": "mnist"}, {}, "mnist-5b373-worker-1", 1),
    ({"tensorstack.dev/owner-name": "mnist"}, {}, "mnist", None),
    (
        {"jobset.sigs.k8s.io/job-index": "1", "batch.kubernetes.io/job-completion-index": "1"},
        {"muster.dev/per-job": "2"},
        "x",
        3,
    ),
    ({"jobset.sigs.k8s.io/job-index": "2"}, {"muster.dev/per-job": "1"}, "x", 2),
    ({"jobset.sigs.k8s.io/job-index": "2"}, {}, "x", None),
    ({}, {}, "x-0", None),
    ({"volcano.sh/task-index": "one"}, {}, "x", None),
]


@pytest.mark.parametrize(("labels", "notes", "name", "rank"), RANKS)
def test_a_pods_rank_is_what_its_controller_numbered_it(
    labels: dict[str, str], notes: dict[str, str], name: str, rank: int | None
) -> None:
    pod = read_pod({"metadata": metadata(labels, notes, name)})
    assert pod is not None
    assert pod.index == rank


def made(kind: Kind, nodes: int, **more: Any) -> list[Any]:
    config = {"apiVersion": kind.api_version, "kind": kind.name, "template": {"spec": {"containers": [{}]}}}
    rendered = render(work(config, "train.py", training=Training(nodes=nodes), **more))
    assert rendered.replicas == nodes
    manifest: Any = rendered.manifest
    return list(manifest["items"])


def templates(node: Any) -> list[Any]:
    """All that have a pod's containers, wherever they are."""
    if isinstance(node, list):
        return [found for child in node for found in templates(child)]
    if not isinstance(node, dict):
        return []
    if "containers" in node.get("spec", {}):
        return [node]
    return [found for child in node.values() for found in templates(child)]


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.api_version)
@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_every_kind_starts_the_same_launcher_in_every_member(kind: Kind, nodes: int) -> None:
    workload, *companions = made(kind, nodes)
    assert workload["metadata"]["annotations"]["muster.dev/gang"] == "true"
    assert "ConfigMap" in {item["kind"] for item in companions}
    for pod in templates(workload["spec"]):
        (main,) = pod["spec"]["containers"]
        assert main["command"] == ["sh", "/muster/bin/launcher.sh", "train.py"]
        env = {item["name"]: item for item in main["env"]}
        assert env["NNODES"]["value"] == str(nodes)
        assert pod["metadata"]["labels"]["muster.dev/run-id"] == "r123456789"
        mounts = {mount["mountPath"] for mount in main["volumeMounts"]}
        assert {"/dev/shm", "/muster/bin"} <= mounts


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.api_version)
def test_names_of_members_stay_legal_however_long_the_workload_is_called(kind: Kind) -> None:
    config = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "long-" * 20},
        "template": {"spec": {"containers": [{}]}},
    }
    manifest: Any = render(work(config, "train.py", training=Training(nodes=12))).manifest
    name = manifest["items"][0]["metadata"]["name"]
    assert kind.form is not None
    assert len(name) <= kind.form.longest_name(12) < 63


def test_volcano_places_all_or_none_and_ends_all_with_one() -> None:
    (workload, _) = made(KINDS["batch.volcano.sh", "Job"], 3)
    spec = workload["spec"]
    (task,) = spec["tasks"]
    assert (spec["minAvailable"], task["replicas"], spec["schedulerName"]) == (3, 3, "volcano")
    assert spec["policies"] == [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}]
    assert spec["maxRetry"] == 1
    env = {item["name"]: item.get("value") for item in task["template"]["spec"]["containers"][0]["env"]}
    name = workload["metadata"]["name"]
    assert env["MASTER_ADDR"] == f"{name}-worker-0.{name}"
    assert "NODE_RANK" not in env, "the launcher takes VC_TASK_INDEX, which the env plugin sets"


def test_a_pytorchjob_has_a_master_that_is_rank_0_and_workers_behind_it() -> None:
    (workload, _) = made(KINDS["kubeflow.org", "PyTorchJob"], 3)
    roles = workload["spec"]["pytorchReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in roles.items()} == {"Master": 1, "Worker": 2}
    first = {
        role: spec["template"]["metadata"]["annotations"]["muster.dev/first-rank"]
        for role, spec in roles.items()
    }
    assert first == {"Master": "0", "Worker": "1"}
    assert all(spec["template"]["spec"]["containers"][0]["name"] == "pytorch" for spec in roles.values())
    assert workload["spec"]["runPolicy"]["cleanPodPolicy"] == "None"


def test_of_a_worker_too_it_is_known_where_each_value_came_from() -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {"cpu": 4}}}]}}
    config = {"apiVersion": KUBEFLOW, "kind": "PyTorchJob", "template": pod}
    origins = Origins(config=uniform(config, "queue v1"), training="launch")
    sources: Any = trace(work(config, "train.py", training=Training(nodes=3)), origins)[1]
    roles = sources["items"][0]["spec"]["pytorchReplicaSpecs"]
    assert roles["Worker"]["replicas"] == "launch"
    for role in ("Master", "Worker"):
        (container,) = roles[role]["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["cpu"] == "queue v1"


def test_one_node_of_a_pytorchjob_is_a_master_alone() -> None:
    (workload, _) = made(KINDS["kubeflow.org", "PyTorchJob"], 1)
    assert list(workload["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_a_master_that_is_written_last_is_rank_0_all_the_same() -> None:
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "a"}]}}
    roles = {"Worker": {"replicas": 2, "template": pod}, "Master": {"replicas": 1, "template": pod}}
    config = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}}
    manifest: Any = render(work(config, image=None)).manifest
    told = manifest["spec"]["pytorchReplicaSpecs"]
    first = {
        role: spec["template"]["metadata"]["annotations"]["muster.dev/first-rank"]
        for role, spec in told.items()
    }
    assert first == {"Worker": "1", "Master": "0"}


def test_a_jobset_is_one_indexed_job_that_is_not_started_anew() -> None:
    (workload, _) = made(KINDS["jobset.x-k8s.io", "JobSet"], 2)
    (job,) = workload["spec"]["replicatedJobs"]
    inner = job["template"]["spec"]
    assert (inner["completionMode"], inner["completions"], inner["backoffLimit"]) == ("Indexed", 2, 0)
    assert workload["spec"]["failurePolicy"] == {"maxRestarts": 0}


def test_jobs_of_a_jobset_say_how_many_pods_each_has() -> None:
    job = {
        "spec": {"completions": 2, "parallelism": 2, "template": {"spec": {"containers": [{"image": "a"}]}}}
    }
    config = {
        "apiVersion": JOBSET,
        "kind": "JobSet",
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 3, "template": job}]},
    }
    rendered = render(work(config, image=None))
    manifest: Any = rendered.manifest
    (pod,) = templates(manifest["spec"])
    assert rendered.replicas == 6
    assert pod["metadata"]["annotations"]["muster.dev/per-job"] == "2"


def test_a_training_job_leaves_torchrun_to_the_launcher() -> None:
    (workload, _) = made(KINDS["batch.tensorstack.dev", "PyTorchTrainingJob"], 2)
    spec = workload["spec"]
    assert spec["torchrunConfig"] == {"enabled": False}
    assert spec["runPolicy"] == {"cleanUpPolicy": "None", "backoffLimit": 0}
    (role,) = spec["replicaSpecs"]
    assert (role["type"], role["replicas"], role["restartPolicy"]) == ("worker", 2, "Never")


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.api_version)
def test_a_kind_that_muster_writes_says_what_it_can_and_where_its_traps_are(kind: Kind) -> None:
    assert set(kind.features) == set(Feature)
    assert kind.traps


def test_status_is_open_and_trusted_by_default() -> None:
    assert Status(course=Course.OPEN).told
