"""Adds to the scheduler's words which nodes have how much room, where the agent may look at all nodes.

It stands between a watch of pods and who listens to it: a pod without a place is passed on at once, and once
more with the sentence when the nodes have been looked at. They are looked at when the scheduler says
something new, not by the clock, and one look serves all pods of the next seconds. Without the right to look,
pods pass unchanged.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine
from decimal import Decimal
from typing import Any

import structlog

from muster.engine.kubernetes import fit
from muster.engine.kubernetes.api import PODS, Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.pod import ROOM
from muster.engine.kubernetes.watch import Listener

log = structlog.get_logger()
FRESH = 5.0  #: seconds for which a look is good enough …
SPARING = 20  #: … or this many times as long as it took, in a big cluster
LOOK_AGAIN = 300.0  #: seconds until it is tried again what was not allowed
PAGE = "500"
NODES = Resource(group="", version="v1", plural="nodes", kind="Node", namespaced=False)
_LIVE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class NodeFit:
    def __init__(
        self,
        api: Api,
        listener: Listener,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._tell = listener
        self._spawn = spawn
        self._clock = clock
        self._waiting: dict[str, Object] = {}  #: uid → a pod without a place, as last seen
        self._known: dict[str, tuple[str, str]] = {}  #: uid → the scheduler's words, and ours about them
        self._looking = False
        self._nodes: list[fit.Node] = []
        self._fresh_until = self._not_before = float("-inf")

    def see(self, item: Object, there: bool) -> None:
        """Told by the watch."""
        uid, words = item["metadata"]["uid"], _unplaced(item) if there else ""
        if not words:
            self._waiting.pop(uid, None)
            self._known.pop(uid, None)
            self._tell(item, there)
            return
        self._waiting[uid] = item
        told, ours = self._known.get(uid, ("", ""))
        self._tell(_with(item, ours) if ours else item, True)
        if told != words and not self._looking and self._clock() >= self._not_before:
            self._looking = True
            self._spawn(self._look())

    async def _look(self) -> None:
        """Until there is a sentence about every pod that waits."""
        try:
            while unknown := [uid for uid in self._waiting if not self._is_known(uid)]:
                nodes = await self._see_nodes()
                for uid in unknown:
                    if uid in self._waiting:
                        self._judge(uid, nodes)
        except ApiError as error:
            if error.status not in (401, 403):
                log.warning("cannot look at the nodes", reason=error.message)
            self._not_before = self._clock() + LOOK_AGAIN
        except Unreachable:
            pass  # the next word of the scheduler is soon enough
        finally:
            self._looking = False

    def _is_known(self, uid: str) -> bool:
        return self._known.get(uid, ("", ""))[0] == _unplaced(self._waiting[uid])

    def _judge(self, uid: str, nodes: list[fit.Node]) -> None:
        item = self._waiting[uid]
        _, before = self._known.get(uid, ("", ""))
        sentence = fit.explain(nodes, fit.read_wanted(item))
        self._known[uid] = (_unplaced(item), sentence)
        if sentence != before:
            self._tell(_with(item, sentence), True)

    async def _see_nodes(self) -> list[fit.Node]:
        started = self._clock()
        if started < self._fresh_until:
            return self._nodes
        used: dict[str, dict[str, Decimal]] = {}
        async for pod in self._all(PODS, fieldSelector=_LIVE):
            fit.add(used.setdefault(pod["spec"]["nodeName"], {}), fit.requests_of(pod["spec"]))
        self._nodes = [
            fit.read_node(node, used.get(node["metadata"]["name"], {})) async for node in self._all(NODES)
        ]
        now = self._clock()
        self._fresh_until = now + max(FRESH, SPARING * (now - started))
        return self._nodes

    async def _all(self, resource: Resource, **params: str) -> AsyncIterator[Object]:
        """Of the whole cluster, a page at a time: it may have more pods than fit into memory."""
        while True:
            answer = await self._api.list(resource, None, **params, limit=PAGE)
            for item in answer.get("items") or ():
                yield item
            if not (more := answer["metadata"].get("continue")):
                return
            params["continue"] = more


def _unplaced(item: Object) -> str:
    """The scheduler's words about a pod that it found no place for."""
    if item.get("unseen") or item["spec"].get("nodeName"):
        return ""
    for condition in item.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "") if condition.get("reason") == "Unschedulable" else ""
    return ""


def _with(item: Object, sentence: str) -> Object:
    """The same pod, with our words beside those of the scheduler."""
    conditions = [
        {**one, ROOM: sentence} if one["type"] == "PodScheduled" else one
        for one in item["status"]["conditions"]
    ]
    return {**item, "status": {**item["status"], "conditions": conditions}}
