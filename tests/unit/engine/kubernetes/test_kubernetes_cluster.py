"""What a cluster has, read from the API's objects; and when it is looked at."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from muster.domain.cluster import Cluster, Node, VolumeClaim
from muster.domain.resources import Resources
from muster.engine.kubernetes.api import Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.clusterlook import LOOK_AGAIN, STALE, ClusterLook, read_claim

NODE = {
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "Tesla-T4"}},
    "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "16Gi", "pods": "110"}},
}
CORDONED = {
    "metadata": {"name": "cpu-1"},
    "spec": {"unschedulable": True},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}},
}
POD = {
    "spec": {
        "nodeName": "gpu-1",
        "containers": [{"resources": {"limits": {"nvidia.com/gpu": "3", "cpu": "500m", "memory": "1Gi"}}}],
    }
}
CLAIM = {
    "metadata": {"namespace": "ml", "name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"]},
    "status": {"phase": "Bound", "capacity": {"storage": "100Gi"}},
}


class Lists:
    """An API server that lists, and may refuse."""

    connection = SimpleNamespace(namespace="ml", namespaces=["ml"])

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.items: dict[str, list[Any]] = {
            "pods": [POD],
            "nodes": [NODE, CORDONED],
            "persistentvolumeclaims": [CLAIM],
        }

    async def list(self, resource: Resource, namespace: str | None, **params: str) -> Object:
        self.asked.append(resource.plural)
        if resource.plural in self.fails:
            raise self.fails[resource.plural]
        return {"items": self.items[resource.plural], "metadata": {}}


class Watchtower:
    def __init__(self) -> None:
        self.now = 0.0
        self.api = Lists()
        self._look = ClusterLook(cast(Api, self.api), clock=lambda: self.now)

    def stir(self) -> None:
        self._look.stir()

    def look(self) -> Cluster | None:
        return asyncio.run(self._look.look())


def forbidden() -> ApiError:
    return ApiError(403, "Forbidden", "no")


def test_nodes_are_told_with_what_no_pod_has_asked_for() -> None:
    seen = Watchtower().look()
    assert seen is not None
    assert seen.nodes == (
        Node(
            name="gpu-1",
            gpu="Tesla-T4",
            total=Resources(millicpus=8000, memory=16 * 2**30, gpus=4),
            free=Resources(millicpus=7500, memory=15 * 2**30, gpus=1),
            pods=1,
        ),
        Node(
            name="cpu-1",
            closed="cordoned",
            total=Resources(millicpus=2000, memory=4 * 2**30),
            free=Resources(millicpus=2000, memory=4 * 2**30),
            pods=0,
        ),
    )


def test_claims_of_the_served_namespaces_are_told() -> None:
    seen = Watchtower().look()
    claim = VolumeClaim(namespace="ml", name="data", size=100 * 2**30, modes=("ReadWriteMany",), bound=True)
    assert seen is not None
    assert (seen.namespace, seen.claims) == ("ml", (claim,))


def test_a_claim_without_a_volume_has_no_size_yet() -> None:
    claim = read_claim({"metadata": {"namespace": "ml", "name": "new"}, "status": {"phase": "Pending"}})
    assert claim == VolumeClaim(namespace="ml", name="new")


def test_nothing_is_asked_until_something_changes_or_long_has_passed() -> None:
    tower = Watchtower()
    tower.look()
    asked = len(tower.api.asked)
    tower.now += STALE - 1
    assert tower.look() is None
    assert len(tower.api.asked) == asked
    tower.stir()
    assert tower.look() is not None
    tower.now += STALE
    assert tower.look() is not None


def test_what_may_not_be_seen_is_left_out_and_tried_again_now_and_then() -> None:
    tower = Watchtower()
    tower.api.fails["nodes"] = forbidden()
    seen = tower.look()
    assert seen is not None
    assert (seen.nodes, len(seen.claims or ())) == (None, 1)
    tower.stir()
    tower.look()
    assert tower.api.asked.count("nodes") == 1
    del tower.api.fails["nodes"]
    tower.now += LOOK_AGAIN
    tower.stir()
    again = tower.look()
    assert again is not None
    assert len(again.nodes or ()) == 2


def test_an_agent_that_may_see_nothing_says_nothing() -> None:
    tower = Watchtower()
    tower.api.fails = {"pods": forbidden(), "persistentvolumeclaims": forbidden()}
    assert tower.look() is None


def test_a_cluster_that_does_not_answer_is_no_news() -> None:
    tower = Watchtower()
    tower.api.fails["pods"] = Unreachable("gone")
    assert tower.look() is None
