"""Which nodes have room for a pod, and how that is said."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any, cast

import pytest

from muster.engine.kubernetes import fit
from muster.engine.kubernetes.api import Api, ApiError, Object, Resource
from muster.engine.kubernetes.nodefit import LOOK_AGAIN, NodeFit
from muster.engine.kubernetes.nodes import FRESH
from muster.engine.kubernetes.pod import ROOM

GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def node(
    name: str,
    *,
    gpus: int = 0,
    used: int = 0,
    cpu: str = "8",
    memory: str = "32Gi",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> fit.Node:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    item = {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }
    busy = {"spec": {"containers": [{"resources": {"limits": {GPU: used}}}]}}
    return fit.read_node(item, fit.requests_of(busy["spec"]))


def pod(*, gpus: int = 0, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> dict[str, Any]:
    limits = {GPU: gpus} if gpus else {}
    container = {"resources": {"limits": limits, "requests": {"cpu": cpu, "memory": memory}}}
    return {"metadata": {}, "spec": {"containers": [container], **spec}}


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [one]} for one in expressions]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": rule}}


A100 = affinity({"key": "gpu-type", "operator": "In", "values": ["a100"]})

CASES = [
    pytest.param(
        [node("node-a", gpus=2, used=1), node("node-b", gpus=4, used=3)],
        pod(gpus=2),
        "It needs 2 GPUs on one node; node-a has 1 free, node-b 1 free.",
        id="fragments",
    ),
    pytest.param(
        [node(f"node-{i}", gpus=2, used=1) for i in range(5)],
        pod(gpus=2),
        "It needs 2 GPUs on one node; node-0 has 1 free, node-1 1 free, node-2 1 free and 2 more; "
        "5 free in all, but not on one node.",
        id="many fragments",
    ),
    pytest.param(
        [node("node-a", gpus=4, used=4), node("node-b", gpus=4, used=2)],
        pod(gpus=3),
        "It needs 3 GPUs on one node; node-b has 2 free, node-a 0 free.",
        id="the best first",
    ),
    pytest.param(
        [node("node-a", gpus=4, used=4), node("node-b")],
        pod(gpus=8),
        "It needs 8 GPUs on one node; the biggest that is open to it has 4 GPUs in all.",
        id="never",
    ),
    pytest.param(
        [node("node-a", gpus=1, used=1)],
        pod(gpus=1),
        "It needs 1 GPU on one node; node-a has 0 free.",
        id="one GPU",
    ),
    pytest.param(
        [node("node-a", gpus=1, used=3)],
        pod(gpus=1),
        "It needs 1 GPU on one node; node-a has 0 free.",
        id="an overdrawn node has nothing, not less",
    ),
    pytest.param(
        [node("node-a", cpu="1500m"), node("node-b", cpu="2")],
        pod(cpu="2500m"),
        "It needs 2.5 CPUs on one node; the biggest that is open to it has 2 CPUs in all.",
        id="CPUs",
    ),
    pytest.param(
        [node("node-a", memory="2Gi")],
        pod(memory="8Gi"),
        "It needs 8.0 GiB of memory on one node; "
        "the biggest that is open to it has 2.0 GiB of memory in all.",
        id="memory",
    ),
    pytest.param(
        [node("node-a", gpus=4, used=3, memory="64Gi"), node("node-b", gpus=4, memory="16Gi")],
        pod(gpus=2, memory="32Gi"),
        "It needs 2 GPUs and 32.0 GiB of memory on one node; node-a has 1 GPU free, "
        "node-b 16.0 GiB of memory free.",
        id="each node lacks something else",
    ),
    pytest.param(
        [node("node-a", gpus=2, used=1), node("node-b", gpus=2, unschedulable=True)],
        pod(gpus=2),
        "It needs 2 GPUs on one node; node-a has 1 free; not open to it: node-b (room, but cordoned).",
        id="a cordoned node with room",
    ),
    pytest.param(
        [node("node-a", gpus=2, used=1), node("node-b", taints=[GPU_TAINT])],
        pod(gpus=2),
        "It needs 2 GPUs on one node; node-a has 1 free.",
        id="a closed node without room is not worth a word",
    ),
    pytest.param(
        [
            node("node-a", taints=[GPU_TAINT]),
            node("node-b", unschedulable=True),
            node("node-c", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
            node("node-d"),
        ],
        pod(nodeSelector={"zone": "b"}),
        "No node is open to it: node-a is tainted gpu=yes:NoSchedule, node-b is cordoned, "
        "node-c is not ready and 1 more.",
        id="all closed",
    ),
    pytest.param(
        [node("node-a", gpus=2, labels={"gpu-type": "t4"})],
        pod(gpus=2, **A100),
        "No node is open to it: node-a is not among those it asks for.",
        id="affinity",
    ),
    pytest.param(
        [node("node-a", gpus=2, labels={"gpu-type": "a100"}), node("node-b", gpus=2)],
        pod(gpus=2, **A100),
        "node-a has room for it now.",
        id="room",
    ),
    pytest.param(
        [node("node-a", taints=[GPU_TAINT]), node("node-b", taints=[{**GPU_TAINT, "value": "no"}])],
        pod(tolerations=[{"key": "gpu", "operator": "Equal", "value": "yes"}]),
        "node-a has room for it now.",
        id="a taint that is tolerated",
    ),
    pytest.param(
        [node("node-a", taints=[{"key": "soft", "effect": "PreferNoSchedule"}]), node("node-b")],
        pod(tolerations=[{"operator": "Exists"}]),
        "node-a, node-b have room for it now.",
        id="a taint that is only a wish",
    ),
    pytest.param([], pod(), "The cluster has no nodes.", id="no nodes"),
]


@pytest.mark.parametrize(("nodes", "waiting", "words"), CASES)
def test_what_is_short_where(nodes: list[fit.Node], waiting: dict[str, Any], words: str) -> None:
    assert fit.explain(nodes, fit.read_wanted(waiting)) == words


def test_a_node_takes_so_many_pods() -> None:
    full = fit.read_node(
        {
            "metadata": {"name": "node-a"},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "1"}},
        },
        fit.requests_of({"containers": []}),
    )
    words = "It needs 1 place for a pod on one node; node-a has 0 free."
    assert fit.explain([full], fit.read_wanted(pod())) == words


@pytest.mark.parametrize(
    ("expression", "value", "holds"),
    [
        ({"operator": "In", "values": ["a"]}, "a", True),
        ({"operator": "In", "values": ["a"]}, None, False),
        ({"operator": "NotIn", "values": ["a"]}, None, True),
        ({"operator": "NotIn", "values": ["a"]}, "a", False),
        ({"operator": "Exists"}, "a", True),
        ({"operator": "Exists"}, None, False),
        ({"operator": "DoesNotExist"}, None, True),
        ({"operator": "Gt", "values": ["3"]}, "10", True),
        ({"operator": "Lt", "values": ["3"]}, "10", False),
        ({"operator": "Gt", "values": ["3"]}, "many", False),
    ],
)
def test_a_node_is_chosen_as_the_scheduler_chooses(
    expression: dict[str, Any], value: str | None, holds: bool
) -> None:
    labels = {} if value is None else {"x": value}
    wanted = fit.read_wanted(pod(**affinity({"key": "x", **expression})))
    said = fit.explain([node("node-a", labels=labels)], wanted)
    assert (said == "node-a has room for it now.") is holds


def test_requests_add_up_as_in_the_scheduler() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), container("500m")],
        "initContainers": [container("1", restartPolicy="Always"), container("4")],
        "overhead": {"cpu": "250m"},
    }
    assert fit.requests_of(spec) == {"cpu": Decimal("5.25"), "pods": 1}


# when nodes are looked at


class Lists:
    """An API server with one node of two GPUs and one in use."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refusal: ApiError | None = None
        self.free = 1

    async def list(self, resource: Resource, namespace: str | None, **params: str) -> Object:
        assert namespace is None
        self.asked.append(resource.plural)
        if self.refusal is not None:
            raise self.refusal
        if resource.plural == "pods":
            item = {**pod(gpus=2 - self.free), "metadata": {"uid": "x"}}
            item["spec"]["nodeName"] = "node-a"
        else:
            item = {
                "metadata": {"name": "node-a"},
                "status": {"allocatable": {GPU: "2", "cpu": "8", "memory": "8Gi", "pods": "9"}},
            }
        return {"items": [item], "metadata": {}}


