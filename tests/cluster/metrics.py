"""The metrics API: metrics-server, to which the API server passes on what is asked of `metrics.k8s.io`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from cluster.network import Network, endpoints

NAME = "metrics-server.kube-system.svc"
PORT = 4443
_SERVICE = {"name": "metrics-server", "namespace": "kube-system"}


def server(program: Path, folder: Path) -> list[str]:
    pki = folder / "pki"
    kubeconfig = folder / "metrics.kubeconfig"
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--secure-port={PORT}",
        f"--tls-cert-file={pki}/{NAME}.crt",
        f"--tls-private-key-file={pki}/{NAME}.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",  # the least it takes, and more than it waits for a kubelet
        "--kubelet-request-timeout=5s",
    ]


def objects(authority: Path, network: Network) -> list[dict[str, Any]]:
    """They tell the API server where it is: no pod, so nothing is selected."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _SERVICE,
            "spec": {"clusterIP": "None", "ports": [{"port": 443, "targetPort": PORT}]},
        },
        endpoints(**_SERVICE, address=network.node, port=PORT),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "service": _SERVICE,
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "caBundle": base64.b64encode(authority.read_bytes()).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]
