"""PyTorchTrainingJobs on a plain cluster, by our own operator with no more rights than it prints."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster import binaries
from cluster.cluster import Cluster
from cluster.errors import ClusterError
from cluster.images import BUSYBOX, PYTHON
from cluster.trainings import NAME, Trainings, install, replicas, training
from installation import Installation, until
from muster.operator import manifest
from pages import Reader, blocks

ROOT = Path(__file__).resolve().parents[2]
SLEEP = "exec sleep 3600"


@pytest.fixture(scope="module")
def ready(cluster: Cluster) -> Cluster:
    install(cluster)
    return cluster


@pytest.fixture
def trainings(ready: Cluster, namespace: str, tmp_path: Path) -> Iterator[Trainings]:
    trainings = Trainings(ready, namespace, tmp_path)
    try:
        yield trainings
    finally:
        trainings.close()


def test_the_tutorials_manifest_works_as_it_is_written(trainings: Trainings, tmp_path: Path) -> None:
    """In its form: one worker, four processes, ExitCode, four GPUs, a claim, torchrun. Its image is ours, and
    has a torchrun that says what it was told."""
    (tmp_path / "train.sh").write_text("df -k /dev/shm | tail -1; echo trained $MASTER_ADDR $WORLD_SIZE")
    shim = '#!/bin/sh\necho "$@"\nfor last; do :; done\nexec sh "$last"\n'
    volume = {
        "storageClassName": "",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": str(tmp_path)},
        "claimRef": {"name": "tutorial", "namespace": trainings.namespace},
    }
    claim = {
        "storageClassName": "",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    name = f"tutorial-{trainings.namespace}"
    trainings.cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "tutorial"},
            "spec": claim,
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bin"}, "data": {"torchrun": shim}},
        namespace=trainings.namespace,
    )
    container = {
        "name": "pytorch",
        "image": BUSYBOX,
        "args": ["/t9k/mnt/train.sh"],
        "workingDir": "/t9k/mnt",
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"cpu": 1, "memory": "128Mi", "nvidia.com/gpu": 4},
        },
        "volumeMounts": [
            {"mountPath": "/t9k/mnt", "name": "data"},
            {"mountPath": "/usr/local/bin", "name": "bin"},
        ],
    }
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "tutorial"}},
        {"name": "bin", "configMap": {"name": "bin", "defaultMode": 0o755}},
    ]
    worker = {
        "type": "worker",
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container], "volumes": volumes}},
    }
    trainings.start()
    trainings.create(training(worker, torchrunConfig={"enabled": True, "maxRestarts": 3, "procPerNode": "4"}))
    status = trainings.until("Succeeded")
    said = trainings.logs("worker-0")
    assert "--nproc_per_node=4 --max_restarts=3 --rdzv_backend=c10d" in said
    assert re.search(r"131072 +\d+ +\d+ +\d+% /dev/shm", said), said
    assert re.search(r"trained mnist-\w{5}-worker-0\.mnist-\w{5} 1", said), said
    assert status["aggregate"]["succeeded"] == 1
    (replica,) = status["tasks"][0]["replicas"]
    assert replica["containers"] == [{"name": "pytorch", "state": "Terminated", "exitCode": 0}]
    trainings.cluster.kubectl("delete", "pv", name, "--wait=false")


def test_replicas_find_each_other_by_name(trainings: Trainings) -> None:
    trainings.start()
    master = replicas(
        "master", "nc -l -p $MASTER_PORT > /tmp/word; cat /tmp/word; grep -q 'rank 1 of 2' /tmp/word"
    )
    knock = "until echo rank $RANK of $WORLD_SIZE | nc -w 2 $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done"
    trainings.create(training(master, replicas("worker", knock)))
    trainings.until("Succeeded")
    assert trainings.logs("master-0") == "rank 1 of 2\n"


def test_a_crash_that_can_be_retried_is(trainings: Trainings) -> None:
    trainings.start()
    crash = "[ $LIFE = 1 ] && exit 0; sleep 1; exit 138"
    trainings.create(training(replicas("worker", crash, policy="ExitCode")))
    status = trainings.until("Succeeded")
    assert status["backoffCount"] == 1
    assert status["tasks"][0]["restartCount"] == 1
    assert trainings.pods() == {"worker-0": "Failed", "worker-0-1": "Succeeded"}


def test_a_crash_that_cannot_be_retried_fails_the_job(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", "exit 7", policy="ExitCode")))
    trainings.until("Failed")
    assert trainings.reason() == "MasterFailed: worker-0 exited with 7. Its restart policy is ExitCode."


def test_a_job_that_always_crashes_fails_when_its_restarts_are_used_up(trainings: Trainings) -> None:
    trainings.start()
    job = training(replicas("worker", "exit 1", policy="OnFailure"), runPolicy={"backoffLimit": 1})
    trainings.create(job)
    status = trainings.until("Failed")
    assert trainings.reason().startswith("BackoffLimitExceeded: worker-0 exited with 1.")
    assert status["backoffCount"] == 1
    assert trainings.pods() == {"worker-0": "Failed", "worker-0-1": "Failed"}


def test_a_paused_job_has_no_pods_and_goes_on_as_it_says(trainings: Trainings) -> None:
    trainings.start()
    resume = [{"type": "worker", "command": ["sh", "-c", "echo resumed"]}]
    trainings.create(
        training(replicas("worker", SLEEP, 2), runMode={"pause": {"enabled": False, "resumeSpecs": resume}})
    )
    trainings.until("Running")
    trainings.patch({"runMode": {"pause": {"enabled": True}}})
    trainings.until("Paused")
    until(lambda: not trainings.pods(), seconds=60, what="no pods")
    trainings.patch({"runMode": {"pause": {"enabled": False}}})
    trainings.until("Succeeded")
    assert trainings.logs("worker-0-1") == "resumed\n"


def test_a_deadline_ends_the_job_and_its_pods(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", SLEEP, 2), runPolicy={"activeDeadlineSeconds": 3}))
    trainings.until("Failed")
    assert trainings.reason() == "DeadlineExceeded: The job was active for longer than its 3 s."
    until(lambda: not trainings.pods(), seconds=60, what="no pods")


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("None", {"master-0": "Failed", "worker-0": "Running"}),
        ("Unfinished", {"master-0": "Failed"}),
        pytest.param("All", {}, marks=pytest.mark.slow),
    ],
)
def test_pods_of_an_ended_job_are_cleaned_up_by_its_policy(
    trainings: Trainings, policy: str, left: dict[str, str]
) -> None:
    trainings.start()
    master = replicas("master", "until nc -l -p 29500; do sleep 0.2; done; exit 1")
    knock = f"until echo | nc -w 2 $MASTER_ADDR 29500; do sleep 0.2; done; {SLEEP}"
    trainings.create(training(master, replicas("worker", knock), runPolicy={"cleanUpPolicy": policy}))
    trainings.until("Failed")
    until(lambda: trainings.pods() == left, seconds=60, what=f"{policy}: {left}")
    until(lambda: trainings.status()["aggregate"]["deleted"] == 2 - len(left), what="counted")


def test_a_pod_that_somebody_deletes_is_replaced(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", SLEEP, 2, policy="OnFailure")))
    trainings.until("Running")
    name = trainings.pod("worker-1")["metadata"]["name"]
    trainings.cluster.kubectl("delete", "pod", name, f"--namespace={trainings.namespace}", "--wait=false")
    until(lambda: trainings.pods().get("worker-1-1") == "Running", seconds=60, what="its successor")
    assert trainings.status()["backoffCount"] == 1


def test_a_service_that_somebody_deletes_is_made_again(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", SLEEP)))
    trainings.until("Running")
    (name,) = trainings.services()
    trainings.cluster.kubectl("delete", "service", name, f"--namespace={trainings.namespace}")
    until(lambda: trainings.services() == [name], what="the Service")


def test_an_operator_killed_in_the_middle_of_it_makes_nothing_twice(trainings: Trainings) -> None:
    """At ten different moments after jobs were created; what is half done then is done by the next one."""
    numbers = range(10)
    for number in numbers:
        trainings.start(wait=False)
        trainings.create(training(replicas("worker", SLEEP, 2, policy="Always"), name=f"{NAME}-{number}"))
        began = time.monotonic()
        until(
            lambda: len(trainings.pods()) > 2 * number or time.monotonic() - began > number / 5,  # noqa: B023
            what="a moment",
        )
        trainings.kill(signal.SIGKILL)
    trainings.start()
    for number in numbers:
        trainings.until("Running", f"{NAME}-{number}")
        assert trainings.status(f"{NAME}-{number}")["backoffCount"] == 0
    assert len(trainings.pods()) == 20
    created = [line for line in trainings.writes() if line.startswith("create") and "/pods" in line]
    assert len(created) >= 20


def test_what_crashed_while_the_operator_was_dead_is_counted_once(trainings: Trainings) -> None:
    trainings.start()
    script = f"[ $LIFE = 0 ] || {SLEEP}; sleep 2; exit 1"
    trainings.create(training(replicas("worker", script, 2, policy="OnFailure")))
    trainings.until("Running")
    trainings.kill(signal.SIGKILL)
    until(lambda: set(trainings.pods().values()) == {"Failed"}, seconds=60, what="both failed")
    trainings.start()
    running = {"worker-0-1": "Running", "worker-1-1": "Running"}
    until(lambda: running.items() <= trainings.pods().items(), seconds=60, what="both again")
    assert trainings.status()["backoffCount"] == 2
    assert len(trainings.pods()) == 4


def test_an_api_server_that_is_restarted_harms_no_job(trainings: Trainings) -> None:
    trainings.start()
    script = "[ $LIFE = 0 ] || exit 0; sleep 4; exit 137"
    trainings.create(training(replicas("worker", script, policy="ExitCode")))
    trainings.until("Running")
    trainings.cluster.restart_apiserver()
    status = trainings.until("Succeeded", seconds=120)
    assert status["backoffCount"] == 1
    trainings.create(training(replicas("worker", "exit 0"), name="later"))
    trainings.until("Succeeded", "later")


def test_a_deleted_job_leaves_nothing(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", SLEEP, 2)))
    trainings.until("Running")
    trainings.delete()
    until(lambda: not trainings.pods() and not trainings.services(), seconds=60, what="nothing left")


def test_a_steady_cluster_is_asked_nothing(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", SLEEP, 2)))
    trainings.create(training(replicas("worker", "exit 0"), name="done"))
    trainings.until("Running")
    trainings.until("Succeeded", "done")

    def is_quiet() -> bool:
        asked = trainings.cluster.requests(user=trainings.user)
        last = max(one.received_at for one in asked if one.verb != "watch")
        return datetime.now(UTC) - last > timedelta(seconds=5)

    until(is_quiet, seconds=60, what="nothing is asked any more")


def base(**spec: Any) -> dict[str, Any]:
    return training(replicas("worker", SLEEP), **spec)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (base(tensorboardSpec={"image": "t"}), "tensorboardSpec is not supported yet: leave it out"),
        (base(elastic={"enabled": True, "minReplicas": 1}), "elastic is not supported yet"),
        (base(runMode={"debug": {"enabled": True}}), "runMode.debug is not supported yet"),
        (
            base(scheduler={"t9kScheduler": {"queue": "q", "priority": 50}}),
            "scheduler.t9kScheduler is not there",
        ),
        (base(torchrunConfig={"procPerNode": "many"}), "procPerNode"),
        (base(torchrunConfig={"enable": True}), 'unknown field "spec.torchrunConfig.enable"'),
        (base(runPolicy={"cleanUpPolicy": "Some"}), "supported values"),
        (base(runPolicy={"activeDeadlineSeconds": 0}), "activeDeadlineSeconds"),
        (training(replicas("worker", SLEEP, policy="Sometimes")), "restartPolicy"),
        (training(replicas("worker", SLEEP, 0)), "replicas"),
        (training(replicas("a", SLEEP), replicas("a", SLEEP)), "Duplicate value"),
        (training(replicas("Worker", SLEEP)), "type"),
        (training(), "replicaSpecs"),
        (base(runMode={"pause": {"resumeSpecs": [{"type": "x"}]}}), "names a type that is not among"),
        (base(scheduler={"volcanoScheduler": {"minAvailable": 2}}), "more than all replicas"),
    ],
)
def test_what_cannot_be_is_refused_when_the_job_is_made(
    ready: Cluster, namespace: str, job: dict[str, Any], words: str
) -> None:
    with pytest.raises(ClusterError, match=re.escape(words)):
        ready.kubectl("create", f"--namespace={namespace}", "--filename=-", input=json.dumps(job))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"replicaSpecs": [replicas("worker", SLEEP, 3)]}, "The number of replicas cannot change"),
        ({"replicaSpecs": [replicas("other", SLEEP, 2)]}, "The types of replicas cannot change"),
        ({"runMode": {"pause": {"resumeSpecs": []}}}, "resumeSpecs cannot change"),
    ],
)
def test_what_cannot_change_is_refused_later(
    ready: Cluster, namespace: str, change: dict[str, Any], words: str
) -> None:
    pause = {"pause": {"resumeSpecs": [{"type": "worker", "args": ["x"]}]}}
    job = training(replicas("worker", SLEEP, 2), runMode=pause)
    where = f"--namespace={namespace}"
    ready.kubectl("create", where, "--filename=-", input=json.dumps(job))
    with pytest.raises(ClusterError, match=re.escape(words)):
        ready.kubectl("patch", "pttj", NAME, where, "--type=merge", f"--patch={json.dumps({'spec': change})}")


def test_the_table_of_kubectl_shows_what_matters(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(training(replicas("worker", "exit 0", 2)))
    trainings.until("Succeeded")
    head, row = trainings.cluster.kubectl("get", "pttj", f"--namespace={trainings.namespace}").splitlines()
    assert head.split() == ["NAME", "PHASE", "RUNNING", "RESTARTS", "AGE"]
    assert row.split()[:2] == [NAME, "Succeeded"]


def test_a_template_that_the_cluster_does_not_take_fails_the_job_with_its_words(trainings: Trainings) -> None:
    trainings.start()
    job = training(replicas("worker", SLEEP))
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["image"] = ""
    trainings.create(job)
    trainings.until("Failed")
    assert "spec.containers[0].image: Required value" in trainings.reason()


def test_a_quota_holds_a_job_back_and_says_so_until_there_is_room(trainings: Trainings) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "0"}},
    }
    trainings.cluster.apply(quota, namespace=trainings.namespace)
    until(lambda: _holds(trainings), what="the quota holds")
    trainings.start()
    trainings.create(training(replicas("worker", "exit 0")))
    until(lambda: "exceeded quota" in trainings.reason("Initialized"), what="the reason")
    assert trainings.status()["phase"] == "Pending"
    trainings.cluster.kubectl("delete", "quota", "few", f"--namespace={trainings.namespace}")
    trainings.until("Succeeded")


def _holds(trainings: Trainings) -> bool:
    path = f"/api/v1/namespaces/{trainings.namespace}/resourcequotas/few"
    return "hard" in trainings.cluster.api.get(path).raise_for_status().json().get("status", {})


def test_a_cluster_without_volcano_says_what_is_missing(trainings: Trainings) -> None:
    trainings.start()
    trainings.create(base(scheduler={"volcanoScheduler": {"queue": "default"}}))
    until(lambda: "install Volcano" in trainings.reason("Initialized"), what="the reason")
    assert not trainings.pods()


@pytest.fixture
def pod_groups(ready: Cluster) -> Iterator[str]:
    """PodGroups as Volcano calls them, without Volcano; the path of those in a namespace."""
    name = "podgroups.scheduling.volcano.sh"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "PodGroup", "plural": "podgroups"}
    spec = {"group": "scheduling.volcano.sh", "scope": "Namespaced", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    ready.apply(head | {"metadata": {"name": name}, "spec": spec})
    ready.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    yield "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
    ready.kubectl("delete", "crd", name)


def test_a_job_for_volcano_is_one_pod_group(trainings: Trainings, pod_groups: str) -> None:
    trainings.start()
    asked = {"queue": "default", "priorityClassName": "high"}
    trainings.create(training(replicas("worker", SLEEP, 2), scheduler={"volcanoScheduler": asked}))
    until(lambda: len(trainings.pods()) == 2, what="its pods")
    path = pod_groups.format(trainings.namespace)
    (group,) = trainings.cluster.api.get(path).raise_for_status().json()["items"]
    assert group["spec"] == {"minMember": 2, **asked}
    assert group["metadata"]["ownerReferences"][0]["name"] == NAME
    pod = trainings.pod("worker-0")
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"]


def test_a_definition_that_is_not_ours_is_left_to_its_own_controller(trainings: Trainings) -> None:
    label = "app.kubernetes.io/part-of"
    trainings.cluster.kubectl("label", "crd", manifest.CRD, f"{label}-")
    try:
        trainings.start(wait=False)
        assert trainings.wait_for_end() == 1
        assert "was not made by Muster" in trainings.log.read_text()
    finally:
        install(trainings.cluster)


def test_an_operator_that_is_told_to_stop_does(trainings: Trainings) -> None:
    trainings.start()
    assert trainings.kill(signal.SIGTERM) == 0


def test_what_the_page_says_to_type_does_what_it_says(cluster: Cluster, tmp_path: Path) -> None:
    kubectl = binaries.find()["kubectl"].parent
    env = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "IMAGE": BUSYBOX,
        "PATH": os.pathsep.join((str(kubectl), os.environ["PATH"])),
    }
    reader = Reader(muster=Installation(tmp_path / "muster", env=env), folder=tmp_path)
    try:
        reader.read(blocks(ROOT / "docs" / "operator.md"))
    finally:
        reader.leave()


@pytest.mark.torch
def test_a_two_node_training_by_torchrun_runs_to_success(trainings: Trainings) -> None:
    """PyTorch is in no image here: its environment, and the Python under it, are folders of the node."""
    given = os.environ.get("MUSTER_TEST_TORCH_PYTHON")
    assert given, "Set MUSTER_TEST_TORCH_PYTHON to a Python that has PyTorch."
    python = Path(given)
    folders = {
        "torch": python.parents[1],
        "python": Path(sys.base_prefix),
        "code": ROOT / "examples" / "ddp",
    }
    container = {
        "name": "pytorch",
        "image": PYTHON,
        "args": ["train.py", "--epochs", "3"],
        "resources": {"requests": {"cpu": "500m"}},
        "workingDir": str(folders["code"]),
        "env": [{"name": "PATH", "value": f"{python.parent}:/usr/bin:/bin"}],
        "volumeMounts": [
            {"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()
        ],
    }
    volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()]
    node = {
        "type": "node",
        "replicas": 2,
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container], "volumes": volumes}},
    }
    trainings.start()
    trainings.create(training(node, torchrunConfig={"enabled": True, "procPerNode": "2"}))
    trainings.until("Succeeded", seconds=500)
    said = trainings.logs("node-0") + trainings.logs("node-1")
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]
