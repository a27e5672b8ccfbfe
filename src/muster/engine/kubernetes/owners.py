"""Finding the run of a pod that bears none of its labels, by who owns it.

Kinds that Muster does not know may make pods of their own devising, and through other objects: a TrainJob has
a JobSet, which has Jobs, which have pods. Owners are climbed until one bears the labels of a run. Who owns
whom never changes, so each owner is asked for once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import structlog

from muster.domain.errors import MusterError
from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.api import Api, ApiError, Object, Unreachable
from muster.engine.kubernetes.pod import key_of

log = structlog.get_logger()
MAX_DEPTH = 8
MAX_KNOWN = 20_000

Told: TypeAlias = Callable[[Object, bool, AttemptKey], None]


class Owners:
    def __init__(self, api: Api, tell: Told, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._api = api
        self._tell = tell
        self._spawn = spawn
        self._pods: dict[str, AttemptKey] = {}  #: uid of a pod that is there → its run
        self._asked: dict[str, Object] = {}  #: uid of a pod whose owner is being looked for → as last seen
        self._known: OrderedDict[str, AttemptKey | None] = OrderedDict()  #: uid of an owner → its run

    def see(self, item: Object, there: bool) -> None:
        """A pod without labels of ours was seen, or was seen to go."""
        uid = item["metadata"]["uid"]
        key = self._pods.get(uid)
        if key is not None:
            if not there:
                del self._pods[uid]
            self._tell(item, there, key)
        elif not there:
            self._asked.pop(uid, None)
        elif _owner_of(item) is not None:
            is_new = uid not in self._asked
            self._asked[uid] = item
            if is_new:
                self._spawn(self._look_for(uid, item))

    async def _look_for(self, uid: str, item: Object) -> None:
        try:
            key = await self._climb(item)
        except Unreachable:
            key = None  # asked again when the pod changes
        newest = self._asked.pop(uid, None)
        if key is not None and newest is not None:
            self._pods[uid] = key
            self._tell(newest, True, key)

    async def _climb(self, item: Object) -> AttemptKey | None:
        passed: list[str] = []
        key: AttemptKey | None = None
        namespace = item["metadata"]["namespace"]
        for _ in range(MAX_DEPTH):
            owner = _owner_of(item)
            if owner is None:
                break
            if owner["uid"] in self._known:
                key = self._known[owner["uid"]]
                break
            passed.append(owner["uid"])
            found = await self._get(owner, namespace)
            if found is None:
                break
            key = key_of(found)
            if key is not None:
                break
            item = found
        for uid in passed:
            self._known[uid] = key
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return key

    async def _get(self, owner: Object, namespace: str) -> Object | None:
        try:
            resource = await self._api.resource(owner["apiVersion"], owner["kind"])
            if not resource.namespaced:
                return None
            found = await self._api.get(resource, namespace, owner["name"])
        except (ApiError, MusterError) as error:
            words = error.message if isinstance(error, ApiError) else error.detail
            log.warning("whose pods these are cannot be found", owner=owner["name"], reason=words)
            return None
        return found if found is not None and found["metadata"]["uid"] == owner["uid"] else None


def _owner_of(item: Object) -> Object | None:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)
