"""A look at all nodes of a cluster, and at what the pods there ask for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from decimal import Decimal

from muster.engine.kubernetes import fit
from muster.engine.kubernetes.api import PODS, Api, Object, Resource

FRESH = 5.0  #: seconds for which a look is good enough …
SPARING = 20  #: … or this many times as long as it took, in a big cluster
PAGE = "500"
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
_LIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class Nodes:
    def __init__(self, api: Api, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._seen: list[fit.Node] = []
        self._fresh_until = float("-inf")

    async def look(self) -> list[fit.Node]:
        """One look serves all who ask in the next seconds. Raises `ApiError` where it is not allowed."""
        started = self._clock()
        if started < self._fresh_until:
            return self._seen
        used: dict[str, dict[str, Decimal]] = {}
        async for pod in every(self._api, PODS, fieldSelector=_LIVE):
            fit.add(used.setdefault(pod["spec"]["nodeName"], {}), fit.requests_of(pod["spec"]))
        self._seen = [
            fit.read_node(node, used.get(node["metadata"]["name"], {}))
            async for node in every(self._api, NODES)
        ]
        now = self._clock()
        self._fresh_until = now + max(FRESH, SPARING * (now - started))
        return self._seen


async def every(
    api: Api, resource: Resource, namespace: str | None = None, **params: str
) -> AsyncIterator[Object]:
    """Of the whole cluster or of a namespace, a page at a time: there may be more than fits into memory."""
    while True:
        answer = await api.list(resource, namespace, **params, limit=PAGE)
        for item in answer.get("items") or ():
            yield item
        if not (more := answer["metadata"].get("continue")):
            return
        params["continue"] = more
