"""What happens to attempts once they are started: their ends are seen, told, and made complete.

Each shim is watched through a pidfd, no thread and no polling. When one ends, whatever it left behind is
ended too, and only then is the member's end told, with the final length of its log. When a member fails,
the others are ended. Every signal is sent under the run's guard (see `lock`), by the recorded claim only;
an attempt that turns out to be overtaken is dropped without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import ParamSpec

from muster._failpoint import failpoint
from muster.domain.errors import CannotPlace, Overtaken
from muster.domain.observation import AttemptKey, Fact, Noted, Observation, Replica, ReplicaSeen, ReplicaState
from muster.domain.resources import format_bytes
from muster.engine.process import cgroup, proc
from muster.engine.process.attempt import AttemptDir, Intent, Stop
from muster.engine.process.live import (
    Live,
    find_processes,
    find_strays,
    kill_processes,
    read_ending,
    reap,
    terminate_group,
)
from muster.engine.process.lock import Claim, RunLocks

P = ParamSpec("P")
log = logging.getLogger(__name__)
STRAY_GRACE = 2.0  #: seconds between SIGTERM and SIGKILL for what a command left behind
GIVE_UP = 30.0  #: seconds after SIGKILL before a stray that cannot die is left to the kernel
JUST_BEGUN = 0.3  #: seconds in which a shim has surely become its command
SHIM_GRACE = 1.0  #: seconds the shims get to write the status of a command that was killed


@dataclass(eq=False, kw_only=True)
class Watched:
    """An attempt and its members."""

    key: AttemptKey
    claim: Claim
    directory: AttemptDir
    intent: Intent
    lives: Sequence[Live]
    stop: Stop | None = None
    dropped: bool = False
    all_gone: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def ended(self) -> bool:
        return all(live.seen.state.ended for live in self.lives)

    def running(self) -> list[Live]:
        return [live for live in self.lives if not live.gone]


class Watcher:
    """Watches attempts and says what it sees through `tell`."""

    def __init__(
        self, locks: RunLocks, *, clock: Callable[[], datetime], tell: Callable[[Observation], None]
    ) -> None:
        self._locks = locks
        self._clock = clock
        self._tell = tell
        self._attempts: dict[AttemptKey, Watched] = {}
        self._read: set[Live] = set()  #: those whose pidfd the loop watches
        self._gone: list[tuple[Watched, Live]] = []

    def get(self, key: AttemptKey) -> Watched | None:
        return self._attempts.get(key)

    def all(self) -> list[Watched]:
        return list(self._attempts.values())

    def watch(self, attempt: Watched) -> None:
        """Begin. Members that run are told as running; the end of the others follows at once."""
        self._attempts[attempt.key] = attempt
        loop = asyncio.get_running_loop()
        for live in attempt.lives:
            if live.pidfd is None:
                self._on_exit(attempt, live)
                continue
            loop.add_reader(live.pidfd, self._on_exit, attempt, live)
            self._read.add(live)
            self.tell(attempt, ReplicaSeen(replica=live.seen))
        if attempt.stop is not None:
            self._start(attempt, self._go_on_ending, attempt, attempt.stop)

    def tell(self, attempt: Watched, fact: Fact) -> None:
        if not attempt.dropped:
            self._tell(Observation(key=attempt.key, at=self._clock(), fact=fact))

    def tell_again(self, attempt: Watched) -> None:
        for live in attempt.lives:
            self.tell(attempt, ReplicaSeen(replica=live.seen))

    async def end(self, attempt: Watched, *, reason: str, because: int | None = None) -> None:
        """SIGTERM to all members now, SIGKILL after the grace. Returns after the first.

        SIGTERM goes to each shim's process group, as a terminal sends it: what moved to a session of its
        own is told by whoever started it (torchrun tells its workers), or once its shim is gone.
        """
        if attempt.stop is not None or not attempt.running():
            return
        async with self._acting(attempt):
            if attempt.stop is not None:
                return
            kill_at = self._clock().timestamp() + attempt.intent.stop_grace
            attempt.stop = Stop(reason=reason, rank=because, kill_at=kill_at)
            with contextlib.suppress(OSError):  # no room on disk; only a next agent would read it
                attempt.directory.write_stop(attempt.stop)
            self._tell_to_end(attempt)
        self._start(attempt, self._kill_when_due, attempt, attempt.stop)

    def drop(self, attempt: Watched) -> None:
        """Stop watching and touch nothing; children are still reaped."""
        attempt.dropped = True
        self._attempts.pop(attempt.key, None)
        for task in attempt.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for live in attempt.lives:
            if live.gone:
                reap(live)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        for attempt in self.all():
            self.drop(attempt)
        for live in self._read:
            if live.pidfd is not None:
                loop.remove_reader(live.pidfd)
                os.close(live.pidfd)
                live.pidfd = None
        self._read.clear()

    # -- a shim has ended

    def _on_exit(self, attempt: Watched, live: Live) -> None:
        loop = asyncio.get_running_loop()
        if live.pidfd is not None:
            loop.remove_reader(live.pidfd)
            self._read.discard(live)
        live.gone = True
        if not attempt.running():
            attempt.all_gone.set()
        # Those that end in one turn of the loop share one look at /proc.
        self._gone.append((attempt, live))
        if len(self._gone) == 1:
            loop.call_soon(self._sweep)

    def _sweep(self) -> None:
        gone, self._gone = self._gone, []
        strays = find_strays([live for attempt, live in gone if not attempt.dropped])
        for attempt, live in gone:
            if attempt.dropped:
                reap(live)
                continue
            final = self._final(attempt, live)
            if final.state in (ReplicaState.FAILED, ReplicaState.LOST):
                self._end_others(attempt, live)
            if live.owner in strays:
                self._start(attempt, self._clear, attempt, live, final)
            else:
                self._settle(attempt, live, final)

    def _final(self, attempt: Watched, live: Live) -> Replica:
        directory, stop = attempt.directory, attempt.stop
        ending = read_ending(live, directory.exit_status(live.rank))
        if stop is not None and stop.rank != live.rank and not directory.ended_before_stop(live.rank):
            ending = replace(ending, state=ReplicaState.STOPPED, reason=stop.reason)
        elif live.member.cgroup and cgroup.was_killed_for_memory(Path(live.member.cgroup)):
            memory = format_bytes(live.member.memory)
            if ending.state is ReplicaState.FAILED:
                ending = replace(ending, reason=f"killed by the kernel: over its memory of {memory}")
        return replace(
            live.seen,
            state=ending.state,
            exit_code=ending.exit_code,
            signal=ending.signal,
            reason=ending.reason,
            ended_at=directory.ended_at(live.rank) or self._clock(),
        )

    def _settle(self, attempt: Watched, live: Live, final: Replica) -> None:
        """Nothing can write to its log any more: tell the end."""
        failpoint("settle.before")
        reap(live)
        if live.member.cgroup:
            cgroup.remove_group(Path(live.member.cgroup))
        live.seen = replace(final, log_bytes=attempt.directory.log_bytes(live.rank))
        self.tell(attempt, ReplicaSeen(replica=live.seen))
        failpoint("settle.after")

    async def _clear(self, attempt: Watched, live: Live, final: Replica) -> None:
        """End what the command left behind: SIGTERM once, then SIGKILL until nothing is left."""
        grace = STRAY_GRACE
        if attempt.stop is not None:
            grace = max(attempt.stop.kill_at - self._clock().timestamp(), 0)
        kill_at = time.monotonic() + grace
        told: set[tuple[int, int]] = set()
        pause = 0.005
        while found := find_processes([live]).get(live.owner):
            overdue = time.monotonic() - kill_at
            if overdue > GIVE_UP:
                pids = ", ".join(str(process.pid) for process in found)
                message = f"Processes {pids} of rank {live.rank} do not end, not even by SIGKILL."
                self.tell(attempt, Noted(message=message, level="warning"))
                break
            with contextlib.suppress(CannotPlace):  # another agent is acting: look again
                async with self._acting(attempt):
                    for process in found:
                        if overdue >= 0:
                            proc.send(process, signal.SIGKILL)
                        elif (process.pid, process.started) not in told:
                            told.add((process.pid, process.started))
                            proc.send(process, signal.SIGTERM)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        self._settle(attempt, live, final)

    # -- making members end

    def _end_others(self, attempt: Watched, failed: Live) -> None:
        if attempt.stop is None and attempt.running():
            self._start(attempt, self._end_gang, attempt, failed.rank)

    async def _end_gang(self, attempt: Watched, rank: int) -> None:
        while attempt.stop is None and attempt.running():
            with contextlib.suppress(CannotPlace):  # another agent is acting: try again
                await self.end(attempt, reason=f"ended because rank {rank} failed", because=rank)

    def _tell_to_end(self, attempt: Watched) -> None:
        self._terminate(attempt.running())
        with contextlib.suppress(OSError):  # no room on disk; then a next agent tells them again
            attempt.directory.note_told()

    async def _go_on_ending(self, attempt: Watched, stop: Stop) -> None:
        """Another agent began to end it, and may have died before it told the members."""
        told = attempt.directory.told()
        while attempt.running() and not told:
            with contextlib.suppress(CannotPlace):  # another agent is acting: try again
                async with self._acting(attempt):
                    self._tell_to_end(attempt)
                    told = True
        await self._kill_when_due(attempt, stop)

    async def _kill_when_due(self, attempt: Watched, stop: Stop) -> None:
        """Wait out the grace, then kill whatever is there until all shims are gone."""
        await self._tell_again_who_just_began(attempt)
        with contextlib.suppress(TimeoutError):
            grace = max(stop.kill_at - self._clock().timestamp(), 0)
            await asyncio.wait_for(attempt.all_gone.wait(), grace)
        spare_until = time.monotonic() + SHIM_GRACE
        pause = 0.02
        while running := attempt.running():
            with contextlib.suppress(CannotPlace):  # another agent is acting: look again
                async with self._acting(attempt):
                    kill_processes(running, spare_shims=time.monotonic() < spare_until)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(attempt.all_gone.wait(), pause)
            pause = min(pause * 2, 1.0)

    async def _tell_again_who_just_began(self, attempt: Watched) -> None:
        """Between fork and exec, sh drops a signal it has a trap for; a second one comes through."""
        began = time.monotonic() - JUST_BEGUN
        if any(live.since > began for live in attempt.running()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(attempt.all_gone.wait(), JUST_BEGUN)
            with contextlib.suppress(CannotPlace):  # another agent is acting: SIGKILL will do
                async with self._acting(attempt):
                    self._terminate([live for live in attempt.running() if live.since > began])

    def _terminate(self, lives: Sequence[Live]) -> None:
        for live in lives:
            terminate_group(live)

    @contextlib.asynccontextmanager
    async def _acting(self, attempt: Watched) -> AsyncIterator[None]:
        """For the moment of sending signals; raises `Overtaken` if that is no longer ours to do."""
        async with self._locks.guard(attempt.key.run_id) as guard:
            guard.check(attempt.claim)
            yield

    def _start(
        self,
        attempt: Watched,
        work: Callable[P, Coroutine[object, object, None]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        async def unless_overtaken() -> None:
            try:
                await work(*args, **kwargs)
            except Overtaken as overtaken:
                log.warning("%s", overtaken)
                self.drop(attempt)

        task = asyncio.get_running_loop().create_task(unless_overtaken())
        attempt.tasks.add(task)
        task.add_done_callback(attempt.tasks.discard)
