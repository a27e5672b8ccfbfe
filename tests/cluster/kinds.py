"""The kinds of training that are tried on their real controllers. A further kind is one more row here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.trainings import Trainings, install

Controller = Callable[[Cluster, str, Path], AbstractContextManager[object]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind, its controller, and how a template of its own asks for one restart."""

    name: str
    version: str
    kind: str
    plural: str
    controller: Controller  #: makes sure that it serves this namespace
    restarting: Callable[[dict[str, Any]], dict[str, Any]]  #: the `spec` for two members with this pod
    restarts_all: bool = False  #: whoever fails, all members are started anew
    waits: str = r"Not enough nvidia\.com/gpu: .*1 Insufficient nvidia\.com/gpu.*"  #: while there is no room
    all_or_none: bool = False  #: its scheduler places no member before there is room for all
    follows_first: bool = False  #: others do not start before the first has, wherever there is room
    makes: tuple[str, ...] = ()  #: what its controller makes beside pods and Services

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.version.partition('/')[0]}"

    def training(self, **container: Any) -> dict[str, Any]:
        """A queue in training mode: Muster writes the object."""
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        return {"apiVersion": self.version, "kind": self.kind, "template": {"spec": spec}}

    def template(self, **pod: Any) -> dict[str, Any]:
        """A queue in manifest mode, for two members."""
        name = "pytorch" if self.kind == "PyTorchJob" else "main"
        container = {"name": name, "image": "${image_uri}", **pod.pop("container", {})}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], **pod}
        return {"apiVersion": self.version, "kind": self.kind, "spec": self.restarting({"spec": spec})}


def _volcano(pod: dict[str, Any]) -> dict[str, Any]:
    return {
        "schedulerName": "volcano",
        "minAvailable": 2,
        "maxRetry": 2,  # one restart
        "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "plugins": {"pytorch": ["--master=master", "--worker=worker"], "svc": []},
        "tasks": [{"name": name, "replicas": 1, "template": pod} for name in ("master", "worker")],
    }


def _pytorchjob(pod: dict[str, Any]) -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": pod}
    return {"runPolicy": {"backoffLimit": 3}, "pytorchReplicaSpecs": {"Master": role, "Worker": role}}


def _jobset(pod: dict[str, Any]) -> dict[str, Any]:
    job = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": pod}
    return {
        "failurePolicy": {"maxRestarts": 1},
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
    }


def _trainingjob(pod: dict[str, Any]) -> dict[str, Any]:
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": pod}
    return {
        "runPolicy": {"backoffLimit": 1},
        "replicaSpecs": [{"type": name, **role} for name in ("master", "worker")],
    }


def _installed(start: Callable[[Cluster], None]) -> Controller:
    """One of the whole cluster, which stays."""

    def running(cluster: Cluster, namespace: str, folder: Path) -> AbstractContextManager[object]:
        start(cluster)
        return nullcontext()

    return running


@contextmanager
def our_operator(cluster: Cluster, namespace: str, folder: Path) -> Iterator[Trainings]:
    install(cluster)
    trainings = Trainings(cluster, namespace, folder)
    trainings.start()
    try:
        yield trainings
    finally:
        trainings.close()


VOLCANO = Case(
    name="volcano",
    version="batch.volcano.sh/v1alpha1",
    kind="Job",
    plural="jobs",
    controller=_installed(Cluster.start_volcano),
    restarting=_volcano,
    restarts_all=True,
    waits=r"\d/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; .*",
    all_or_none=True,
    makes=("podgroups.scheduling.volcano.sh", "networkpolicies"),
)
PYTORCHJOB = Case(
    name="pytorchjob",
    version="kubeflow.org/v1",
    kind="PyTorchJob",
    plural="pytorchjobs",
    controller=_installed(Cluster.start_training_operator),
    restarting=_pytorchjob,
    follows_first=True,
)
JOBSET = Case(
    name="jobset",
    version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    controller=_installed(Cluster.start_jobset),
    restarting=_jobset,
    restarts_all=True,
)
TRAININGJOB = Case(
    name="trainingjob",
    version="batch.tensorstack.dev/v1beta1",
    kind="PyTorchTrainingJob",
    plural="pytorchtrainingjobs",
    controller=our_operator,
    restarting=_trainingjob,
)
CASES = [
    pytest.param(VOLCANO, id="volcano", marks=pytest.mark.training),
    pytest.param(PYTORCHJOB, id="pytorchjob", marks=pytest.mark.training),
    pytest.param(JOBSET, id="jobset"),
    pytest.param(TRAININGJOB, id="trainingjob"),
]
