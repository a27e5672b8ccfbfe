"""The operator at work: three watches, and every job looked at when something of it changed.

What holds:

1. Nothing is planned before jobs, pods and services have been listed once.
2. A job is looked at by one task at a time, and not more often than once in `GAP`.
3. A cluster in which nothing changes is asked nothing: no timer ticks, no status is written twice.
4. Whatever fails is tried again with growing pauses, for the job it failed for; the others go on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from muster.domain.errors import ClusterRefused
from muster.engine.kubernetes.api import PODS, Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.watch import Listener, Watch
from muster.operator.desk import Desk
from muster.operator.hands import GROUPS, JOBS, SERVICES, Hands, Refused
from muster.operator.job import TrainingJob, read_job
from muster.operator.manifest import CRD, LABELS
from muster.operator.pod import OWNER_LABEL, owner_of
from muster.operator.reconcile import plan

log = structlog.get_logger()
GAP = 1.0  #: seconds
LONGEST_PAUSE = 60.0
_OURS = {"labelSelector": OWNER_LABEL}
_PART_OF = "app.kubernetes.io/part-of"


class Operator:
    def __init__(self, api: Api, namespaces: Sequence[str] = ()) -> None:
        """It serves these namespaces, or all of them."""
        self._api = api
        self._namespaces = tuple(namespaces)
        self._hands = Hands(api)
        self._desks: dict[str, Desk] = {}  #: by the uid of the job
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[None]
        self._groups_watched = False
        self._open = False  #: everything has been listed
        self.reconciles = 0

    async def run(self, stop: asyncio.Event, on_ready: Callable[[], None] = lambda: None) -> None:
        """Until it is told to stop. What it began goes on without it."""
        await self._check(stop)
        self._broken = asyncio.get_running_loop().create_future()
        halted = asyncio.create_task(stop.wait())
        self._go(self._open_up(on_ready))
        try:
            ends: set[asyncio.Future[Any]] = {halted, self._broken}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                self._broken.result()
        finally:
            log.info("stops", reconciles=self.reconciles)
            self._broken.cancel()
            await self._halt(halted)

    async def _open_up(self, on_ready: Callable[[], None]) -> None:
        listeners = {PODS: self._on_pod, SERVICES: self._on_service, JOBS: self._on_job}
        watches = [
            watch for resource, listener in listeners.items() for watch in self._watch(resource, listener)
        ]
        for watch in watches:
            await watch.synced.wait()
        self._open = True
        for desk in list(self._desks.values()):
            self._wake(desk)
        on_ready()

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside all else. Should it break, the operator does."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def _check(self, stop: asyncio.Event) -> None:
        """That the resource is there, and nobody else's."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
        while not stop.is_set():
            try:
                found = await self._api.call("GET", path)
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    raise ClusterRefused(
                        f"The cluster does not know {CRD}.",
                        hint="Add it: muster operator crd | kubectl apply --server-side -f -",
                    ) from error
                if isinstance(error, ApiError) and not error.passing:
                    return  # who may not ask is told by the role that it may not, too
                log.warning("waits for the cluster", reason=str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _pause(2))
                continue
            if (found["metadata"].get("labels") or {}).get(_PART_OF) != LABELS[_PART_OF]:
                raise ClusterRefused(
                    f"{CRD} of this cluster was not made by Muster, so another controller serves it.",
                    hint="Use that one: Muster runs PyTorchTrainingJobs wherever they are served.",
                )
            return

    def _watch(self, resource: Resource, listener: Listener) -> list[Watch]:
        selector = {} if resource is JOBS else _OURS
        where = self._namespaces or ("",)
        # Without a namespace in their paths, requests are about all of them.
        asked = resource if self._namespaces else replace(resource, namespaced=False)
        made = [Watch(self._api, asked, namespace, listener, selector=selector) for namespace in where]
        for watch in made:
            self._go(watch.run())
        return made

    async def _halt(self, halted: asyncio.Task[bool]) -> None:
        for desk in self._desks.values():
            if desk.timer is not None:
                desk.timer.cancel()
        tasks = [halted, *self._tasks, *(desk.task for desk in self._desks.values() if desk.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What is seen

    def _on_job(self, item: Object, there: bool) -> None:
        uid = item["metadata"]["uid"]
        if not there:
            desk = self._desks.pop(uid, None)
            if desk is not None and desk.timer is not None:
                desk.timer.cancel()
            if desk is not None:
                desk.job = None
            return
        job = self._read(item)
        if job is None:
            return
        if job.spec.volcano is not None and not self._groups_watched:
            self._groups_watched = True
            self._watch(GROUPS, self._on_group)
        desk = self._desk(uid)
        if desk.take_job(job):
            self._wake(desk)

    def _on_pod(self, item: Object, there: bool) -> None:
        for desk in self._of(item, there):
            changed = desk.take_pod(item) if there else desk.lose_pod(item["metadata"]["uid"])
            if changed:
                self._wake(desk)

    def _on_service(self, item: Object, there: bool) -> None:
        for desk in self._of(item, there):
            self._note(desk, desk.services, item["metadata"]["name"], there)

    def _on_group(self, item: Object, there: bool) -> None:
        for desk in self._of(item, there):
            self._note(desk, desk.groups, item["metadata"]["name"], there)

    def _note(self, desk: Desk, names: set[str], name: str, there: bool) -> None:
        if there == (name in names):
            return
        names.symmetric_difference_update({name})
        self._wake(desk)

    def _of(self, item: Object, there: bool) -> Iterator[Desk]:
        """The desk of the job it belongs to, if it does to one."""
        owner = owner_of(item)
        if owner is None or (not there and owner not in self._desks):
            return
        desk = self._desk(owner)
        yield desk
        if desk.empty and desk.task is None and not there:
            del self._desks[owner]

    def _desk(self, uid: str) -> Desk:
        return self._desks.setdefault(uid, Desk())

    def _read(self, item: Object) -> TrainingJob | None:
        try:
            return read_job(item)
        except (KeyError, TypeError, ValueError) as error:
            log.error("cannot read a job", job=item["metadata"].get("name"), reason=repr(error))
            return None

    # What is done

    def _wake(self, desk: Desk, after: float = 0.0) -> None:
        if not self._open or desk.job is None:
            return
        loop = asyncio.get_running_loop()
        due = max(loop.time() + after, desk.last + GAP)
        if desk.timer is not None:
            if desk.timer.when() <= due:
                return
            desk.timer.cancel()
        desk.timer = loop.call_at(due, self._begin, desk)

    def _begin(self, desk: Desk) -> None:
        desk.timer = None
        if desk.task is not None:
            desk.again = True
            return
        desk.last = asyncio.get_running_loop().time()
        desk.task = asyncio.create_task(self._look(desk))
        desk.task.add_done_callback(lambda task: self._after(desk, task))

    def _after(self, desk: Desk, task: asyncio.Task[None]) -> None:
        desk.task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:  # a bug; the job is tried again, and the others are not held up
            log.error("cannot look after a job", job=desk.job and desk.job.name, exc_info=error)
            desk.failures += 1
            self._wake(desk, _pause(desk.failures))
        if desk.again:
            desk.again = False
            self._wake(desk)

    async def _look(self, desk: Desk) -> None:
        job = desk.job
        if job is None:
            return
        self.reconciles += 1
        made = plan(job, desk.seen(job), datetime.now(UTC))
        try:
            if made.status != job.status:
                if made.status.phase is not job.status.phase:
                    log.info("job", name=job.name, namespace=job.namespace, phase=made.status.phase.value)
                job = await self._hands.write(desk, job, made.status)
            for action in made.actions:
                await self._hands.do(desk, job, action)
        except Refused as refused:
            self._note_refusal(desk, job, refused)
            return
        except (ApiError, Unreachable) as error:
            self._note_failure(desk, job, error)
            return
        desk.failures = 0
        if desk.refusal is not None or made.actions:
            desk.refusal = None
            self._wake(desk)
        if made.again_at is not None:
            self._wake(desk, max(0.0, (made.again_at - datetime.now(UTC)).total_seconds()))

    def _note_refusal(self, desk: Desk, job: TrainingJob, refused: Refused) -> None:
        desk.failures += 1
        if desk.refusal == refused.refusal:
            self._wake(desk, _pause(desk.failures))
            return
        log.warning("refused", job=job.name, namespace=job.namespace, reason=refused.refusal.message)
        desk.refusal = refused.refusal
        self._wake(desk)  # it is written into the status, and tried again

    def _note_failure(self, desk: Desk, job: TrainingJob, error: ApiError | Unreachable) -> None:
        """A conflict is no failure: somebody changed the job, and the watch brings what it is now."""
        if isinstance(error, ApiError) and error.status == 404:
            return  # the job is gone; a watch will say so
        if not (isinstance(error, ApiError) and error.status == 409) and desk.failures == 0:
            log.warning("cannot work", job=job.name, namespace=job.namespace, reason=str(error))
        desk.failures += 1
        after = error.retry_after if isinstance(error, ApiError) else None
        self._wake(desk, after or _pause(desk.failures))


def _pause(failures: int) -> float:
    longest = min(LONGEST_PAUSE, 2.0 ** min(failures - 1, 10))
    return longest * random.uniform(0.7, 1.0)  # noqa: S311 - jitter
