"""How each part of a cluster is started. The room has its own network, so ports are the usual ones."""

from __future__ import annotations

from pathlib import Path

from cluster import files
from cluster.network import SERVICES, Network


def etcd(program: Path) -> list[str]:
    """On a file system in memory: what is written need not outlive the cluster."""
    return [str(program), "--data-dir=/run/etcd", "--log-level=warn"]


def containerd(folder: Path) -> list[str]:
    return ["containerd", f"--config={folder}/containerd.toml"]


def apiserver(program: Path, folder: Path, network: Network) -> list[str]:
    pki = folder / "pki"
    return [
        str(program),
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={network.node}",
        "--secure-port=443",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--service-account-key-file={pki}/service-accounts.crt",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{files.DOMAIN}",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        # What it passes on to servers behind it, the metrics API among them.
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=aggregator",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/aggregator.crt",
        f"--proxy-client-key-file={pki}/aggregator.key",
        "--enable-aggregator-routing",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",  # Pod Security is among those on by default
        "--default-not-ready-toleration-seconds=3",
        "--default-unreachable-toleration-seconds=3",
        f"--audit-policy-file={folder}/audit-policy.json",
        f"--audit-log-path={folder}/audit.log",
        "--shutdown-delay-duration=0s",
    ]


def controllers(program: Path, folder: Path) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={folder}/controllers.kubeconfig",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={folder}/pki/service-accounts.key",
        f"--root-ca-file={folder}/pki/ca.crt",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={files.NODE_GRACE}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler(program: Path, folder: Path) -> list[str]:
    return [str(program), f"--config={folder}/scheduler.json"]


def kubelet(program: Path, folder: Path, network: Network) -> list[str]:
    return [
        str(program),
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={folder}/kubelet.kubeconfig",
        f"--hostname-override={files.NODE}",
        f"--node-ip={network.node}",
    ]


def dns(program: Path, folder: Path) -> list[str]:
    return [str(program), f"-conf={folder}/Corefile"]


def kwok(program: Path, folder: Path) -> list[str]:
    return [
        str(program),
        f"--kubeconfig={folder}/kwok.kubeconfig",
        f"--config={files.KWOK_STAGES}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--node-lease-duration-seconds={files.KWOK_LEASE_SECONDS}",
    ]
