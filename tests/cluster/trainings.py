"""PyTorchTrainingJobs in a cluster, and an operator of a namespace that can be killed and started again."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from installation import MUSTER, until
from muster.operator import manifest
from muster.operator.spec import API_VERSION, KIND

Object = dict[str, Any]
NAME = "mnist"
LIFE = {
    "name": "LIFE",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['muster.dev/replica-life']"}},
}


def install(cluster: Cluster) -> None:
    """The resource's definition, once the cluster serves it."""
    cluster.kubectl("apply", "--server-side", "--filename=-", input=manifest.crd_text())
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{manifest.CRD}", "--timeout=60s")


def replicas(type_: str, script: str, number: int = 1, policy: str = "Never") -> Object:
    """Of a shell script, which knows its LIFE."""
    container = {"name": "pytorch", "image": BUSYBOX, "command": ["sh", "-c", script], "env": [LIFE]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"type": type_, "replicas": number, "restartPolicy": policy, "template": {"spec": spec}}


def training(*specs: Object, name: str = NAME, **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"replicaSpecs": copy.deepcopy(list(specs)), **spec},
    }


class Trainings:
    """All of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.kubeconfig = cluster.kubeconfig_for(
            manifest.NAME, namespace, manifest.RULES, cluster_rules=manifest.CLUSTER_RULES
        )
        self.user = f"system:serviceaccount:{namespace}:{manifest.NAME}"
        self.log = folder / "operator.log"
        self._operator: subprocess.Popen[bytes] | None = None
        self._path = f"/apis/{API_VERSION}/namespaces/{namespace}/pytorchtrainingjobs"

    # The operator

    def start(self, *, wait: bool = True) -> None:
        mark = self.log.stat().st_size if self.log.exists() else 0
        words = ["operator", "run", "--namespace", self.namespace, "--kubeconfig", str(self.kubeconfig)]
        with self.log.open("ab") as log:
            self._operator = subprocess.Popen([*MUSTER, *words], stdout=log, stderr=log)
        if wait:
            until(lambda: "serves" in self.log.read_text()[mark:], what=f"an operator; see {self.log}")

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Its exit status."""
        assert self._operator is not None
        self._operator.send_signal(how)
        status = self._operator.wait(30)
        self._operator = None
        return status

    def wait_for_end(self) -> int:
        assert self._operator is not None
        status = self._operator.wait(60)
        self._operator = None
        return status

    def close(self) -> None:
        if self._operator is not None:
            self.kill(signal.SIGTERM)

    # Jobs

    def create(self, job: Mapping[str, Any]) -> None:
        """As kubectl does, with everything it checks."""
        self.cluster.kubectl("create", f"--namespace={self.namespace}", "--filename=-", input=json.dumps(job))

    def patch(self, spec: Mapping[str, Any], name: str = NAME) -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        body = json.dumps({"spec": spec})
        self.cluster.api.patch(f"{self._path}/{name}", content=body, headers=headers).raise_for_status()

    def delete(self, name: str = NAME) -> None:
        self.cluster.api.delete(f"{self._path}/{name}").raise_for_status()

    def status(self, name: str = NAME) -> Object:
        item = self.cluster.api.get(f"{self._path}/{name}").raise_for_status().json()
        found: Object = item.get("status") or {}
        return found

    def reason(self, type_: str = "Failed", name: str = NAME) -> str:
        said = {one["type"]: one for one in self.status(name).get("conditions", ())}
        return f"{said[type_]['reason']}: {said[type_]['message']}" if type_ in said else ""

    def until(self, phase: str, name: str = NAME, *, seconds: float = 90) -> Object:
        def look() -> Object | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        try:
            return until(look, seconds=seconds, what=f"{name} {phase}; see {self.log}")
        except AssertionError as error:
            error.add_note(f"{self.status(name)}\n{self.pods()}")
            raise

    def pods(self) -> dict[str, str]:
        """Names, and phases."""
        items = self._list("pods")
        return {
            item["metadata"]["name"].removeprefix(f"{NAME}-").partition("-")[2]: item["status"]["phase"]
            for item in items
        }

    def pod(self, short: str) -> Object:
        """By the end of its name: worker-0."""
        return next(item for item in self._list("pods") if item["metadata"]["name"].endswith(f"-{short}"))

    def services(self) -> list[str]:
        return [item["metadata"]["name"] for item in self._list("services")]

    def logs(self, short: str) -> str:
        name = self.pod(short)["metadata"]["name"]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/log"
        return self.cluster.api.get(path).raise_for_status().text

    def _list(self, plural: str) -> list[Object]:
        answer = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/{plural}").raise_for_status()
        items: list[Object] = answer.json()["items"]
        return items

    def writes(self) -> list[str]:
        """What the operator has asked for that changes anything."""
        asked = self.cluster.requests(user=self.user)
        return [f"{one.verb} {one.uri}" for one in asked if one.verb not in ("get", "list", "watch")]
