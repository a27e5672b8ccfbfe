"""Who speaks for a run on this host, and whether any process of it lives.

Two files per run in `<root>/locks/`:

`<run>.epoch`  holds `attempt epoch` of the newest claim seen here. Its flock is the *guard*: taken for
               the moment of deciding and acting, by whoever starts, adopts or stops the run.
`<run>.lock`   its flock is the *life* of the attempt: taken before the first process starts and handed to
               every shim and its command, it is free exactly when all of them are gone, whoever died how.

What holds, whoever is killed or frozen when:

1. Claims only grow: the epoch in `<run>.epoch` is never replaced by a smaller one.
2. Nothing is started, adopted or signalled on purpose but under the guard, by an agent whose claim is the
   recorded one. So a zombie agent with an older epoch can neither start nor stop anything.
3. A new attempt starts only once it holds the life lock: never two attempts of a run at once.
4. Both outlive the attempt as tombstones for an hour, so that a late zombie is still refused.

An agent frozen inside the guard keeps it. Others wait a bounded time and then say so: nobody can know
whether it is about to start a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from muster._failpoint import failpoint
from muster.domain.errors import CannotPlace, Overtaken

GUARD_WAIT = 5.0  #: seconds to wait for another agent that is acting on the same run
TOMBSTONE_AGE = 3600.0  #: seconds; a lease lives 15
_LOWEST_FD = 20  #: locks handed on must not be 0 … 9, which shells redirect


@dataclass(frozen=True, kw_only=True, order=True)
class Claim:
    """The right to act on a run; the greater one wins. Epochs grow over all attempts of a run, attempts
    alone do not: a restored server may give a number again."""

    epoch: int
    attempt: int


class Guard:
    """Held while deciding and acting on one run. Made by `RunLocks.guard`.

    `recorded` is the newest claim seen here, `life` the file whose lock the run's processes hold.
    """

    def __init__(self, run_id: str, fd: int, life: str) -> None:
        self.run_id = run_id
        self._fd = fd
        self.life = life
        self.recorded = _parse(os.pread(fd, 64, 0))

    def claim(self, mine: Claim) -> None:
        """Record the claim, unless a greater one is recorded."""
        if self.recorded is not None and mine < self.recorded:
            raise _overtaken(self.run_id, mine, self.recorded)
        if mine != self.recorded:
            failpoint("epoch.before")
            os.pwrite(self._fd, f"{mine.attempt} {mine.epoch}\n".encode().ljust(48), 0)
            failpoint("epoch.after")
            self.recorded = mine

    def check(self, mine: Claim) -> None:
        """Raise `Overtaken` unless the recorded claim is this one."""
        if self.recorded is not None and mine != self.recorded:
            raise _overtaken(self.run_id, mine, self.recorded)

    def is_newest(self, attempt: int) -> bool:
        """Whether no later attempt was seen here: then the life lock is this one's."""
        return self.recorded is None or self.recorded.attempt <= attempt

    def take_life(self) -> int | None:
        """The life lock as a descriptor to hand on; None if processes of the run hold it."""
        fd = os.open(self.life, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if try_lock(fd):
            return above_shell(fd)
        os.close(fd)
        return None

    def has_life(self) -> bool:
        """Whether any process of the run lives."""
        try:
            fd = os.open(self.life, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(fd)
        finally:
            os.close(fd)

    def drop_life(self) -> None:
        """Remove the life lock's file. Safe: it is only ever opened under the guard."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.life)


class RunLocks:
    """The locks of all runs below one root."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._swept = -TOMBSTONE_AGE  #: monotonic
        directory.mkdir(parents=True, exist_ok=True)

    @contextlib.asynccontextmanager
    async def guard(self, run_id: str, *, wait: float = GUARD_WAIT) -> AsyncIterator[Guard]:
        """Hold the guard of a run. `CannotPlace` if another agent keeps it for too long."""
        path = f"{self._directory}/{run_id}.epoch"
        fd = _open_locked(path)
        deadline = time.monotonic() + wait
        while fd is None:
            if time.monotonic() >= deadline:
                raise CannotPlace(
                    f"Another agent has been acting on run {run_id} for {wait:.0f} seconds.",
                    hint=f"It may be frozen: `fuser {path}` shows it.",
                )
            await asyncio.sleep(0.01)
            fd = _open_locked(path)
        try:
            yield Guard(run_id, fd, f"{self._directory}/{run_id}.lock")
        finally:
            os.close(fd)

    def sweep_now_and_then(self) -> None:
        """Remove the tombstones of runs that ended long ago, if that was not done lately."""
        if time.monotonic() - self._swept > TOMBSTONE_AGE / 4:
            self._swept = time.monotonic()
            self.sweep(before=time.time() - TOMBSTONE_AGE)

    def sweep(self, *, before: float) -> None:
        with os.scandir(self._directory) as entries:
            old = [e.path for e in entries if e.name.endswith(".epoch") and e.stat().st_mtime < before]
        for path in old:
            fd = _open_locked(path)
            if fd is None:
                continue
            run = path.removesuffix(".epoch")
            guard = Guard(os.path.basename(run), fd, f"{run}.lock")
            if not guard.has_life():
                guard.drop_life()
                os.unlink(path)
            os.close(fd)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def above_shell(fd: int) -> int:
    """The same open file under a number that no shell redirects."""
    if fd >= _LOWEST_FD:
        return fd
    high: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    os.close(fd)
    return high


def _open_locked(path: str) -> int | None:
    """The file, locked; None if somebody else has it locked."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not try_lock(fd):
            os.close(fd)
            return None
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # swept away between open and lock


def _parse(content: bytes) -> Claim | None:
    words = content.split()
    try:
        return Claim(attempt=int(words[0]), epoch=int(words[1]))
    except (IndexError, ValueError):
        return None


def _overtaken(run_id: str, mine: Claim, recorded: Claim) -> Overtaken:
    return Overtaken(
        f"Attempt {mine.attempt}, epoch {mine.epoch} no longer speaks for run {run_id} on this host: "
        f"attempt {recorded.attempt}, epoch {recorded.epoch} does.",
        hint="Another agent took the run over. Drop it without touching its processes.",
        facts={"run_id": run_id, "epoch": mine.epoch, "recorded": recorded.epoch},
    )
