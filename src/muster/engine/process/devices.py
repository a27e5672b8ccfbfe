"""Room on this host, shared with all other agents of all users by locks in one directory.

`gpu-<uuid>.lock`                  locked: the GPU is taken
`use-<millicpus>-<bytes>-<id>.lock` locked: so much CPU and memory is taken
`place.lock`                       locked for the moment somebody looks or takes

The locks of an attempt are handed to its processes, so each is free exactly when the last of them is gone:
there are no stale ones, only files nobody locks, and the next attempt that needs as much takes one of them.
CPU and memory are counted, not enforced here. As taking happens under one lock and never waits while holding
another, it is all or nothing and cannot deadlock.

The directory is open to all (mode 1777), so no file in it is followed through a link, created over, or read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import BadConfigFile, CannotPlace
from muster.domain.resources import Resources
from muster.engine.port import Device
from muster.engine.process.lock import above_shell, try_lock

DEFAULT_LOCK_DIR = Path("/tmp/muster-locks")  # noqa: S108 -- shared by all users of the host on purpose
PLACE_WAIT = 5.0  #: seconds to wait for other agents that are placing
SPARE = 16  #: files nobody locks that are kept
_USE = re.compile(r"use-(\d+)-(\d+)-\w+\.lock", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What one attempt got: locks as descriptors to hand on, and the GPUs of each node."""

    fds: tuple[int, ...] = ()  #: held by all members
    node_fds: tuple[tuple[int, ...], ...]  #: held by the members of one node: its GPUs
    devices: tuple[tuple[Device, ...], ...]

    def let_go(self) -> None:
        """Close this side's copies; the locks now live and die with the processes they were handed to."""
        _close((*self.fds, *(fd for fds in self.node_fds for fd in fds)))


class Placement:
    """Takes room on this host."""

    def __init__(
        self, directory: Path, *, total: Resources, devices: Sequence[Device], ids: Callable[[], str]
    ) -> None:
        self._directory = directory
        self._total = total
        self._devices = tuple(devices)
        self._ids = ids
        _make_shared(directory)

    async def take(self, per_node: Resources, *, nodes: int) -> Grant:
        """Room for all nodes, or `CannotPlace`."""
        if per_node == Resources():
            return Grant(node_fds=((),) * nodes, devices=((),) * nodes)
        wanted = per_node * nodes
        async with self._placing():
            used, spare = self._uses()
            try:
                free = self._total - used
                if short := Resources(millicpus=wanted.millicpus, memory=wanted.memory).short_of(free):
                    raise _no_room(short)
                counted = self._take_counted(wanted, spare)
                try:
                    taken = self._take_devices(wanted.gpus)
                except BaseException:
                    _close(counted)
                    raise
                self._remove(list(spare)[SPARE:])
            finally:
                _close(spare.values())
        by_node = [taken[node * per_node.gpus :][: per_node.gpus] for node in range(nodes)]
        return Grant(
            fds=counted,
            node_fds=tuple(tuple(fd for _, fd in node) for node in by_node),
            devices=tuple(tuple(device for device, _ in node) for node in by_node),
        )

    async def free(self) -> Resources:
        """What nobody on this host has taken."""
        async with self._placing():
            gpus = 0
            for device in self._devices:
                fd = self._lock_device(device)
                if fd is not None:
                    os.close(fd)
                    gpus += 1
            used, spare = self._uses()
            _close(spare.values())
            left = self._total - used
        return Resources(millicpus=max(left.millicpus, 0), memory=max(left.memory, 0), gpus=gpus)

    @contextlib.asynccontextmanager
    async def _placing(self) -> AsyncIterator[None]:
        path = f"{self._directory}/place.lock"
        fd = _open_shared(path)
        try:
            deadline = time.monotonic() + PLACE_WAIT
            while not try_lock(fd):
                if time.monotonic() >= deadline:
                    raise CannotPlace(
                        f"Another agent on this host has been placing a run for {PLACE_WAIT:.0f} seconds.",
                        hint=f"It may be frozen: `fuser {path}` shows it.",
                    )
                await asyncio.sleep(0.002)
            yield
        finally:
            os.close(fd)

    def _uses(self) -> tuple[Resources, dict[str, int]]:
        """CPU and memory taken now, and the files nobody holds any more, each locked here."""
        millicpus = memory = 0
        spare: dict[str, int] = {}
        for name in os.listdir(self._directory):
            use = _USE.fullmatch(name)
            if use is None:
                continue
            try:
                fd = os.open(f"{self._directory}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue  # removed meanwhile, or a trap set by another user
            if try_lock(fd):
                spare[name] = fd
                continue
            os.close(fd)
            millicpus += int(use[1])
            memory += int(use[2])
        return Resources(millicpus=millicpus, memory=memory), spare

    def _take_counted(self, wanted: Resources, spare: dict[str, int]) -> tuple[int, ...]:
        """The lock that stands for so much: a spare one of our own, else a new one."""
        if not wanted.millicpus and not wanted.memory:
            return ()
        kind = f"use-{wanted.millicpus}-{wanted.memory}-"
        for name, fd in spare.items():
            if name.startswith(kind) and os.fstat(fd).st_uid == os.geteuid():
                return (above_shell(spare.pop(name)),)
        path = f"{self._directory}/{kind}{self._ids()}.lock"
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        if not try_lock(fd):
            raise AssertionError("a new file is locked")
        return (above_shell(fd),)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):  # another user's: he removes it
                os.unlink(f"{self._directory}/{name}")

    def _take_devices(self, count: int) -> list[tuple[Device, int]]:
        taken: list[tuple[Device, int]] = []
        for device in self._devices:
            if len(taken) == count:
                break
            fd = self._lock_device(device)
            if fd is not None:
                taken.append((device, above_shell(fd)))
        if len(taken) == count:
            return taken
        for _, fd in taken:
            os.close(fd)
        raise _no_room(Resources(gpus=count).short_of(Resources(gpus=len(taken))))

    def _lock_device(self, device: Device) -> int | None:
        fd = _open_shared(f"{self._directory}/gpu-{device.uuid}.lock")
        if try_lock(fd):
            return fd
        os.close(fd)
        return None


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _open_shared(path: str) -> int:
    """A lock file any user may lock: reading it is enough for that."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            # Without O_CREAT: in a sticky directory the kernel refuses that for files of other users
            # (fs.protected_regular).
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask is
            return fd


def _make_shared(directory: Path) -> None:
    try:
        directory.mkdir(parents=True)
        directory.chmod(0o1777)
    except FileExistsError:
        if not stat.S_ISDIR(directory.lstat().st_mode):
            raise BadConfigFile(
                f"{directory} is not a directory, and GPU locks are kept there.",
                hint="Remove it, or set MUSTER_LOCK_DIR to a directory that all agents of this host share.",
            ) from None


def _no_room(short: tuple[str, ...]) -> CannotPlace:
    return CannotPlace(f"No room for all members just now: they need {', '.join(short)}.")
