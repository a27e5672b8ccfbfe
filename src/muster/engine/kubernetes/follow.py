"""Following a pod's output into a file, so that it is here to the last line before the pod goes.

One stream per member: what its containers print, in the order it came; other containers than the first have
their name before each line. Each stretch of the file ends with a *mark*, see `muster.engine.kubernetes.copy`.
The server keeps the mark with the bytes; whoever goes on later, here or on another machine, asks the
cluster from there, so that nothing is missed and nothing comes twice.

The cluster gives the log of the life that a container is in *now*, or of the one before. A container that is
started again may be in its next life before its status says so; until that is settled, what it gives is held
back. While a container waits to be started again, the newest life is what the cluster gives for both. And the
life before is there only until the newest has ended, too: then what was held back is all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress

import structlog

from muster.engine.kubernetes.api import PODS, Api, ApiError, Unreachable
from muster.engine.kubernetes.attempt import LogProgress
from muster.engine.kubernetes.copy import NOT_THERE, AnotherBeginning, Copy, NotThere
from muster.engine.kubernetes.pod import Container, Pod
from muster.engine.kubernetes.spool import Mark, Spool

log = structlog.get_logger()
AGAIN: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  #: seconds between tries
SELDOM: tuple[float, ...] = (*AGAIN, 10.0, 20.0, 40.0, 60.0)  #: where the cluster says that it cannot be read
PAUSE = 0.02  #: seconds in which what comes is written as one
GATHERED = 4096  #: chunks at most
HELD = 4 * 1024 * 1024  #: bytes of a log of which it is not known yet whose it is
A_TIME = 30  #: bytes of the time before a line: enough to tell two logs apart
IN_ORDER = 1.0  #: seconds that a life waits for the one before; longer, and its pod may be gone
STATUS_WAIT = 5.0  #: seconds from the end of an output until the pod's status must tell of it


class Follower:
    """Follows every life of every container of one pod, until there is no more."""

    def __init__(self, api: Api, pod: Pod, spool: Spool, *, on_end: Callable[[], None]) -> None:
        self._api = api
        self._pod = pod
        self._spool = spool
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: set[str] = set()
        self._changed = asyncio.Event()
        self._on_end = on_end

    def see(self, pod: Pod) -> None:
        """The pod as it is now: begin with what has begun."""
        self._pod = pod
        self._changed.set()
        for container in pod.everyone:
            for life in container.lives:
                who = self._who(container, life)
                if who not in self._tasks:
                    before = self._tasks.get(self._who(container, life - 1))
                    self._tasks[who] = asyncio.create_task(self._follow(container, life, who, before))

    def progress(self) -> LogProgress:
        """Whole: everything that the pod said, as far as it was seen to speak, is in the file."""
        begun = {self._who(one, life) for one in self._pod.everyone for life in one.lives}
        return LogProgress(length=self._spool.length, whole=self._done >= (begun | self._tasks.keys()))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _who(self, container: Container, life: int) -> str:
        """A member may have several pods, one after the other, and all go into its file."""
        return f"{self._pod.uid}/{container.name}/{life}"

    async def _follow(
        self, container: Container, life: int, who: str, before: asyncio.Task[None] | None
    ) -> None:
        """Tried until it is read to its end. What the cluster refused all along is not waited for then."""
        name, tries, held = container.name, 0, b""
        if before is not None:
            await asyncio.wait([before], timeout=IN_ORDER)
        while not self._is_gone(name, life):
            is_new = who not in self._spool.marks  # else another life's log is known by its beginning
            if is_new and self._has_ended(name, life) and not self._is_settled(name, life):
                held = held or await self._peek(name, HELD)
                await self._until(lambda: self._is_settled(name, life), STATUS_WAIT)
            ended, pauses, mark = self._has_ended(name, life), AGAIN, self._spool.marks.get(who)
            try:
                if not await self._read(name, life, who):
                    continue
                if ended:
                    break
                if await self._until(lambda: self._has_ended(name, life), STATUS_WAIT):
                    continue  # once more: a kubelet that went away ends a stream as if that were all
            except ApiError as error:
                if error.status == 404 or (error.status == 400 and ended):
                    break  # the pod, or that life's log, is not there any more
                if ended and tries >= len(AGAIN):
                    log.warning("a log cannot be read", pod=self._pod.name, reason=error.message)
                    break
                pauses = SELDOM
            except NotThere:
                if ended:
                    break
            except Unreachable:
                pass
            except OSError as error:
                log.error("cannot write a log", path=str(self._spool.path), reason=str(error))
            tries = 1 if self._spool.marks.get(who) != mark else tries + 1
            await self._pause(pauses[min(tries, len(pauses)) - 1], name, life)
        if held and who not in self._spool.marks:
            await self._write_held(name, who, held)
        self._done.add(who)
        self._on_end()

    async def _write_held(self, name: str, who: str, held: bytes) -> None:
        """Unless it was of the life that followed."""
        newest = await self._peek(name, A_TIME)
        if newest and held.startswith(newest):
            return
        try:
            await Copy(self._spool, who, Mark(), self._prefix(name)).run(_once(held))
        except OSError as error:
            log.error("cannot write a log", path=str(self._spool.path), reason=str(error))

    async def _pause(self, seconds: float, name: str, life: int) -> None:
        """Until the next try. It comes at once when the container ends."""
        if self._has_ended(name, life):
            await asyncio.sleep(seconds)
        else:
            await self._until(lambda: self._has_ended(name, life), seconds)

    async def _until(self, settled: Callable[[], bool], seconds: float) -> bool:
        """What happened to a container, the pod's status says a little later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not settled():
                    self._changed.clear()
                    await self._changed.wait()
        return settled()

    def _container(self, name: str) -> Container | None:
        return next((one for one in self._pod.everyone if one.name == name), None)

    def _restarts(self, name: str) -> int:
        container = self._container(name)
        return container.restarts if container else 0

    def _has_ended(self, name: str, life: int) -> bool:
        one = self._container(name)
        if one is None or self._pod.over:
            return True
        return one.restarts > life or one.ended is not None or one.is_between

    def _is_settled(self, name: str, life: int) -> bool:
        """The status tells what the cluster now takes for the newest life."""
        one = self._container(name)
        return one is None or one.restarts > life or one.is_between or not self._pod.may_restart(one)

    def _is_gone(self, name: str, life: int) -> bool:
        """The cluster has no log of it any more."""
        one = self._container(name)
        return one is not None and life < (one.restarts if one.is_between else one.restarts - 1)

    def _has_moved(self, name: str, life: int, was_before: bool) -> bool:
        """It is not asked for any more as it was."""
        return self._is_gone(name, life) or was_before != (life < self._restarts(name))

    async def _read(self, name: str, life: int, who: str) -> bool:
        """Until the container's output ends, or the connection does. False: it was that of the next life."""
        mark = self._spool.marks.get(who, Mark())
        params = {"container": name, "timestamps": "true"}
        was_before = life < self._restarts(name)
        if was_before:
            params["previous"] = "true"
        elif not self._has_ended(name, life):  # else all is there, and comes in larger pieces
            params["follow"] = "true"
        if mark.since:
            params["sinceTime"] = mark.since
        prefix = self._prefix(name)
        one = self._container(name)
        may_be_next = one is not None and self._pod.ever_restarts(one)
        try:
            await self._copy(params, Copy(self._spool, who, mark, prefix, same=may_be_next))
        except AnotherBeginning:
            if await self._until(lambda: self._has_moved(name, life, was_before), STATUS_WAIT):
                return False
            await self._copy(params, Copy(self._spool, who, mark, prefix))
        return True

    def _prefix(self, name: str) -> bytes:
        main = self._pod.containers[0].name if self._pod.containers else name
        return b"" if name == main else f"[{name}] ".encode()

    async def _peek(self, name: str, size: int) -> bytes:
        """The beginning of what the cluster now takes for the newest log; empty if it has none."""
        path = PODS.path(self._pod.namespace, self._pod.name, "log")
        params = {"container": name, "timestamps": "true", "limitBytes": str(size)}
        found = bytearray()
        with suppress(ApiError, Unreachable):
            async with self._api.stream(path, params) as chunks:
                async for chunk in chunks:
                    found += chunk
        return b"" if found.startswith(NOT_THERE) else bytes(found)

    async def _copy(self, params: Mapping[str, str], copy: Copy) -> None:
        path = PODS.path(self._pod.namespace, self._pod.name, "log")
        async with (
            self._api.stream(path, params, endless=True) as chunks,
            aclosing(gathered(chunks)) as pieces,
        ):
            await copy.run(pieces)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def gathered(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """In larger pieces: the cluster sends line by line, and a write for each would take long in a flood."""
    pieces: list[bytes] = []
    came, taken = asyncio.Event(), asyncio.Event()

    async def gather() -> None:
        try:
            async for chunk in chunks:
                pieces.append(chunk)
                came.set()
                if len(pieces) >= GATHERED:
                    taken.clear()
                    await taken.wait()
        finally:
            came.set()

    task = asyncio.create_task(gather())
    try:
        while not task.done() or pieces:
            await came.wait()
            came.clear()
            whole = b"".join(pieces)
            pieces.clear()
            taken.set()
            yield whole
            if not task.done():
                await asyncio.sleep(PAUSE)
        await task
    finally:
        task.cancel()
