"""What a cluster has: its nodes with what is free there, and the volume claims of the namespaces served.

It is looked at when something of ours changed there, not by the clock alone: while nothing happens, hardly
anything is asked. What the agent may not see is left out, and tried again now and then.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TypeVar

import structlog

from muster.domain.cluster import MOST, Cluster, Node, VolumeClaim
from muster.domain.errors import BadQuantity
from muster.domain.resources import Resources, parse_quantity
from muster.engine.kubernetes import fit
from muster.engine.kubernetes.api import Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.nodes import Nodes, every

T = TypeVar("T")
log = structlog.get_logger()
STALE = 300.0  #: seconds until all is looked at again, though nothing of ours changed: others change things
LOOK_AGAIN = 300.0  #: seconds until it is tried again what was not allowed
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim", namespaced=True
)
_GPU_MODELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name")


class ClusterLook:
    def __init__(self, api: Api, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._nodes = Nodes(api, clock=clock)
        self._due = float("-inf")
        self._not_before: dict[str, float] = {}  #: what was not allowed → when it is tried again

    def stir(self) -> None:
        """Something of ours came, went or found its place: what is free has changed."""
        self._due = float("-inf")

    async def look(self) -> Cluster | None:
        """None: there is nothing new, or nothing that may be seen."""
        now = self._clock()
        if now < self._due:
            return None
        self._due = now + STALE
        try:
            nodes = await self._if_allowed("nodes", self._see_nodes)
            claims = await self._if_allowed("claims", self._see_claims)
        except (ApiError, Unreachable) as error:
            log.info("the cluster could not be looked at", reason=str(error))
            return None
        if nodes is None and claims is None:
            return None
        return Cluster(namespace=self._api.connection.namespace, nodes=nodes, claims=claims)

    async def _if_allowed(self, what: str, look: Callable[[], Awaitable[T]]) -> T | None:
        now = self._clock()
        if now < self._not_before.get(what, now):
            return None
        try:
            return await look()
        except ApiError as error:
            if error.status not in (401, 403):
                raise
            self._not_before[what] = now + LOOK_AGAIN
            return None

    async def _see_nodes(self) -> tuple[Node, ...]:
        return tuple(told(node) for node in (await self._nodes.look())[:MOST])

    async def _see_claims(self) -> tuple[VolumeClaim, ...]:
        found: list[VolumeClaim] = []
        for namespace in self._api.connection.namespaces:
            found += [read_claim(item) async for item in every(self._api, CLAIMS, namespace)]
        return tuple(found[:MOST])


def told(node: fit.Node) -> Node:
    models = (node.labels[label] for label in _GPU_MODELS if label in node.labels)
    used = {what: number - node.free.get(what, Decimal(0)) for what, number in node.total.items()}
    return Node(
        name=node.name,
        closed=fit.closed_to_all(node),
        gpu=next(models, ""),
        total=_resources(node.total),
        free=_resources(node.free),
        pods=int(used.get(fit.PLACES, 0)),
    )


def _resources(amounts: fit.Amounts) -> Resources:
    """Not below nothing: a node that shrank has more asked of it than it has."""
    gpus = sum((number for what, number in amounts.items() if what.endswith("/gpu")), Decimal(0))
    return Resources(
        millicpus=max(0, int(amounts.get("cpu", Decimal(0)) * 1000)),
        memory=max(0, int(amounts.get("memory", Decimal(0)))),
        gpus=max(0, int(gpus)),
    )


def read_claim(item: Object) -> VolumeClaim:
    status = item.get("status") or {}
    try:
        size = int(parse_quantity((status.get("capacity") or {}).get("storage", 0)))
    except BadQuantity:
        size = 0
    return VolumeClaim(
        namespace=item["metadata"]["namespace"],
        name=item["metadata"]["name"],
        size=size,
        modes=tuple(item.get("spec", {}).get("accessModes") or ()),
        bound=status.get("phase") == "Bound",
    )
