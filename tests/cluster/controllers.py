"""Controllers that a cluster gets on demand, each installed as its project ships it.

Its definitions, its Service and its webhooks are the project's own; only that its programs run beside the
cluster's other parts and not in pods. So the API server is told where they are, and what a kubelet would do
for them is done here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.network import endpoints

if TYPE_CHECKING:
    from cluster.cluster import Cluster

#: Of what a project ships, the rest is for the pods that its programs would run in.
_KINDS = (
    "ConfigMap",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Secret",
    "Service",
    "ValidatingWebhookConfiguration",
)
#: The program is opened first: its path may be hidden by the new /tmp, as the cluster's folder would be.
_AS_IN_A_POD = """
exec 3< "$3"
mount --bind "$1" /mnt
mount -t tmpfs tmpfs /tmp
mkdir -p "$1" /tmp/k8s-webhook-server
mount --bind /mnt "$1"
ln -s "$2" /tmp/k8s-webhook-server/serving-certs
shift 3
exec env TMPDIR=/tmp /proc/self/fd/3 "$@"
"""


def apply(cluster: Cluster, shipped: str, *, only: str = "") -> None:
    """The objects in this YAML that a cluster needs; `only` names the one definition that it gets."""
    documents = re.split(r"^---$", shipped, flags=re.MULTILINE)
    wanted = [document for document in documents if _is_wanted(document, only)]
    cluster.kubectl("apply", "--server-side", "--filename=-", input="\n---\n".join(wanted))


def _is_wanted(document: str, only: str) -> bool:
    kind = re.search(r"^kind: (\w+)", document, re.MULTILINE)
    if kind is None or kind[1] not in _KINDS:
        return False
    name = re.search(r"^  name: (\S+)", document, re.MULTILINE)
    return kind[1] != "CustomResourceDefinition" or not only or (name is not None and name[1] == only)


def lead(cluster: Cluster, service: str, namespace: str, port: int, *, port_name: str = "") -> None:
    """The Service of a webhook leads to where its program listens."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    where = endpoints(service, namespace, cluster.node_address, port, port_name=port_name)
    cluster.api.post(path, json=where).raise_for_status()


def as_in_a_pod(folder: Path, certificates: Path, command: Sequence[str]) -> list[str]:
    """With a /tmp of its own, and in it the files of a mounted Secret, where controller-runtime looks."""
    shell = ["unshare", "--mount", "--", "sh", "-ec", _AS_IN_A_POD, "sh"]
    return [*shell, str(folder), str(certificates), *command]


def mount(cluster: Cluster, secret: str, namespace: str, folder: Path) -> bool:
    """Whether there was something in the Secret; it is in files then."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
    data = cluster.api.get(path).raise_for_status().json().get("data") or {}
    for name, content in data.items():
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / name).write_bytes(base64.b64decode(content))
    return bool(data)


def admits(cluster: Cluster, path: str, sample: Mapping[str, Any]) -> bool:
    """Whether the API server would take this object now, with all that its webhooks say."""
    return cluster.api.post(path, params={"dryRun": "All"}, json=sample).is_success