def test_who_is_placed_with_others_hears_that_one_place_is_not_enough() -> None:
    member = pod(gpus=1) | {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "gang"}}}
    said = fit.explain([node("node-a", gpus=1)], fit.read_wanted(member))
    assert said == "node-a has room for one member; all must fit at once."


class Desk:
    def __init__(self) -> None:
        self.now = 0.0
        self.api = Lists()
        self.told: list[str] = []
        self.fit = NodeFit(cast(Api, self.api), self._hear, self._work, clock=lambda: self.now)

    def _hear(self, item: Object, there: bool) -> None:
        condition = item["status"]["conditions"][0] if there else {"message": "gone"}
        words = [condition["message"].rstrip("."), condition.get(ROOM)]
        self.told.append(". ".join(filter(None, words)))

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    def sees(self, uid: str, message: str = "0/1 nodes are available") -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        status = {"conditions": [condition]}
        self.fit.see({**pod(gpus=2), "metadata": {"uid": uid}, "status": status}, True)


OURS = "It needs 2 GPUs on one node; node-a has 1 free."


def test_a_pod_without_a_place_is_told_at_once_and_again_with_the_reason() -> None:
    desk = Desk()
    desk.sees("u1")
    assert desk.told == ["0/1 nodes are available", f"0/1 nodes are available. {OURS}"]


def test_one_look_serves_all_pods_of_the_next_seconds() -> None:
    desk = Desk()
    for number in range(10):
        desk.sees(f"u{number}")
    assert desk.api.asked == ["pods", "nodes"]
    assert desk.told.count(f"0/1 nodes are available. {OURS}") == 10
    desk.now += FRESH
    desk.sees("another")
    assert desk.api.asked == ["pods", "nodes"] * 2


def test_nodes_are_looked_at_again_only_when_the_scheduler_says_something_new() -> None:
    desk = Desk()
    desk.sees("u1")
    desk.now += 1000
    desk.sees("u1")
    assert desk.api.asked == ["pods", "nodes"]
    assert desk.told[-1] == f"0/1 nodes are available. {OURS}"
    desk.api.free = 0
    desk.sees("u1", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert desk.api.asked == ["pods", "nodes"] * 2
    assert desk.told[-1] == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        "It needs 2 GPUs on one node; node-a has 0 free."
    )


def test_without_the_right_pods_pass_as_they_are() -> None:
    desk = Desk()
    desk.api.refusal = ApiError(403, "Forbidden", "no")
    desk.sees("u1")
    desk.sees("u2")
    assert desk.told == ["0/1 nodes are available"] * 2
    assert desk.api.asked == ["pods"]
    desk.api.refusal = None
    desk.now += LOOK_AGAIN
    desk.sees("u3")
    assert desk.told[-1] == f"0/1 nodes are available. {OURS}"


def test_a_pod_that_went_is_passed_on() -> None:
    desk = Desk()
    desk.sees("u1")
    desk.fit.see({"metadata": {"uid": "u1"}, "unseen": True}, False)
    assert desk.told[-1] == "gone"
