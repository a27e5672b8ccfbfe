"""Kubeflow's training operator, with PyTorchJob alone of all its kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster import binaries, controllers, images

if TYPE_CHECKING:
    from cluster.cluster import Cluster

USER = "system:training-operator"
_NAMESPACE = "kubeflow"
_SECRET = "training-operator-webhook-cert"
_PORT = 9444  # JobSet has its own default
_PATH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
#: Its own template, but for the search domain: the nslookup of Debian's BusyBox adds none.
_WAIT_FOR_MASTER = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  resources:
    limits: {cpu: 100m, memory: 20Mi}
    requests: {cpu: 50m, memory: 10Mi}
  command:
  - sh
  - -c
  - |
    domain=$(awk '/^search/ {print $2}' /etc/resolv.conf)
    for i in $(seq {{.MaxTries}}); do
      if nslookup {{.MasterAddr}}.$domain; then exit 0; fi
      echo waiting for master
      sleep 2
    done
    exit 1
"""


def install(cluster: Cluster) -> None:
    have = binaries.find([binaries.TRAINING_OPERATOR])
    shipped = cluster.kubectl("kustomize", f"{have['share/training-operator/manifests']}/overlays/standalone")
    controllers.apply(cluster, shipped, only="pytorchjobs.kubeflow.org")
    controllers.lead(cluster, "training-operator", _NAMESPACE, _PORT, port_name="webhook-server")
    wait_for_master = cluster.folder / "wait-for-master.yaml"
    wait_for_master.write_text(_WAIT_FOR_MASTER)
    certificates = cluster.folder / "training-operator"
    command = [
        str(have["training-operator"]),
        f"--kubeconfig={cluster.folder}/training-operator.kubeconfig",
        "--enable-scheme=pytorchjob",
        f"--pytorch-init-container-image={images.BUSYBOX}",
        f"--pytorch-init-container-template-file={wait_for_master}",
        f"--webhook-server-port={_PORT}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]
    room = cluster.room
    room.start("training-operator", *controllers.as_in_a_pod(cluster.folder, certificates, command))
    room.wait_for("training-operator", lambda: controllers.mount(cluster, _SECRET, _NAMESPACE, certificates))
    room.wait_for("training-operator", lambda: controllers.admits(cluster, _PATH, _sample()))


def _sample() -> dict[str, Any]:
    pod = {"containers": [{"name": "pytorch", "image": images.BUSYBOX}]}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "sample"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": pod}}}},
    }
