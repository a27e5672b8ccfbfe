"""What the operator creates for a job: its pods, the Service that names them, and a PodGroup if asked for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from muster.engine.kubernetes.names import legal_label
from muster.operator.job import TrainingJob
from muster.operator.pod import INDEX_LABEL, LIFE_LABEL, OWNER_LABEL, TYPE_LABEL
from muster.operator.spec import API_VERSION, KIND, Resume, Slot, trainer_of
from muster.operator.torchrun import command

MASTER_PORT = "29500"
SHM = "/dev/shm"  # noqa: S108 - a mount point in a container
SHM_VOLUME = "muster-shm"
GROUP_VERSION, GROUP_KIND, SCHEDULER = "scheduling.volcano.sh/v1beta1", "PodGroup", "volcano"
_GROUP_OF_POD = "scheduling.k8s.io/group-name"


def service(job: TrainingJob) -> dict[str, Any]:
    """Every pod has a name from the moment it has an address: they look for each other while they start."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, job.service),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(job),
        },
    }


def pod_group(job: TrainingJob) -> dict[str, Any]:
    """All of them are placed, or none is."""
    asked = job.spec.volcano
    if asked is None:
        raise ValueError(f"{job.name} asks for no PodGroup")
    optional = {"queue": asked.queue, "priorityClassName": asked.priority_class}
    return {
        "apiVersion": GROUP_VERSION,
        "kind": GROUP_KIND,
        "metadata": _metadata(job, job.service),
        "spec": {
            "minMember": asked.min_available or job.spec.size,
            **{key: value for key, value in optional.items() if value},
        },
    }


def pod(job: TrainingJob, slot: Slot, life: int) -> dict[str, Any]:
    asked = next(spec for spec in job.spec.replicas if spec.type == slot.type)
    template: dict[str, Any] = copy.deepcopy(dict(asked.template))
    given = template.get("metadata") or {}
    metadata = _metadata(job, job.pod_name(slot, life))
    place = {TYPE_LABEL: slot.type, INDEX_LABEL: str(slot.index), LIFE_LABEL: str(life)}
    metadata["labels"] = {**(given.get("labels") or {}), **metadata["labels"], **place}
    metadata["annotations"] = dict(given.get("annotations") or {})
    spec: dict[str, Any] = template["spec"]
    spec |= {"restartPolicy": "Never", "hostname": job.host(slot), "subdomain": job.service}
    if spec.get("hostNetwork"):  # else the node's resolver, which knows no Services
        spec.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    if job.spec.volcano is not None:
        metadata["annotations"][_GROUP_OF_POD] = job.service
        spec["schedulerName"] = SCHEDULER
    trainer = spec["containers"][trainer_of(spec["containers"])]
    if job.status.pauses and job.spec.resume:
        _resume(spec, trainer, job.spec.resume.get(slot.type, Resume()))
    if job.spec.torchrun is not None:
        trainer["command"] = command(job, slot, job.spec.torchrun, trainer)
    _tell(job, slot, spec)
    _share_memory(spec, trainer)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _metadata(job: TrainingJob, name: str) -> dict[str, Any]:
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": job.name, "uid": job.uid, "controller": True}
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": _labels(job),
        "ownerReferences": [owner],
    }


def _labels(job: TrainingJob) -> dict[str, str]:
    return {OWNER_LABEL: legal_label(job.name)}


def _resume(spec: dict[str, Any], trainer: dict[str, Any], how: Resume) -> None:
    if how.skip_inits:
        spec.pop("initContainers", None)
    if how.command:
        trainer["command"] = list(how.command)
    if how.args:
        trainer["args"] = list(how.args)


def _tell(job: TrainingJob, slot: Slot, spec: dict[str, Any]) -> None:
    """First, so that the template can refer to them; what it sets itself stands."""
    told = {
        "MASTER_ADDR": job.master,
        "MASTER_PORT": MASTER_PORT,
        "RANK": str(slot.rank),
        "WORLD_SIZE": str(job.spec.size),
    }
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        own = container.get("env") or []
        known = {item["name"] for item in own}
        ours = [{"name": name, "value": value} for name, value in told.items() if name not in known]
        container["env"] = [*ours, *own]


def _share_memory(spec: dict[str, Any], trainer: Mapping[str, Any]) -> None:
    """In memory, and not the 64 MiB of a bare container, which end data loaders with SIGBUS. What is in it
    counts against the training's memory limit, so it is no bigger than that."""
    containers = spec["containers"]
    mounts = (mount for one in containers for mount in one.get("volumeMounts") or ())
    if any(str(mount.get("mountPath")).rstrip("/") == SHM for mount in mounts):
        return
    limit = ((trainer.get("resources") or {}).get("limits") or {}).get("memory")
    for one in containers:
        one["volumeMounts"] = [
            *(one.get("volumeMounts") or ()),
            {"name": SHM_VOLUME, "mountPath": SHM},
        ]
    volume = {"medium": "Memory", **({"sizeLimit": limit} if limit else {})}
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": SHM_VOLUME, "emptyDir": volume}]
