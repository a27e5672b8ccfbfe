"""Adds to the scheduler's words which nodes have how much room, where the agent may look at all nodes.

It stands between a watch of pods and who listens to it: a pod without a place is passed on at once, and once
more with the sentence when the nodes have been looked at. They are looked at when the scheduler says
something new, not by the clock, and one look serves all pods of the next seconds. Without the right to look,
pods pass unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from muster.engine.kubernetes import fit
from muster.engine.kubernetes.api import Api, ApiError, Object, Unreachable
from muster.engine.kubernetes.nodes import Nodes
from muster.engine.kubernetes.pod import ROOM
from muster.engine.kubernetes.watch import Listener

log = structlog.get_logger()
LOOK_AGAIN = 300.0  #: seconds until it is tried again what was not allowed


class NodeFit:
    def __init__(
        self,
        api: Api,
        listener: Listener,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = listener
        self._spawn = spawn
        self._clock = clock
        self._waiting: dict[str, Object] = {}  #: uid → a pod without a place, as last seen
        self._known: dict[str, tuple[str, str]] = {}  #: uid → the scheduler's words, and ours about them
        self._looking = False
        self._nodes = Nodes(api, clock=clock)
        self._not_before = float("-inf")

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
                nodes = await self._nodes.look()
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
