"""Seeing what changes: one list, then one watch, for each kind and namespace, however many runs there are.

What holds:

1. Whoever listens hears of every object that is there, and of the last state of every object that goes:
   after a gap (the server forgot how far we were) everything is listed anew, and what is not in the list
   any more is told as gone.
2. `synced` is set once the first list was told, and stays set; `answered` also if the cluster said no to it.
3. A refusal or a silent server is tried again with growing pauses; nothing is asked while nothing changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import structlog

from muster.engine.kubernetes.api import Api, ApiError, Object, Resource, Unreachable

log = structlog.get_logger()
PAGE = "500"
GONE = 410
REFUSALS = (401, 403, 404)  #: which waiting alone does not change
#: seconds; shorter for a server that is away, which mostly means that it is being restarted
SILENT_PAUSE, REFUSED_PAUSE = (0.1, 5.0), (0.5, 60.0)

#: What listeners are told: the object, and whether it is still there.
Listener = Callable[[Object, bool], None]


class Watch:
    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str,
        listener: Listener,
        *,
        selector: Mapping[str, str] | None = None,
    ) -> None:
        """`selector` are parameters of the request: labelSelector, fieldSelector."""
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._tell = listener
        self._selector = dict(selector or {})
        self._there: dict[str, Object] = {}  #: uid → what is needed to tell that it is gone
        self._version: str | None = None  #: None: everything must be listed
        self.synced = asyncio.Event()
        self.answered = asyncio.Event()
        self.refused: ApiError | None = None  #: why nothing is seen just now

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                if self._version is None:
                    await self._list()
                self.refused, failures = None, 0
                self.synced.set()
                self.answered.set()
                await self._follow()
                continue
            except ApiError as error:
                if error.status == GONE:
                    self._version = None
                    continue
                if failures == 0:
                    log.warning("cannot watch", what=self._resource.plural, reason=error.message)
                self.refused = error
                if error.status in REFUSALS:
                    self.answered.set()
                pause = error.retry_after or _pause(REFUSED_PAUSE, failures)
                if error.status in (403, 404):  # rights or the kind itself may come back changed
                    self._version = None
            except Unreachable as error:
                if failures == 0:
                    log.warning("cannot watch", what=self._resource.plural, reason=str(error))
                pause = _pause(SILENT_PAUSE, failures)
            failures += 1
            await asyncio.sleep(pause)

    async def _list(self) -> None:
        found: dict[str, Object] = {}
        params = {**self._selector, "limit": PAGE}
        while True:
            answer = await self._api.list(self._resource, self._namespace, **params)
            for item in answer.get("items") or ():
                found[item["metadata"]["uid"]] = _brief(item)
                self._tell(item, True)
            more = answer["metadata"].get("continue")
            if not more:
                break
            params["continue"] = more
        gone = [item for uid, item in self._there.items() if uid not in found]
        self._there = found
        self._version = answer["metadata"]["resourceVersion"]
        for item in gone:
            self._tell(item, False)

    async def _follow(self) -> None:
        params = {**self._selector, "resourceVersion": self._version or ""}
        async for what, item in self._api.watch(self._resource, self._namespace, params):
            metadata = item["metadata"]
            self._version = metadata["resourceVersion"]
            if what == "BOOKMARK":
                continue
            there = what != "DELETED"
            if there:
                self._there[metadata["uid"]] = _brief(item)
            else:
                self._there.pop(metadata["uid"], None)
            self._tell(item, there)


def _brief(item: Object) -> Object:
    """As little as tells which object it was: what went unseen has no last state."""
    metadata = item["metadata"]
    kept = ("name", "namespace", "uid", "labels", "annotations", "ownerReferences")
    return {"metadata": {key: metadata[key] for key in kept if key in metadata}, "unseen": True}


def _pause(bounds: tuple[float, float], failures: int) -> float:
    first, most = bounds
    return min(most, first * 2.0 ** min(failures, 10)) * random.uniform(0.7, 1.0)  # noqa: S311 - jitter
