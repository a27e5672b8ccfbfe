"""Volcano: gangs of pods that start together or not at all. Its scheduler, its controllers, its webhooks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cluster import binaries, controllers, images

if TYPE_CHECKING:
    from cluster.cluster import Cluster

USER = "system:volcano"
_SERVICE = "volcano-admission-service"
_NAMESPACE = "volcano-system"
NAME = f"{_SERVICE}.{_NAMESPACE}.svc"
_PORT = 8443
_SHIPPED = "share/volcano/installer/volcano-development.yaml"
_SCHEDULER_CONFIG = "share/volcano/installer/helm/chart/volcano/config"
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
_JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def install(cluster: Cluster) -> None:
    """Until it takes a Job: the scheduler makes the queue for it, and the controllers open that."""
    have = binaries.find([binaries.VOLCANO])
    shipped = have[_SHIPPED].read_text()
    # Those that it ships a configuration for: for any other it would wait.
    webhooks = re.findall(r"^ +path: (/\S+)", shipped, re.MULTILINE)
    controllers.apply(cluster, shipped)
    controllers.lead(cluster, _SERVICE, _NAMESPACE, _PORT)
    common = [f"--kubeconfig={cluster.folder}/volcano.kubeconfig", "--logtostderr", "-v=3"]
    pki = cluster.folder / "pki"
    commands = {
        "volcano-webhooks": [
            str(have["vc-webhook-manager"]),
            f"--tls-cert-file={pki}/{NAME}.crt",
            f"--tls-private-key-file={pki}/{NAME}.key",
            f"--ca-cert-file={pki}/ca.crt",
            f"--port={_PORT}",
            f"--webhook-namespace={_NAMESPACE}",
            f"--webhook-service-name={_SERVICE}",
            f"--enabled-admission={','.join(webhooks)}",
        ],
        "volcano-scheduler": [
            str(have["vc-scheduler"]),
            f"--scheduler-conf={have[_SCHEDULER_CONFIG]}/volcano-scheduler.conf",
            "--leader-elect=false",
        ],
        "volcano-controllers": [str(have["vc-controller-manager"]), "--leader-elect=false"],
    }
    for name, command in commands.items():
        cluster.room.start(name, *command, *common)
    room = cluster.room
    room.wait_for("volcano-webhooks", lambda: controllers.admits(cluster, _QUEUES, _queue()))
    room.wait_for("volcano-scheduler", lambda: cluster.api.get(f"{_QUEUES}/default").is_success)
    room.wait_for("volcano-controllers", lambda: controllers.admits(cluster, _JOBS, _job()))


def _queue() -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "sample"},
        "spec": {"weight": 1},
    }


def _job() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": images.BUSYBOX}]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "sample"},
        "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": pod}}]},
    }
