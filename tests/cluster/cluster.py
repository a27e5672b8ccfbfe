"""A real Kubernetes for tests and for trying things: one API server, one node with containers, cluster DNS.

    with Cluster.up() as cluster:
        print(cluster.kubectl("get", "pods", "--all-namespaces"))

It needs root, and nothing of the machine but memory: everything it does happens in a room of its own.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from cluster import (
    binaries,
    files,
    images,
    jobset,
    metrics,
    packages,
    parts,
    requests,
    training_operator,
    volcano,
)
from cluster.errors import ClusterError
from cluster.network import API_SERVICE, Network, join
from cluster.nodes import simulated
from cluster.pki import Authority
from cluster.requests import Request
from cluster.room import Room

GPUS = 4  #: of the real node
_GPU = "nvidia.com/gpu"


class Cluster:
    def __init__(self, room: Room, network: Network) -> None:
        self.room = room
        self._network = network
        self._programs = binaries.find()
        self._pki = room.folder / "pki"
        self._numbers = count(1)
        self._simulates = False
        self._measures = False
        self._installed: set[Callable[[Cluster], None]] = set()
        self._others: list[str] = []  #: nodes that stand in while the real one is lost
        self.folder = room.folder
        self.logs = room.logs
        self.kubeconfig = room.folder / "kubeconfig"  #: of somebody who may do everything
        self.server = f"https://{network.node}"  #: the same for this machine and for pods
        self.host_address = network.host  #: this machine, as pods see it
        self.node_address = network.node  #: the real node, as this machine and pods see it
        self.node = files.NODE

    @classmethod
    def up(cls, *, stays: bool = False) -> Self:
        """Start one, and wait until pods can run. It goes when this process does, unless it `stays`."""
        packages.require()
        binaries.find()
        room = Room.open(stays=stays)
        try:
            cluster = cls(room, join(room))
            cluster._start()
        except BaseException:
            room.close()
            raise
        return cluster

    def down(self) -> None:
        """Remove it, and every trace of it."""
        self.api.close()
        self.room.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # Talking to it

    @cached_property
    def api(self) -> httpx.Client:
        """The API server, asked by somebody who may do everything."""
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        return httpx.Client(base_url=self.server, verify=context, timeout=30, trust_env=False)

    def kubectl(self, *words: str, input: str | None = None, kubeconfig: Path | None = None) -> str:  # noqa: A002
        """What it printed; with `input`, `-f -` reads that."""
        done = subprocess.run(
            [str(self._programs["kubectl"]), f"--kubeconfig={kubeconfig or self.kubeconfig}", *words],
            input=input or "",
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ClusterError(
                f"kubectl {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def apply(self, *objects: Mapping[str, Any], namespace: str = "default") -> None:
        everything = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", f"--namespace={namespace}", "--filename=-", input=json.dumps(everything))

    def kubeconfig_for(
        self,
        service_account: str,
        namespace: str,
        rules: Sequence[Mapping[str, Any]] = (),
        *,
        cluster_rules: Sequence[Mapping[str, Any]] = (),
    ) -> Path:
        """Of a service account that may do what the rules of its role say, and nothing else.

        `rules` hold in the namespace, `cluster_rules` everywhere. Asked again, it gives the same account new
        rules.
        """
        roles = [("Role", rules), ("ClusterRole", cluster_rules)]
        subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
        group = "rbac.authorization.k8s.io"
        objects: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account}}
        ]
        for kind, its_rules in roles:
            name = service_account if kind == "Role" else f"{namespace}.{service_account}"
            head = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
            objects += [
                head | {"kind": kind, "rules": list(its_rules)},
                head
                | {"kind": f"{kind}Binding", "subjects": [subject]}
                | {"roleRef": {"apiGroup": group, "kind": kind, "name": name}},
            ]
        self.apply(*objects, namespace=namespace)
        token = self.kubectl(
            "create", "token", service_account, f"--namespace={namespace}", "--duration=24h"
        ).strip()
        path = self.folder / f"{namespace}.{service_account}.kubeconfig"
        _write(path, files.kubeconfig(self.server, self._pki / "ca.crt", token=token, namespace=namespace))
        return path

    def requests(self, *, user_agent: str = "", user: str = "") -> list[Request]:
        """What was asked of the API server, by clients whose user agent begins so, or by that user.

        A service account is the user `system:serviceaccount:NAMESPACE:NAME`. The cluster's own parts are left
        out.
        """
        return [
            request
            for request in requests.read(self.folder / "audit.log")
            if request.user_agent.startswith(user_agent) and user in ("", request.user)
        ]

    # Its parts

    def restart_apiserver(self) -> None:
        self.stop_apiserver()
        self.start_apiserver()

    def stop_apiserver(self) -> None:
        # It would wait a minute for watches to end by themselves.
        self.room.stop("kube-apiserver", seconds=2)

    def start_apiserver(self) -> None:
        self._run(
            "kube-apiserver", parts.apiserver(self._programs["kube-apiserver"], self.folder, self._network)
        )
        self.room.wait_for("kube-apiserver", self._api_is_ready)

    def stop_kubelet(self) -> None:
        """As if the node were lost: nobody hears of it any more, though its containers run on."""
        # A cluster that hears of no node at all takes itself for cut off, and evicts nothing.
        self._others = self.add_nodes(1)
        self.room.stop("kubelet")

    def start_kubelet(self) -> None:
        self._run("kubelet", parts.kubelet(self._programs["kubelet"], self.folder, self._network))
        self.room.wait_for("kubelet", self._node_is_ready)
        # A kubelet that begins sets to nothing what no device plugin offers; later it keeps what is there.
        gpus = {_GPU: str(GPUS)}
        self._patch_node({"capacity": gpus, "allocatable": gpus})
        self.remove_nodes(self._others)
        self._others = []

    def add_nodes(
        self,
        number: int,
        *,
        gpus: int = 0,
        cpu: str = "64",
        memory: str = "512Gi",
        labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Simulated nodes, ready for pods that tolerate them; their names. See kwok.yaml for their pods."""
        if not self._simulates:
            self._run("kwok", parts.kwok(self._programs["kwok"], self.folder))
            self._simulates = True
        names = [f"simulated-{next(self._numbers)}" for _ in range(number)]
        for name in names:
            node = simulated(name, gpus=gpus, cpu=cpu, memory=memory, labels=dict(labels or {}))
            self.api.post("/api/v1/nodes", json=node).raise_for_status()
        self.room.wait_for("kwok", lambda: self._are_ready(names))
        return names

    def remove_nodes(self, names: Sequence[str]) -> None:
        for name in names:
            self.api.delete(f"/api/v1/nodes/{name}").raise_for_status()

    def start_metrics(self) -> None:
        """The metrics API, once it knows what every pod uses; it looks every ten seconds."""
        if self._measures:
            return
        self._run("metrics-server", metrics.server(self._programs["metrics-server"], self.folder))
        self._measures = True
        self.apply(*metrics.objects(self._pki / "ca.crt", self._network), namespace="kube-system")
        self.room.wait_for("metrics-server", self._measures_the_node, seconds=90)

    def start_jobset(self) -> None:
        """JobSet, once it takes objects."""
        self._install(jobset.install)

    def start_training_operator(self) -> None:
        """Kubeflow's training operator, once it takes PyTorchJobs."""
        self._install(training_operator.install)

    def start_volcano(self) -> None:
        """Volcano, once it takes Jobs."""
        self._install(volcano.install)

    def _install(self, what: Callable[[Cluster], None]) -> None:
        if what not in self._installed:
            what(self)
            self._installed.add(what)

    # How it comes up

    def _start(self) -> None:
        self._mount()
        self._configure()
        self._run("etcd", parts.etcd(self._programs["etcd"]))
        self._run("containerd", parts.containerd(self.folder))
        self.start_apiserver()
        self._run("controllers", parts.controllers(self._programs["kube-controller-manager"], self.folder))
        self._run("scheduler", parts.scheduler(self._programs["kube-scheduler"], self.folder))
        self._run("coredns", parts.dns(self._programs["coredns"], self.folder))
        self._import_images()
        self.start_kubelet()
        self.room.wait_for("coredns", self._answers("http://127.0.0.1:8181/ready"))
        self.room.wait_for("scheduler", self._answers("https://127.0.0.1:10259/readyz"))
        self.room.wait_for("controllers", self._has_default_account)

    def _run(self, name: str, command: list[str]) -> None:
        self.room.start(name, *command)

    def _mount(self) -> None:
        """Where its parts write at fixed places, they find a folder of the room."""
        (self.folder / "lib").mkdir()
        (self.folder / "log").mkdir()
        self.room.run(
            *("sh", "-ec"),
            f"""
            mount -t tmpfs -o mode=755 tmpfs /run
            mount --bind {self.folder}/lib /var/lib
            mount --bind {self.folder}/log /var/log
            """,
        )

    def _configure(self) -> None:
        authority = Authority(self._pki)
        node = self._network.node
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        authority.server("kube-apiserver", names=(*names, node, API_SERVICE, "127.0.0.1"))
        kubelet = authority.server("kubelet", names=(files.NODE, node))
        for name in (metrics.NAME, volcano.NAME):
            authority.server(name, names=(name,))
        authority.client("service-accounts")
        authority.client("aggregator")
        users = {
            "kubeconfig": ("admin", "system:masters"),
            "kubelet.kubeconfig": (f"system:node:{files.NODE}", "system:nodes"),
            "controllers.kubeconfig": ("system:kube-controller-manager", None),
            "scheduler.kubeconfig": ("system:kube-scheduler", None),
            "dns.kubeconfig": ("system:dns", "system:masters"),
            "kwok.kubeconfig": ("system:kwok", "system:masters"),
            "metrics.kubeconfig": ("system:metrics", "system:masters"),
            "jobset.kubeconfig": (jobset.USER, "system:masters"),
            "training-operator.kubeconfig": (training_operator.USER, "system:masters"),
            "volcano.kubeconfig": (volcano.USER, "system:masters"),
        }
        contents = {
            name: files.kubeconfig(
                self.server, authority.certificate, certificate=authority.client(user, group=group)
            )
            for name, (user, group) in users.items()
        } | {
            "cni/muster.conflist": files.pod_network(self._network),
            "containerd.toml": files.containerd(self.folder / "cni"),
            "audit-policy.json": files.audit_policy(),
            "scheduler.json": files.scheduler(self.folder / "scheduler.kubeconfig"),
            "Corefile": files.corefile(self.folder / "dns.kubeconfig"),
            "resolv.conf": "",
            "kubelet.json": files.kubelet(
                authority.certificate,
                kubelet,
                control_group=self.room.control_group,
                resolver=self.folder / "resolv.conf",
            ),
        }
        for name, content in contents.items():
            _write(self.folder / name, content)

    def _import_images(self) -> None:
        archive = self.folder / "images.tar"
        images.write_images(archive)
        self.room.wait_for("containerd", self._works("ctr", "version"))
        self.room.run("ctr", "--namespace=k8s.io", "images", "import", str(archive))
        archive.unlink()

    def _patch_node(self, status: dict[str, Any]) -> None:
        self.api.patch(
            f"/api/v1/nodes/{files.NODE}/status",
            content=json.dumps({"status": status}),
            headers={"Content-Type": "application/strategic-merge-patch+json"},
        ).raise_for_status()

    # What it waits for

    def _api_is_ready(self) -> bool:
        try:
            return self.api.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _node_is_ready(self) -> bool:
        return self._are_ready([files.NODE])

    def _are_ready(self, names: Sequence[str]) -> bool:
        nodes = self.api.get("/api/v1/nodes").raise_for_status().json()["items"]
        return set(names) <= {node["metadata"]["name"] for node in nodes if _is_ready(node)}

    def _measures_the_node(self) -> bool:
        return self.api.get(f"/apis/metrics.k8s.io/v1beta1/nodes/{files.NODE}").status_code == 200

    def _has_default_account(self) -> bool:
        """No pod is admitted into a namespace before."""
        return self.api.get("/api/v1/namespaces/default/serviceaccounts/default").status_code == 200

    def _answers(self, url: str) -> Callable[[], bool]:
        return self._works(str(images.busybox()), "wget", "-q", "-O-", "--no-check-certificate", url)

    def _works(self, *command: str) -> Callable[[], bool]:
        def look() -> bool:
            try:
                self.room.run(*command)
            except ClusterError:
                return False
            return True

        return look


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch(0o600)
    path.write_text(content)
