"""Nodes that exist only in the API server: KWOK says that they are ready, and that their pods run and end."""

from __future__ import annotations

from typing import Any

_MARK = "kwok.x-k8s.io/node"
#: What a pod carries that may go to a simulated node; the others stay on the real one.
TOLERATION = {"key": _MARK, "operator": "Exists", "effect": "NoSchedule"}
SELECTOR = {"type": "kwok"}


def simulated(name: str, *, gpus: int, cpu: str, memory: str, labels: dict[str, str]) -> dict[str, Any]:
    resources = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "1Ti"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MARK: "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **SELECTOR, **labels},
        },
        "spec": {"taints": [{"key": _MARK, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }
