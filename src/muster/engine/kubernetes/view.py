"""What of Muster's is in the cluster: workloads and pods of all attempts, kept current by watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

import structlog

from muster.domain.errors import CannotPlace
from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.access import KindName
from muster.engine.kubernetes.api import EVENTS, JOBS, PODS, Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.attempt import Workload
from muster.engine.kubernetes.kinds import kind_of
from muster.engine.kubernetes.nodefit import NodeFit
from muster.engine.kubernetes.owners import Owners
from muster.engine.kubernetes.pod import RUN_LABEL, Pod, key_of, read_pod
from muster.engine.kubernetes.submit import read_workload
from muster.engine.kubernetes.watch import Listener, Watch

log = structlog.get_logger()
OURS, OTHERS = RUN_LABEL, f"!{RUN_LABEL}"  #: label selectors
SYNC_WAIT = 20.0  #: seconds for the first look at the cluster
GONE_WAIT = 60.0  #: seconds for what was deleted to be gone


class Audience(Protocol):
    """Who is told what changes."""

    def saw_workload(self, key: AttemptKey, workload: Workload, *, there: bool) -> None: ...

    def saw_pod(self, pod: Pod, *, there: bool) -> None: ...

    def saw_event(self, item: Object) -> None: ...


class View:
    def __init__(self, api: Api, audience: Audience, kinds: Sequence[KindName] = ()) -> None:
        """`kinds`: of workloads there may be, beside Jobs. Others are looked at from their first use on."""
        self._api = api
        self._audience = audience
        self._unfound = list(kinds)
        self._finding = asyncio.Lock()
        self._owners = Owners(api, self._pod, self._spawn)
        self._watches: dict[tuple[Resource, str, str], Watch] = {}
        self._always: list[Watch] = []  #: those without which nothing can be said of any run
        self._tasks: set[asyncio.Task[None]] = set()
        self._workloads: dict[AttemptKey, dict[str, Workload]] = {}  #: key → uid → as last seen
        self._pods: dict[AttemptKey, dict[str, Pod]] = {}
        self._changed = asyncio.Event()

    async def ready(self) -> None:
        """Until all there is has been seen once. What may not be read is named, instead of waited for."""
        if not self._watches:
            fit = NodeFit(self._api, self._pod, self._spawn)
            for namespace in self._api.connection.namespaces:
                self._always.append(self._watch(PODS, namespace, fit.see))
                self._watch(EVENTS, namespace, self._event, selector="")
            self._always += self._watch_workloads(JOBS)
        await self._find_kinds()
        await self._seen(self._always)

    async def include(self, resource: Resource) -> None:
        """Look at workloads of this kind too."""
        await self._seen(self._watch_workloads(resource))

    async def _seen(self, watches: Sequence[Watch]) -> None:
        silent = f"the cluster at {self._api.connection.server} does not answer"
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_WAIT):
                for watch in watches:
                    await watch.answered.wait()
        blind = [watch for watch in watches if not watch.synced.is_set()]
        if blind:
            refused = [watch.refused.message for watch in blind if watch.refused]
            raise CannotPlace(
                f"What runs in the cluster cannot be seen: {refused[0] if refused else silent}."
            )

    def attempts(self) -> list[AttemptKey]:
        """Attempts of which there is something."""
        return [*dict.fromkeys([*self._workloads, *self._pods])]

    def workloads(self, key: AttemptKey) -> list[Workload]:
        return list(self._workloads.get(key, {}).values())

    def pods(self, key: AttemptKey) -> list[Pod]:
        return list(self._pods.get(key, {}).values())

    def made(self, key: AttemptKey, workload: Workload) -> Workload:
        """It was just created, or changed by us; returns the newest that is known of it."""
        return self._workloads.setdefault(key, {}).setdefault(workload.uid, workload)

    def missed(self, key: AttemptKey, uid: str) -> None:
        """It turned out to be gone: its watch will say so, or has said it before it was known."""
        _remove(self._workloads, key, uid)
        _remove(self._pods, key, uid)

    async def until(self, done: Callable[[], bool]) -> None:
        """Until that holds, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GONE_WAIT):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _watch_workloads(self, resource: Resource) -> list[Watch]:
        def saw(item: Object, there: bool) -> None:
            self._workload(resource, item, there)

        watches = []
        for namespace in self._api.connection.namespaces:
            if resource != PODS:
                watches.append(self._watch(resource, namespace, saw))
            if kind_of(resource.api_version, resource.kind).is_foreign:
                watches.append(self._watch(PODS, namespace, self._owners.see, selector=OTHERS))
        return watches

    async def _find_kinds(self) -> None:
        """Look at all kinds that this agent is said to run, as far as the cluster has them."""
        async with self._finding:
            while self._unfound:
                kind = self._unfound[0]
                try:
                    resource = await self._api.named(kind.group, kind.plural)
                except (ApiError, Unreachable):
                    return  # so nothing can be seen: whoever waits for the watches hears why
                if resource is None:
                    log.warning("the cluster does not have this kind", kind=str(kind))
                else:
                    self._always += self._watch_workloads(resource)
                self._unfound.pop(0)

    def _watch(self, resource: Resource, namespace: str, saw: Listener, *, selector: str = OURS) -> Watch:
        place = resource, namespace, selector
        if place not in self._watches:
            asked = {"labelSelector": selector} if selector else {}
            watch = self._watches[place] = Watch(self._api, resource, namespace, saw, selector=asked)
            self._spawn(watch.run())
        return self._watches[place]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _workload(self, resource: Resource, item: Object, there: bool) -> None:
        key, uid = key_of(item), item["metadata"]["uid"]
        if key is None or item["metadata"].get("ownerReferences"):  # a helper, or another's child
            return
        known = self._workloads.get(key, {}).get(uid)
        workload = known if item.get("unseen") else read_workload(resource, item)
        if there and workload is not None:
            self._workloads.setdefault(key, {})[uid] = workload
        else:
            _remove(self._workloads, key, uid)
        self._changed.set()
        if workload is not None:
            self._audience.saw_workload(key, workload, there=there)

    def _pod(self, item: Object, there: bool, key: AttemptKey | None = None) -> None:
        key, uid = key or key_of(item), item["metadata"]["uid"]
        if key is None:
            return
        pod = self._pods.get(key, {}).get(uid) if item.get("unseen") else read_pod(item, key)
        if there and pod is not None:
            self._pods.setdefault(key, {})[uid] = pod
        else:
            _remove(self._pods, key, uid)
        self._changed.set()
        if pod is not None:
            self._audience.saw_pod(pod, there=there)
        self._workload(PODS, item, there)  # a pod that nothing owns is a run of its own

    def _event(self, item: Object, there: bool) -> None:
        if there:
            self._audience.saw_event(item)


def _remove(
    where: dict[AttemptKey, dict[str, Pod]] | dict[AttemptKey, dict[str, Workload]], key: AttemptKey, uid: str
) -> None:
    found = where.get(key)
    if found is not None:
        found.pop(uid, None)
        if not found:
            where.pop(key)
