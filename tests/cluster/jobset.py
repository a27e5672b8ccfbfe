"""JobSet: several Jobs as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster import binaries, controllers, images

if TYPE_CHECKING:
    from cluster.cluster import Cluster

USER = "system:jobset"
_NAMESPACE = "jobset-system"
_SECRET = "jobset-webhook-server-cert"
_PORT = 9443  # its own default
_PATH = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def install(cluster: Cluster) -> None:
    have = binaries.find([binaries.JOBSET])
    controllers.apply(cluster, cluster.kubectl("kustomize", f"{have['share/jobset/config']}/default"))
    controllers.lead(cluster, "jobset-webhook-service", _NAMESPACE, _PORT)
    certificates = cluster.folder / "jobset"
    command = [
        str(have["jobset-controller"]),
        f"--kubeconfig={cluster.folder}/jobset.kubeconfig",
        "--leader-elect=false",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
    cluster.room.start("jobset", *controllers.as_in_a_pod(cluster.folder, certificates, command))
    cluster.room.wait_for("jobset", lambda: controllers.mount(cluster, _SECRET, _NAMESPACE, certificates))
    cluster.room.wait_for("jobset", lambda: controllers.admits(cluster, _PATH, _sample()))


def _sample() -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": images.BUSYBOX}]}
    job = {"template": {"spec": {"template": {"spec": pod}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "sample"},
        "spec": {"replicatedJobs": [{"name": "worker", **job}]},
    }
