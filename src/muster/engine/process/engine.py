"""Runs attempts as processes of this machine. What must hold, whoever dies when, is said in `lock`."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster._failpoint import failpoint
from muster.domain.errors import CannotPlace, Conflict, ImpossibleRequest
from muster.domain.observation import AttemptKey, Noted, Observation
from muster.domain.resources import Resources
from muster.engine.port import NO_CONFIG, NO_LOGS, Inventory, LogEnd, Place, Rendered, Sample
from muster.engine.process import proc
from muster.engine.process.attempt import AttemptDir
from muster.engine.process.cgroup import remove_group
from muster.engine.process.devices import DEFAULT_LOCK_DIR, Placement
from muster.engine.process.inventory import take_inventory
from muster.engine.process.live import Live
from muster.engine.process.lock import Claim, Guard, RunLocks
from muster.engine.process.proc import Owner, Process
from muster.engine.process.spare import Spares
from muster.engine.process.start import Starter, watched
from muster.engine.process.usage import UsageMeter
from muster.engine.process.watch import Watched, Watcher

SHIM_WAIT = 2.0  #: seconds for what a dying agent started to become a shim
KILL_WAIT = 10.0  #: seconds for an older attempt to be gone after SIGKILL


class ProcessEngine:
    """The `process` engine; see `muster.engine.port.Engine` for what each verb promises."""

    kind = "process"
    marks_logs = False  # they are files here, and outlive the agent

    def __init__(
        self,
        root: Path,
        *,
        lock_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        ids: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        environ = os.environ if environ is None else environ
        self._root = root.absolute()
        self._clock = clock
        self._inventory = take_inventory(self._root, environ)
        self._locks = RunLocks(self._root / "locks")
        self._placement = Placement(
            lock_dir or Path(environ.get("MUSTER_LOCK_DIR") or DEFAULT_LOCK_DIR),
            total=self._inventory.total,
            devices=self._inventory.devices,
            ids=ids,
        )
        self._spares = Spares(self._root)
        self._starter = Starter(
            host=self._inventory.host,
            environ=environ,
            placement=self._placement,
            spares=self._spares,
            clock=clock,
        )
        self._meter = UsageMeter(self._inventory.devices)
        self._seen: asyncio.Queue[Observation | None] = asyncio.Queue()
        self._watcher = Watcher(self._locks, clock=clock, tell=self._seen.put_nowait)

    async def inventory(self) -> Inventory:
        return self._inventory

    async def cluster(self) -> None:
        return None  # one machine, whose size is in the inventory

    async def free(self) -> Resources:
        return await self._placement.free()

    async def check(self, rendered: Rendered) -> None:
        short = rendered.resources.short_of(self._inventory.total)
        if short:
            raise ImpossibleRequest(
                f"Machine {self._inventory.host} can never hold this run: it needs {', '.join(short)}.",
                hint="Ask for less, or launch on another queue.",
            )

    async def submit(self, rendered: Rendered, place: Place) -> None:
        await self.check(rendered)
        key = rendered.key
        claim = Claim(attempt=key.attempt, epoch=place.epoch)
        async with self._locks.guard(key.run_id) as guard:
            guard.claim(claim)
            if await self._take_over(key, claim, guard):
                return
            await self._kill(AttemptDir.earlier(self._root, key), guard)
            await self._start(rendered, place, guard)

    def observe(self) -> AsyncIterator[Observation]:
        return self._observations()

    async def adopt(
        self,
        key: AttemptKey,
        epoch: int,
        logs: Mapping[int, LogEnd] = NO_LOGS,
        config: Mapping[str, Any] = NO_CONFIG,
    ) -> bool:
        claim = Claim(attempt=key.attempt, epoch=epoch)
        async with self._locks.guard(key.run_id) as guard:
            guard.claim(claim)
            return await self._take_over(key, claim, guard)

    async def stop(self, key: AttemptKey) -> None:
        attempt = self._watcher.get(key)
        if attempt is not None:
            await self._watcher.end(attempt, reason="stopped on request")

    async def forget(self, key: AttemptKey) -> None:
        attempt = self._watcher.get(key)
        if attempt is not None:
            self._watcher.drop(attempt)

    async def usage(self) -> list[Sample]:
        lives = [live for attempt in self._watcher.all() for live in attempt.running()]
        return self._meter.measure(lives, at=self._clock().timestamp())

    def log_path(self, key: AttemptKey, rank: int) -> Path:
        return AttemptDir.of(self._root, key).log(rank)

    def log_length(self, key: AttemptKey, rank: int) -> None:
        return None  # the replica itself writes it

    def log_mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        return None

    def error_files(self, key: AttemptKey, rank: int) -> list[Path]:
        return [AttemptDir.of(self._root, key).error_file(rank)]

    async def clean(self, key: AttemptKey) -> None:
        attempt = self._watcher.get(key)
        async with self._locks.guard(key.run_id) as guard:
            if attempt is not None:
                guard.check(attempt.claim)
            alive = (
                guard.is_newest(key.attempt) and guard.has_life() if attempt is None else not attempt.ended
            )
            if alive:
                raise Conflict(
                    f"Attempt {key.attempt} of run {key.run_id} still runs.", hint="Stop it first."
                )
            self._remove(key, guard)
        self._locks.sweep_now_and_then()

    async def leftovers(self) -> list[AttemptKey]:
        return AttemptDir.all_below(self._root)

    async def discard(self, key: AttemptKey) -> None:
        async with self._locks.guard(key.run_id) as guard:
            if guard.is_newest(key.attempt):
                await self._kill([key], guard)
            self._remove(key, guard)

    def _remove(self, key: AttemptKey, guard: Guard) -> None:
        attempt = self._watcher.get(key)
        if attempt is not None:
            self._watcher.drop(attempt)
        directory = AttemptDir.of(self._root, key)
        failpoint("remove.before")
        if guard.has_life() or not self._spares.keep(directory.path):  # a process may still write there
            directory.remove()
        failpoint("remove.after")

    async def close(self) -> None:
        self._watcher.close()
        self._seen.put_nowait(None)

    async def _observations(self) -> AsyncIterator[Observation]:
        while (seen := await self._seen.get()) is not None:
            yield seen

    async def _start(self, rendered: Rendered, place: Place, guard: Guard) -> None:
        key = rendered.key
        directory = AttemptDir.of(self._root, key)
        life = guard.take_life()
        if life is None:
            raise CannotPlace(f"Processes of run {key.run_id} are still there.")
        ports = {attempt.intent.port for attempt in self._watcher.all() if attempt.intent.port is not None}
        try:
            intent, lives = await self._starter.start(rendered, place, directory, life=life, ports=ports)
        finally:
            os.close(life)
        claim = Claim(attempt=key.attempt, epoch=place.epoch)
        attempt = Watched(key=key, claim=claim, directory=directory, intent=intent, lives=lives)
        self._watcher.watch(attempt)
        if intent.members[0].memory and not intent.members[0].cgroup:
            message = "Memory is counted but not limited: no cgroup can be made on this machine."
            self._watcher.tell(attempt, Noted(message=message))

    async def _take_over(self, key: AttemptKey, claim: Claim, guard: Guard) -> bool:
        """Watch what is left of an attempt that was started; False: it never was."""
        attempt = self._watcher.get(key)
        if attempt is not None:
            attempt.claim = claim
            self._watcher.tell_again(attempt)
            return True
        directory = AttemptDir.of(self._root, key)
        intent = directory.intent()
        if intent is None:
            return False
        lives = [
            watched(Owner(key=key, rank=rank), directory, intent, node=self._inventory.host)
            for rank in range(len(intent.members))
        ]
        if intent.boot == proc.boot_id():  # else the machine went down, and all with it
            age = self._clock().timestamp() - intent.at
            await _find_shims(directory, lives, guard, wait=SHIM_WAIT - age)
        self._watcher.watch(
            Watched(
                key=key, claim=claim, directory=directory, intent=intent, lives=lives, stop=directory.stop()
            )
        )
        return True

    async def _kill(self, keys: Sequence[AttemptKey], guard: Guard) -> None:
        """End at once what is left of attempts that were given up, and whoever else holds the life lock."""
        marks: dict[str, Owner] = {}
        groups: list[str] = []
        for key in keys:
            attempt = self._watcher.get(key)
            if attempt is not None:
                self._watcher.drop(attempt)
            directory = AttemptDir.of(self._root, key)
            intent = directory.intent()
            for rank, member in enumerate(intent.members if intent else ()):
                marks[directory.replica(rank)] = Owner(key=key, rank=rank)
                groups.append(member.cgroup)
        deadline = time.monotonic() + KILL_WAIT
        while found := _processes(marks, guard):
            if time.monotonic() > deadline:
                raise CannotPlace(
                    f"Processes of an earlier attempt of run {guard.run_id} do not end.",
                    hint=f"Look at {', '.join(str(process.pid) for process in found)}.",
                )
            failpoint("kill.before")
            for process in found:
                proc.send(process, signal.SIGKILL)
            failpoint("kill.after")
            await asyncio.sleep(0.01)
        for group in filter(None, groups):
            remove_group(Path(group))


def _processes(marks: Mapping[str, Owner], guard: Guard) -> list[Process]:
    """Those marked as these replicas', and those that hold the life lock, under whatever name they run."""
    marked = proc.members(marks, sessions={}) if marks else {}
    found = [process for processes in marked.values() for process in processes]
    return found + (proc.holders(guard.life) if guard.has_life() else [])


async def _find_shims(directory: AttemptDir, lives: Sequence[Live], guard: Guard, *, wait: float) -> None:
    """Get hold of the shims that still run."""
    deadline = time.monotonic() + min(wait, SHIM_WAIT)
    while True:
        wanted = {live.mark: live.owner for live in lives if directory.exit_status(live.rank) is None}
        shims = proc.find_shims(wanted) if wanted else {}
        # An agent killed right after starting a process leaves one that has yet to become a shim.
        if len(shims) == len(wanted) or time.monotonic() >= deadline or not guard.has_life():
            break
        await asyncio.sleep(0.005)
    for live in lives:
        shim = shims.get(live.owner)
        pidfd = None if shim is None else proc.open_pidfd(shim)
        if shim is not None and pidfd is not None:
            live.pid, live.shim, live.pidfd, live.since = shim.pid, shim, pidfd, shim.started / proc.TICKS
            live.seen = replace(live.seen, handle=str(shim.pid))
