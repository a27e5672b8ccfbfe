"""The configuration of every part of a cluster, as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cluster.images import PAUSE
from cluster.network import DNS_SERVICE, Network
from cluster.pki import Certificate

DOMAIN = "cluster.local"
NODE = "node-1"
#: A lost node is seen within seconds; KWOK's nodes renew four times as often as their lease lasts.
NODE_GRACE = "12s"
KWOK_LEASE_SECONDS = 20
KWOK_STAGES = Path(__file__).with_name("kwok.yaml")


def kubeconfig(
    server: str,
    authority: Path,
    *,
    certificate: Certificate | None = None,
    token: str = "",
    namespace: str = "default",
) -> str:
    user = {"token": token}
    if certificate is not None:
        user = {"client-certificate": str(certificate.certificate), "client-key": str(certificate.key)}
    return _json(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "muster", "cluster": {"server": server, "certificate-authority": str(authority)}}
            ],
            "users": [{"name": "muster", "user": user}],
            "contexts": [
                {"name": "muster", "context": {"cluster": "muster", "user": "muster", "namespace": namespace}}
            ],
            "current-context": "muster",
        }
    )


def containerd(cni: Path) -> str:
    # Without CAP_SYS_RESOURCE, as in many build machines, a container may not lower its OOM score.
    return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"""


def pod_network(network: Network) -> str:
    """Pods of one node on one bridge. The machine has a route to them, so nothing is masqueraded."""
    return _json(
        {
            "cniVersion": "0.4.0",
            "name": "muster",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "pods",
                    "isDefaultGateway": True,
                    "hairpinMode": True,
                    "ipam": {"type": "host-local", "ranges": [[{"subnet": network.pods}]]},
                }
            ],
        }
    )


def kubelet(authority: Path, serving: Certificate, *, control_group: str, resolver: Path) -> str:
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": control_group,
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [DNS_SERVICE],
            "clusterDomain": DOMAIN,
            "resolvConf": str(resolver),
            "makeIPTablesUtilChains": False,
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
            # The disk of a developer may be nearly full, and an image that was collected cannot be had again.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
        }
    )


def scheduler(kubeconfig: Path) -> str:
    return _json(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
        }
    )


def audit_policy() -> str:
    """Each request once it has been answered, but those of the cluster's own parts."""
    return _json(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
                {
                    "level": "None",
                    "users": [
                        "system:apiserver",
                        "system:kube-controller-manager",
                        "system:kube-scheduler",
                        "system:kwok",
                        "system:metrics",
                        "system:dns",
                        "system:jobset",
                        "system:training-operator",
                        "system:volcano",
                    ],
                },
                {"level": "Metadata"},
            ],
        }
    )


def corefile(kubeconfig: Path) -> str:
    """Names of the cluster; of any other it says that there is none."""
    return f""".:53 {{
    bind {DNS_SERVICE}
    errors
    ready 127.0.0.1:8181
    kubernetes {DOMAIN} {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)
