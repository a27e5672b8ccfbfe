"""Runs attempts as objects of a cluster; what must hold is said in `submit`, `attempt`, `watch`, `follow`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import structlog

from muster.domain.cluster import Cluster
from muster.domain.errors import Conflict, MusterError
from muster.domain.observation import (
    AttemptKey,
    Fact,
    Noted,
    Observation,
    Phase,
    PhaseSeen,
    ReplicaSeen,
    ReplicaState,
)
from muster.domain.resources import UNBOUNDED, Resources
from muster.engine.kubernetes.access import KindName
from muster.engine.kubernetes.api import Api, Object
from muster.engine.kubernetes.attempt import LINGERED, Attempt, Workload
from muster.engine.kubernetes.clusterlook import ClusterLook
from muster.engine.kubernetes.config import workload_kind
from muster.engine.kubernetes.connect import Connection
from muster.engine.kubernetes.happening import Happenings, group_id
from muster.engine.kubernetes.logbook import Logbook
from muster.engine.kubernetes.member import PATIENCE, Patience
from muster.engine.kubernetes.pod import Pod
from muster.engine.kubernetes.removal import Removal, persist
from muster.engine.kubernetes.submit import Parts, Submitter, translated
from muster.engine.kubernetes.usage import UsageMeter
from muster.engine.kubernetes.view import View
from muster.engine.port import NO_CONFIG, NO_LOGS, Inventory, LogEnd, Place, Rendered, Sample

log = structlog.get_logger()
KEEP = timedelta(seconds=60)  #: an ended run's objects stay that long, for people to look at
LOOK_AGAIN = 1.0  #: seconds between looks at what only time decides
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
        kinds: Sequence[KindName] = (),
        keep: timedelta = KEEP,
        patience: Patience = PATIENCE,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._connection = connection
        self._keep = keep
        self._patience = patience
        self._clock = clock
        self._api = Api(connection)
        self._view = View(self._api, self, kinds)
        self._submitter = Submitter(self._api, agent=agent)
        self._removal = Removal(self._api, self._submitter, self._view)
        self._logbook = Logbook(self._api, root.absolute())
        self._happenings = Happenings(clock)
        self._usage = UsageMeter(self._api)
        self._look = ClusterLook(self._api)
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._seen: asyncio.Queue[Observation | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    # what there is

    async def inventory(self) -> Inventory:
        where = self._connection
        return Inventory(
            host=urlsplit(where.server).netloc,
            locality=f"kubernetes/{where.cluster}/{where.namespace}",
            total=UNBOUNDED,
        )

    async def free(self) -> Resources:
        return UNBOUNDED  # the cluster's own scheduler places

    async def cluster(self) -> Cluster | None:
        return await self._look.look()

    async def check(self, rendered: Rendered) -> None:
        await self._submitter.check(rendered)

    # from start to end

    async def submit(self, rendered: Rendered, place: Place) -> None:
        await self._view.ready()
        key = rendered.key
        workload = Parts.of(rendered).workload
        await self._include(workload["apiVersion"], workload["kind"])
        await self._removal.make_room(key)
        made = await self._submitter.create(rendered, epoch=place.epoch, secrets=place.env)
        self._track(key, made, epoch=place.epoch)

    async def _include(self, version: str, kind: str) -> None:
        """Runs of this kind are looked at from now on, whether this agent was told of it or not."""
        with translated(f"the kind {kind}"):
            resource = await self._api.resource(version, kind)
        await self._view.include(resource)

    def observe(self) -> AsyncIterator[Observation]:
        return self._observations()

    async def adopt(
        self,
        key: AttemptKey,
        epoch: int,
        logs: Mapping[int, LogEnd] = NO_LOGS,
        config: Mapping[str, Any] = NO_CONFIG,
    ) -> bool:
        await self._view.ready()
        if config:
            await self._include(*workload_kind(config))
        attempt = self._attempts.get(key)
        for workload in self._view.workloads(key):
            if workload.partial and attempt is None:
                continue  # its start was broken off: it is started again, and that goes on with it
            with translated(f"run {key.run_id}"):
                taken = await self._submitter.take(workload, key, epoch=epoch)
            if attempt is None:
                self._logbook.go_on(key, logs)
                self._track(key, taken, epoch=epoch)
                return True
        if attempt is None:
            return False
        attempt.epoch = epoch
        for replica in attempt.told.values():
            self._tell(key, ReplicaSeen(replica=replica))
        return True

    async def stop(self, key: AttemptKey) -> None:
        attempt = self._attempts.get(key)
        if attempt is not None and not attempt.over:
            await self._end(attempt)

    async def forget(self, key: AttemptKey) -> None:
        attempt = self._attempts.pop(key, None)
        if attempt is not None:
            self._logbook.drop(attempt)

    async def clean(self, key: AttemptKey) -> None:
        attempt = self._attempts.get(key)
        if attempt is not None and not attempt.over:
            raise Conflict(f"Attempt {key.attempt} of run {key.run_id} still runs.", hint="Stop it first.")
        await self.forget(key)
        self._logbook.remove(key)
        left = self._view.workloads(key)
        if left:
            self._spawn(self._removal.remove_after(self._keep.total_seconds(), key, left))

    async def leftovers(self) -> list[AttemptKey]:
        await self._view.ready()
        return [*dict.fromkeys([*self._view.attempts(), *self._logbook.leftovers()])]

    async def discard(self, key: AttemptKey) -> None:
        await self._view.ready()
        await self.forget(key)
        await self._removal.remove_whole(key)
        self._logbook.remove(key)

    async def close(self) -> None:
        self._logbook.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._view.close()
        await self._api.close()
        self._seen.put_nowait(None)

    # logs and use

    def log_path(self, key: AttemptKey, rank: int) -> Path:
        return self._logbook.path(key, rank)

    def log_length(self, key: AttemptKey, rank: int) -> int:
        return self._logbook.length(key, rank)

    def log_mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        return self._logbook.mark(key, rank, offset)

    def error_files(self, key: AttemptKey, rank: int) -> list[Path]:
        return [self._logbook.error_path(key, rank)]

    async def usage(self) -> list[Sample]:
        return await self._usage.measure(self._attempts.values(), at=self._clock().timestamp())

    # what is seen (the audience of `View`)

    def saw_workload(self, key: AttemptKey, workload: Workload, *, there: bool) -> None:
        self._happenings.knows(workload.uid, key)
        attempt = self._attempts.get(key)
        if attempt is None or attempt.workload is None or attempt.workload.uid != workload.uid:
            return
        attempt.workload, attempt.gone = workload, not there
        self._review(attempt)

    def saw_pod(self, pod: Pod, *, there: bool) -> None:
        self._look.stir()
        self._happenings.knows(pod.uid, pod.key)
        if pod.group:
            self._happenings.knows(group_id(pod.namespace, pod.group), pod.key)
        attempt = self._attempts.get(pod.key)
        if attempt is not None:
            attempt.see_pod(pod, there=there, now=self._clock())
            self._review(attempt)

    def saw_event(self, item: Object) -> None:
        self._happenings.see(item)
        self._tell_happenings()

    # what follows from it

    def _track(self, key: AttemptKey, workload: Workload, *, epoch: int) -> None:
        attempt = self._attempts[key] = Attempt(
            key=key,
            epoch=epoch,
            members=workload.members,
            at_once=workload.at_once,
            patience=self._patience,
            workload=self._view.made(key, workload),
        )
        self._happenings.knows(workload.uid, key)
        for pod in self._view.pods(key):
            attempt.see_pod(pod, there=True, now=self._clock())
        self._review(attempt)
        self._tell_happenings()

    def _review(self, attempt: Attempt) -> None:
        """Tell what is new of an attempt, and do what follows from it."""
        if self._attempts.get(attempt.key) is not attempt:
            return
        self._logbook.follow(attempt, on_end=lambda: self._review(attempt))
        now = self._clock()
        for hopeless in attempt.give_up(now):
            log.warning("a pod does not come up", run=attempt.key.run_id, reason=hopeless)
        for replica in attempt.news(self._logbook.progress(attempt), now=now):
            if replica.state.ended:
                self._logbook.keep_error(attempt, replica.rank)
            self._tell(attempt.key, ReplicaSeen(replica=replica))
        if attempt.becomes_full():
            self._tell(attempt.key, PhaseSeen(phase=Phase.RUNNING))
        if attempt.lingers(now) and not (attempt.stopping or attempt.gone):
            attempt.stopping, attempt.because = True, LINGERED
            self._spawn(persist(lambda: self._end(attempt)))
        bad = next((one for one in attempt.told.values() if one.state in _BAD_ENDS), None)
        is_left = not attempt.over or bool(attempt.failed)  # what was given up on might still come up
        if bad is not None and is_left and not (attempt.stopping or attempt.gone):
            attempt.stopping, attempt.because = True, f"It was ended because rank {bad.rank} ended."
            self._spawn(persist(lambda: self._end(attempt)))

    async def _end(self, attempt: Attempt) -> None:
        """Ask for the end of the whole attempt; it comes as observations."""
        before, attempt.stopping = attempt.stopping, True  # first: its pods may end before we are answered
        try:
            if attempt.workload is not None and not attempt.gone:
                with translated(f"the end of run {attempt.key.run_id}"):
                    if not await self._submitter.remove(attempt.workload, epoch=attempt.epoch):
                        attempt.gone = True
            if attempt.gone:  # somebody took it away from above its pods
                await self._removal.remove(attempt.key)
        except MusterError:
            attempt.stopping = before
            raise
        self._review(attempt)

    def _tell_happenings(self) -> None:
        for key, happening in self._happenings.take(self._attempts):
            attempt = self._attempts[key]
            if happening.refuses_pods:
                attempt.refuse_pods(happening.words, final=happening.is_final, now=self._clock())
            if happening.holds_group:
                attempt.group = happening.words
            if happening.trouble is not None:
                attempt.see_trouble(happening.uid, happening.trouble, now=self._clock())
            self._review(attempt)
            level = "warning" if happening.is_warning else "info"
            self._tell(key, Noted(message=happening.sentence, level=level))

    async def _look_again(self) -> None:
        """Some things only time decides."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            for attempt in list(self._attempts.values()):
                if attempt.restless:
                    self._review(attempt)

    # plumbing

    def _tell(self, key: AttemptKey, fact: Fact) -> None:
        self._seen.put_nowait(Observation(key=key, at=self._clock(), fact=fact))

    async def _observations(self) -> AsyncIterator[Observation]:
        self._spawn(self._look_again())
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
