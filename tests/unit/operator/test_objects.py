"""What the operator creates for a job."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from muster.domain.path import at
from muster.operator import objects
from muster.operator.job import TrainingJob
from muster.operator.status import Status
from unit.operator.world import TEMPLATE, job_of, spec_of

#: As the tutorial has it: one worker of four processes, started by torchrun.
SEED: dict[str, Any] = {
    "torchrunConfig": {"enabled": True, "maxRestarts": 3, "procPerNode": "4", "rdzvBackend": "c10d"},
    "replicaSpecs": [
        {
            "type": "worker",
            "replicas": 1,
            "restartPolicy": "ExitCode",
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "pytorch",
                            "image": "trainer",
                            "args": ["torch_mnist_trainingjob.py", "--backend=nccl"],
                            "workingDir": "/t9k/mnt",
                            "resources": {"limits": {"cpu": 8, "memory": "16Gi", "nvidia.com/gpu": 4}},
                            "volumeMounts": [{"mountPath": "/t9k/mnt", "name": "data"}],
                        }
                    ],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "tutorial"}}],
                }
            },
        }
    ],
}


def pod_of(job: TrainingJob, rank: int = 0, life: int = 0) -> dict[str, Any]:
    return objects.pod(job, job.spec.slots[rank], life)


def env_of(pod: dict[str, Any], container: int = 0) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in pod["spec"]["containers"][container]["env"]}


def with_template(**changes: Any) -> TrainingJob:
    """One worker, whose pod's spec has these."""
    spec = spec_of(worker=1)
    template = copy.deepcopy(TEMPLATE)
    template["spec"] |= changes
    spec["replicaSpecs"][0]["template"] = template
    return job_of(spec)


def test_the_tutorials_job_becomes_torchrun_with_its_script() -> None:
    container = pod_of(job_of(SEED))["spec"]["containers"][0]
    assert container["command"] == [
        "torchrun",
        "--nnodes=1",
        "--nproc_per_node=4",
        "--max_restarts=3",
        "--rdzv_backend=c10d",
        "--rdzv_id=5b373f10-0000-4000-8000-000000000000-0",
        "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)",
        "--rdzv_conf=is_host=1",
    ]
    assert container["args"] == ["torch_mnist_trainingjob.py", "--backend=nccl"]


def test_it_has_the_shared_memory_that_the_original_form_could_not_create() -> None:
    pod = pod_of(job_of(SEED))
    assert {"name": "muster-shm", "mountPath": "/dev/shm"} in pod["spec"]["containers"][0]["volumeMounts"]
    volume = {"name": "muster-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    assert volume in pod["spec"]["volumes"]


def test_a_template_with_shared_memory_of_its_own_keeps_it() -> None:
    mounts = [{"name": "dshm", "mountPath": "/dev/shm/"}]
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    pod = pod_of(with_template(containers=[{"name": "c", "volumeMounts": mounts}], volumes=volumes))
    assert pod["spec"]["volumes"] == volumes
    assert pod["spec"]["containers"][0]["volumeMounts"] == mounts


def test_replicas_know_where_they_meet_and_who_they_are() -> None:
    job = job_of(spec_of(master=1, worker=2))
    told = [env_of(pod_of(job, rank)) for rank in range(3)]
    assert {one["MASTER_ADDR"] for one in told} == {"mnist-5b373-master-0.mnist-5b373"}
    assert {(one["MASTER_PORT"], one["WORLD_SIZE"]) for one in told} == {("29500", "3")}
    assert [one["RANK"] for one in told] == ["0", "1", "2"]


def test_what_the_template_sets_itself_stands() -> None:
    env = [{"name": "MASTER_PORT", "value": "23456"}, {"name": "AT", "value": "$(MASTER_ADDR)"}]
    container = pod_of(with_template(containers=[{"name": "c", "env": env}]))["spec"]["containers"][0]
    names = [item["name"] for item in container["env"]]
    assert names == ["MASTER_ADDR", "RANK", "WORLD_SIZE", "MASTER_PORT", "AT"]


def test_labels_and_annotations_of_the_template_reach_the_pods() -> None:
    spec = spec_of(worker=2)
    metadata = {
        "labels": {"muster.dev/run-id": "r000000001", "muster.dev/attempt": "1"},
        "annotations": {"muster.dev/first-rank": "0"},
    }
    spec["replicaSpecs"][0]["template"] = {"metadata": metadata, **TEMPLATE}
    made = pod_of(job_of(spec), rank=1, life=2)["metadata"]
    assert made["labels"] == metadata["labels"] | {
        "tensorstack.dev/owner-name": "mnist",
        "tensorstack.dev/replica-type": "worker",
        "tensorstack.dev/replica-index": "1",
        "muster.dev/replica-life": "2",
    }
    assert made["annotations"] == metadata["annotations"]
    assert made["name"] == "mnist-5b373-worker-1-2"


@pytest.mark.parametrize("what", ["pod", "service", "group"])
def test_everything_is_owned_by_the_job(what: str) -> None:
    job = job_of({**spec_of(), "scheduler": {"volcanoScheduler": {}}})
    made = {"pod": pod_of(job), "service": objects.service(job), "group": objects.pod_group(job)}[what]
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "PyTorchTrainingJob",
            "name": "mnist",
            "uid": job.uid,
            "controller": True,
        }
    ]


