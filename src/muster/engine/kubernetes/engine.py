"""Runs attempts as objects of a cluster; what must hold is said in `submit`, `attempt`, `watch`, `follow`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from muster.domain.errors import CannotPlace, Conflict, MusterError, Overtaken
from muster.domain.observation import AttemptKey, Fact, Noted, Observation, ReplicaSeen, ReplicaState
from muster.domain.resources import UNBOUNDED, Resources
from muster.engine.kubernetes.api import EVENTS, JOBS, PODS, Api, Object, Resource
from muster.engine.kubernetes.attempt import Attempt, Workload
from muster.engine.kubernetes.connect import Connection
from muster.engine.kubernetes.course import kind_of
from muster.engine.kubernetes.follow import Follower, Spool
from muster.engine.kubernetes.happening import Happenings
from muster.engine.kubernetes.nodefit import NodeFit
from muster.engine.kubernetes.pod import RUN_LABEL, Pod, key_of, read_pod
from muster.engine.kubernetes.submit import Parts, Submitter, read_workload, translated
from muster.engine.kubernetes.usage import UsageMeter
from muster.engine.kubernetes.watch import Watch
from muster.engine.port import NO_LOGS, Inventory, LogEnd, Place, Rendered, Sample

log = structlog.get_logger()
OURS = {"labelSelector": RUN_LABEL}
SYNC_WAIT = 20.0  #: seconds for the first look at the cluster
KEEP = timedelta(seconds=60)  #: an ended run's objects stay that long, for people to look at
GONE_WAIT = 30.0  #: seconds for what is discarded to be gone
LOOK_AGAIN = 1.0  #: seconds between looks at what only time decides
TRY_AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)
_BAD_ENDS = (ReplicaState.FAILED, ReplicaState.LOST, ReplicaState.PREEMPTED)


class KubernetesEngine:
    """The `kubernetes` engine; see `muster.engine.port.Engine` for what each verb promises."""

    kind = "kubernetes"
    marks_logs = True

    def __init__(
        self,
        connection: Connection,
        root: Path,
        *,
        agent: str,
        keep: timedelta = KEEP,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._connection = connection
        self._root = root.absolute()
        self._keep = keep
        self._clock = clock
        self._api = Api(connection)
        self._submitter = Submitter(self._api, agent=agent)
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._workloads: dict[AttemptKey, dict[str, Workload]] = {}  #: all of ours, tracked or not
        self._pods: dict[AttemptKey, dict[str, Pod]] = {}
        self._spools: dict[tuple[AttemptKey, int], Spool] = {}
        self._ends: dict[AttemptKey, Mapping[int, LogEnd]] = {}
        self._followers: dict[str, Follower] = {}  #: pod uid → who copies its output
        self._happenings = Happenings(clock)
        self._usage = UsageMeter(self._api)
        self._watches: dict[tuple[Resource, str], Watch] = {}
        self._seen: asyncio.Queue[Observation | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()  #: something of ours in the cluster did
        self._started = False

    # what there is

    async def inventory(self) -> Inventory:
        await self._ready()
        where = self._connection
        return Inventory(
            host=urlsplit(where.server).netloc,
            locality=f"kubernetes/{where.cluster}/{where.namespace}",
            total=UNBOUNDED,
        )

    async def free(self) -> Resources:
        return UNBOUNDED  # the cluster's own scheduler places

    async def check(self, rendered: Rendered) -> None:
        await self._submitter.check(rendered)

    # from start to end

    async def submit(self, rendered: Rendered, place: Place) -> None:
        await self._ready()
        key = rendered.key
        await self._remove_older(key)
        with translated(f"run {key.run_id}"):
            workload = Parts.of(rendered).workload
            await self._watch_kind(await self._api.resource(workload["apiVersion"], workload["kind"]))
        made = await self._submitter.create(rendered, epoch=place.epoch, secrets=place.env)
        self._track(key, made, epoch=place.epoch)

    def observe(self) -> AsyncIterator[Observation]:
        return self._observations()

    async def adopt(self, key: AttemptKey, epoch: int, logs: Mapping[int, LogEnd] = NO_LOGS) -> bool:
        await self._ready()
        found = self._newest_workload(key)
        known = self._attempts.get(key)
        if found is None and known is None:
            return False
        if found is not None:
            with translated(f"run {key.run_id}"):
                found = await self._submitter.take(found, key, epoch=epoch)
        if known is not None:
            known.epoch = epoch
            for replica in known.told.values():
                self._tell(key, ReplicaSeen(replica=replica))
            return True
        if found is None:
            return False
        self._ends[key] = logs
        self._track(key, found, epoch=epoch)
        return True

    async def stop(self, key: AttemptKey) -> None:
        await self._ready()
        attempt = self._attempts.get(key)
        if attempt is None or attempt.over:
            return
        await self._end(attempt, because="")

    async def forget(self, key: AttemptKey) -> None:
        self._drop(key)

    async def clean(self, key: AttemptKey) -> None:
        attempt = self._attempts.get(key)
        if attempt is not None and not attempt.over:
            raise Conflict(f"Attempt {key.attempt} of run {key.run_id} still runs.", hint="Stop it first.")
        self._drop(key)
        shutil.rmtree(self._folder(key), ignore_errors=True)
        left = list(self._workloads.get(key, {}).values())
        if left:
            self._spawn(self._remove_later(left))

    async def leftovers(self) -> list[AttemptKey]:
        await self._ready()
        return [*dict.fromkeys([*self._workloads, *self._pods])]

    async def discard(self, key: AttemptKey) -> None:
        await self._ready()
        self._drop(key)
        shutil.rmtree(self._folder(key), ignore_errors=True)
        with translated(f"run {key.run_id}"):
            await self._remove_all(key)
        await self._until(lambda: key not in self._workloads and key not in self._pods)

    async def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.close()
        self._seen.put_nowait(None)

    # logs and use

    def log_path(self, key: AttemptKey, rank: int) -> Path:
        return self._folder(key) / f"{rank}.log"

    def log_mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        spool = self._spools.get((key, rank))
        found = spool.mark_at(offset) if spool else None
        return LogEnd(length=found[0], mark=found[1]) if found else None

    def error_files(self, key: AttemptKey, rank: int) -> list[Path]:
        return [self._folder(key) / f"{rank}.error"]

    async def usage(self) -> list[Sample]:
        return await self._usage.measure(self._attempts.values(), at=self._clock().timestamp())

    # seeing

    async def _ready(self) -> None:
        if not self._started:
            self._started = True
            fit = NodeFit(self._api, self._saw_pod, self._spawn)
            for namespace in self._connection.namespaces:
                self._watch(PODS, namespace, fit.see)
                self._watch(EVENTS, namespace, self._saw_event, everything=True)
            await self._watch_kind(JOBS)
            self._spawn(self._look_again())
        await self._synced()

    async def _watch_kind(self, resource: Resource) -> None:
        for namespace in self._connection.namespaces:
            if (resource, namespace) not in self._watches and resource != PODS:

                def saw(item: Object, there: bool, resource: Resource = resource) -> None:
                    self._saw_workload(resource, item, there)

                self._watch(resource, namespace, saw)
        await self._synced()

    def _watch(
        self,
        resource: Resource,
        namespace: str,
        saw: Callable[[Object, bool], None],
        *,
        everything: bool = False,
    ) -> None:
        watch = Watch(self._api, resource, namespace, saw, selector=None if everything else OURS)
        self._watches[resource, namespace] = watch
        self._spawn(watch.run())

    async def _synced(self) -> None:
        """Until all has been looked at once. What may not be read is named, instead of waited for."""
        waiting = [watch for (what, _), watch in self._watches.items() if what != EVENTS]
        try:
            async with asyncio.timeout(SYNC_WAIT):
                for watch in waiting:
                    await watch.synced.wait()
        except TimeoutError:
            refused = [watch.refused.message for watch in waiting if watch.refused]
            why = refused[0] if refused else f"the cluster at {self._connection.server} does not answer"
            raise CannotPlace(f"What runs in the cluster cannot be seen: {why}.") from None

    def _saw_workload(self, resource: Resource, item: Object, there: bool) -> None:
        key = key_of(item)
        if key is None or _is_companion(item):
            return
        uid = item["metadata"]["uid"]
        if there:
            self._workloads.setdefault(key, {})[uid] = read_workload(resource, item)
            self._happenings.knows(uid, key)
        else:
            _remove(self._workloads, key, uid)
        self._changed.set()
        attempt = self._attempts.get(key)
        if attempt is None or attempt.workload is None or attempt.workload.uid != uid:
            return
        if there:
            attempt.workload = self._workloads[key][uid]
        else:
            attempt.gone = True
            if not item.get("unseen"):
                attempt.workload = replace(
                    attempt.workload, status=kind_of(resource.api_version, resource.kind).read(item)
                )
        self._review(attempt)

    def _saw_pod(self, item: Object, there: bool) -> None:
        key = key_of(item)
        if key is None:
            return
        uid = item["metadata"]["uid"]
        pod = None if item.get("unseen") else read_pod(item)
        pod = pod or self._pods.get(key, {}).get(uid)
        if pod is None:
            return
        if there:
            self._pods.setdefault(key, {})[uid] = pod
            self._happenings.knows(uid, key)
        else:
            _remove(self._pods, key, uid)
        self._changed.set()
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.see_pod(pod, there=there, now=self._clock())
            self._review(attempt)

    def _saw_event(self, item: Object, there: bool) -> None:
        if there:
            self._happenings.see(item)
            self._tell_happenings()

    def _tell_happenings(self) -> None:
        for key, happening in self._happenings.take(self._attempts):
            attempt = self._attempts[key]
            if happening.refuses_pods and not attempt.pods:
                attempt.refuse_pods(happening.message, final=not happening.is_quota, now=self._clock())
                self._review(attempt)
            level = "warning" if happening.is_warning else "info"
            self._tell(key, Noted(message=happening.sentence, level=level))

    # judging

    def _track(self, key: AttemptKey, workload: Workload, *, epoch: int) -> None:
        kind = kind_of(workload.resource.api_version, workload.resource.kind)
        attempt = self._attempts[key] = Attempt(
            key=key, epoch=epoch, members=workload.members, kind=kind, workload=workload
        )
        seen = self._workloads.get(key, {}).get(workload.uid)
        if seen is not None:
            attempt.workload = seen
        else:  # it was just made: its watch will tell of it
            self._workloads.setdefault(key, {})[workload.uid] = workload
        self._happenings.knows(workload.uid, key)
        for pod in self._pods.get(key, {}).values():
            attempt.see_pod(pod, there=True, now=self._clock())
        self._review(attempt)
        self._tell_happenings()

    def _review(self, attempt: Attempt) -> None:
        """Tell what is new of an attempt, and do what follows from it."""
        if self._attempts.get(attempt.key) is not attempt:
            return
        self._follow(attempt)
        now = self._clock()
        for hopeless in attempt.give_up(now):
            log.warning("a pod does not come up", run=attempt.key.run_id, reason=hopeless)
        progress = {uid: one.progress() for uid, one in self._followers.items() if uid in attempt.pods}
        for replica in attempt.news(progress, now=now):
            if replica.state.ended:
                self._keep_error(attempt, replica.rank)
            self._tell(attempt.key, ReplicaSeen(replica=replica))
        ended_badly = [one for one in attempt.told.values() if one.state in _BAD_ENDS]
        if ended_badly and not attempt.over and not attempt.stopping and not attempt.gone:
            self._spawn(self._end_the_rest(attempt))

    def _follow(self, attempt: Attempt) -> None:
        for rank, pods in attempt.ranked().items():
            for pod in pods:
                follower = self._followers.get(pod.uid)
                if follower is None and any(one.begun for one in (*pod.inits, *pod.containers)):
                    spool = self._spool(attempt.key, rank)
                    follower = self._followers[pod.uid] = Follower(
                        self._api, pod, spool, on_end=lambda: self._review(attempt)
                    )
                if follower is not None:
                    follower.see(pod)

    def _spool(self, key: AttemptKey, rank: int) -> Spool:
        if (key, rank) not in self._spools:
            end = self._ends.get(key, NO_LOGS).get(rank, LogEnd(length=0))
            self._spools[key, rank] = Spool.open(self.log_path(key, rank), length=end.length, mark=end.mark)
        return self._spools[key, rank]

    def _keep_error(self, attempt: Attempt, rank: int) -> None:
        """What the launcher left as its root cause, where the cause is looked for."""
        pods = attempt.ranked().get(rank, [])
        ends = [one.ended for pod in pods[-1:] for one in pod.containers if one.ended and one.ended.message]
        if ends:
            with suppress(OSError):
                self._folder(attempt.key).mkdir(parents=True, exist_ok=True)
                (self._folder(attempt.key) / f"{rank}.error").write_text(ends[0].message)

    async def _look_again(self) -> None:
        """Some things only time decides."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            for attempt in list(self._attempts.values()):
                if attempt.restless:
                    self._review(attempt)

    # ending

    async def _end(self, attempt: Attempt, *, because: str) -> None:
        """Ask for the end of the whole attempt; it comes as observations."""
        with translated(f"the end of run {attempt.key.run_id}"):
            if attempt.workload is not None and not attempt.gone:
                there = await self._submitter.remove(attempt.workload, epoch=attempt.epoch)
                attempt.gone = not there
        attempt.stopping, attempt.because = True, because
        self._review(attempt)

    async def _end_the_rest(self, attempt: Attempt) -> None:
        first = next(one for one in attempt.told.values() if one.state in _BAD_ENDS)
        await self._persist(
            lambda: self._end(attempt, because=f"It was ended because rank {first.rank} ended.")
        )

    async def _remove_older(self, key: AttemptKey) -> None:
        """Nothing of an earlier attempt may be there when a new one starts."""
        older = [
            other
            for other in {*self._workloads, *self._pods}
            if other.run_id == key.run_id and other.attempt < key.attempt
        ]
        if not older:
            return
        for other in older:
            self._drop(other)
            with translated(f"run {key.run_id}"):
                await self._remove_all(other)
        left = [pod for other in older for pod in self._pods.get(other, {}).values() if not _is_beyond(pod)]
        if left or any(other in self._workloads for other in older):
            raise CannotPlace(f"An earlier attempt of run {key.run_id} is still going away.")

    async def _remove_all(self, key: AttemptKey) -> None:
        for workload in list(self._workloads.get(key, {}).values()):
            if not await self._submitter.remove(workload):
                _remove(self._workloads, key, workload.uid)
        if key not in self._workloads:
            for pod in list(self._pods.get(key, {}).values()):
                if pod.told_at is None and not await self._api.delete(
                    PODS, pod.namespace, pod.name, uid=pod.uid
                ):
                    _remove(self._pods, key, pod.uid)

    async def _remove_later(self, left: list[Workload]) -> None:
        await asyncio.sleep(self._keep.total_seconds())
        for workload in left:

            async def remove(workload: Workload = workload) -> None:
                with translated(f"{workload.resource.kind} {workload.name}"):
                    await self._submitter.remove(workload)

            await self._persist(remove)

    async def _persist(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until it is done, or refused for good."""
        tries = 0
        while True:
            try:
                return await act()
            except CannotPlace:
                await asyncio.sleep(TRY_AGAIN[min(tries, len(TRY_AGAIN) - 1)])
                tries += 1
            except Overtaken:
                return None
            except MusterError as error:
                log.error("could not remove", reason=error.detail)
                return None

    async def _until(self, done: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GONE_WAIT):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()

    # plumbing

    def _newest_workload(self, key: AttemptKey) -> Workload | None:
        found = list(self._workloads.get(key, {}).values())
        return found[-1] if found else None

    def _drop(self, key: AttemptKey) -> None:
        attempt = self._attempts.pop(key, None)
        self._ends.pop(key, None)
        if attempt is None:
            return
        for uid in attempt.pods:
            follower = self._followers.pop(uid, None)
            if follower is not None:
                follower.close()
        for rank in range(attempt.members):
            self._spools.pop((key, rank), None)

    def _folder(self, key: AttemptKey) -> Path:
        return self._root / f"{key.run_id}.{key.attempt}"

    def _tell(self, key: AttemptKey, fact: Fact) -> None:
        self._seen.put_nowait(Observation(key=key, at=self._clock(), fact=fact))

    async def _observations(self) -> AsyncIterator[Observation]:
        await self._ready()
        while (seen := await self._seen.get()) is not None:
            yield seen

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the engine failed", exc_info=task.exception())


def _remove(where: dict[AttemptKey, dict[str, Any]], key: AttemptKey, uid: str) -> None:
    found = where.get(key, {})
    found.pop(uid, None)
    if not found:
        where.pop(key, None)


def _is_companion(item: Object) -> bool:
    return bool(item["metadata"].get("ownerReferences"))


def _is_beyond(pod: Pod) -> bool:
    """Ended, or on a node that does not answer: nothing can be done about it from here."""
    return pod.over or bool(pod.disruption)