def test_a_pod_is_restarted_by_nobody_but_the_operator() -> None:
    assert pod_of(with_template(restartPolicy="Always"))["spec"]["restartPolicy"] == "Never"


def test_a_replica_keeps_its_host_name_in_every_life() -> None:
    job = job_of(spec_of())
    hosts = {at(pod_of(job, life=life), ("spec", "hostname")) for life in range(3)}
    assert hosts == {"mnist-5b373-worker-0"}


def test_the_service_names_pods_that_are_not_ready_yet() -> None:
    spec = objects.service(job_of(spec_of()))["spec"]
    assert spec == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"tensorstack.dev/owner-name": "mnist"},
    }


def test_a_pod_on_the_network_of_its_node_can_look_up_the_others() -> None:
    pod = pod_of(with_template(hostNetwork=True))
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_volcano_places_all_pods_or_none() -> None:
    asked = {"queue": "research", "priorityClassName": "high"}
    job = job_of({**spec_of(master=1, worker=3), "scheduler": {"volcanoScheduler": asked}})
    assert objects.pod_group(job)["spec"] == {"minMember": 4, **asked}
    pod = pod_of(job)
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": "mnist-5b373"}


@pytest.mark.parametrize(
    ("limits", "processes"),
    [({"nvidia.com/gpu": 2}, "2"), ({"amd.com/gpu": "8"}, "8"), ({}, "gpu")],
)
def test_one_process_for_each_gpu(limits: dict[str, Any], processes: str) -> None:
    spec = copy.deepcopy(SEED)
    spec["torchrunConfig"]["procPerNode"] = "gpu"
    spec["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    command = pod_of(job_of(spec))["spec"]["containers"][0]["command"]
    assert f"--nproc_per_node={processes}" in command


@pytest.mark.parametrize(
    ("backend", "has", "has_not"),
    [
        ("c10d", "--rdzv_conf=is_host=0", "--node_rank=1"),
        ("static", "--node_rank=1", "--rdzv_backend=static"),
        ("etcd-v2", "--rdzv_backend=etcd-v2", "--rdzv_conf=is_host=0"),
    ],
)
def test_every_rendezvous_gets_the_options_it_reads(backend: str, has: str, has_not: str) -> None:
    config = {"enabled": True, "rdzvBackend": backend, "extraOptions": ["--role=trainer"]}
    job = job_of({**spec_of(worker=2), "torchrunConfig": config})
    command = pod_of(job, rank=1)["spec"]["containers"][0]["command"]
    assert has in command
    assert has_not not in command
    assert command[-1] == "--role=trainer"


def test_the_container_called_python_trains_wherever_it_stands() -> None:
    spec = spec_of(worker=1)
    containers = [{"name": "proxy", "image": "p"}, {"name": "python", "image": "t", "args": ["a.py"]}]
    spec["replicaSpecs"][0]["template"] = {"spec": {"containers": containers}}
    pod = pod_of(job_of({**spec, "torchrunConfig": {"enabled": True}}))
    assert "command" not in pod["spec"]["containers"][0]
    assert pod["spec"]["containers"][1]["command"][0] == "torchrun"


def test_after_a_pause_replicas_are_started_as_the_job_says() -> None:
    resume = [{"type": "worker", "skipInitContainer": True, "args": ["--resume"]}]
    spec = {**spec_of(worker=1), "runMode": {"pause": {"enabled": False, "resumeSpecs": resume}}}
    template = {"spec": {"initContainers": [{"name": "fetch"}], "containers": [{"name": "c", "args": ["a"]}]}}
    spec["replicaSpecs"][0]["template"] = template
    before = pod_of(job_of(spec))["spec"]
    after = pod_of(job_of(spec, Status(pauses=1)), life=1)["spec"]
    assert before["containers"][0]["args"] == ["a"]
    assert "initContainers" in before
    assert after["containers"][0]["args"] == ["--resume"]
    assert "initContainers" not in after


@pytest.mark.parametrize("name", ["a", "mnist", "9lives", "x" * 63, "with.dots." + "y" * 200])
def test_names_are_legal_and_short_enough_whatever_the_job_is_called(name: str) -> None:
    base = job_of(spec_of(evaluator=1000))
    job = TrainingJob(uid=base.uid, name=name, namespace="ml", spec=base.spec)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job.service)
    assert len(job.pod_name(job.spec.slots[-1], 9999)) <= 63
    assert len(objects.service(job)["metadata"]["labels"]["tensorstack.dev/owner-name"]) <= 63


def test_a_template_is_left_as_it_was() -> None:
    before = copy.deepcopy(SEED)
    pod_of(job_of(SEED))
    assert before == SEED
