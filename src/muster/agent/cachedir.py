"""A folder of prepared things, one entry a key, shared by all agents of the host.

Who makes, reads or removes an entry holds the key's lock: a `flock`, which the kernel gives back when its
holder dies. `prune` keeps the folder below a size, and never waits for a lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

_SCRATCH = ".tmp-"

P = ParamSpec("P")
T = TypeVar("T")


class CacheDir:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._locks = root / ".locks"

    def entry(self, key: str) -> Path:
        return self.root / key

    def scratch(self, key: str) -> Path:
        """Where an entry is made before it is moved into place, and moved before it is removed."""
        return self.root / f"{_SCRATCH}{key}"

    @asynccontextmanager
    async def lock(
        self, key: str, *, shared: bool = False, waiting: Callable[[], None] | None = None
    ) -> AsyncIterator[int]:
        """Hold the key's lock; `waiting` is called if somebody else has it. Gives its descriptor.

        A process that inherits the descriptor keeps the lock should this one be killed.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        path = self._locks / key
        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        descriptor = _acquire(path, operation | fcntl.LOCK_NB)
        if descriptor is None:
            if waiting is not None:
                waiting()
            descriptor = await _acquire_in_thread(path, operation)
        try:
            yield descriptor
        finally:
            _release(descriptor)

    def touch(self, key: str) -> None:
        """Note that the entry is used now."""
        os.utime(self.entry(key))

    def discard(self, key: str) -> None:
        """Remove an entry and its scratch; its lock is held. The entry vanishes in one step."""
        shutil.rmtree(self.scratch(key), ignore_errors=True)
        if self.entry(key).exists():
            self.entry(key).rename(self.scratch(key))
            shutil.rmtree(self.scratch(key), ignore_errors=True)

    def sweep(self) -> None:
        """Remove the scratch that killed agents left: who works in one holds its lock."""
        for scratch in self.root.glob(f"{_SCRATCH}*"):
            with self._lock_if_free(scratch.name.removeprefix(_SCRATCH)) as held:
                if held:
                    shutil.rmtree(scratch, ignore_errors=True)

    def prune(self, max_bytes: int, *, keep: Collection[str] = ()) -> list[str]:
        """Remove the longest unused entries until the rest fits. Gives the keys that were removed.

        A run that uses an entry does not hold its lock: name such entries in `keep`.
        """
        self.sweep()
        sizes = {entry.name: _size_of(entry) for entry in self._oldest_first()}
        excess = sum(sizes.values()) - max_bytes
        removed: list[str] = []
        for key, size in sizes.items():
            if excess <= 0:
                break
            if key in keep:
                continue
            with self._lock_if_free(key) as held:
                if held:
                    self.discard(key)
                    (self._locks / key).unlink()
                    removed.append(key)
                    excess -= size
        return removed

    def _oldest_first(self) -> list[Path]:
        if not self.root.exists():
            return []
        entries = [entry for entry in self.root.iterdir() if not entry.name.startswith(".")]
        return sorted(entries, key=lambda entry: entry.stat().st_mtime)

    @contextmanager
    def _lock_if_free(self, key: str) -> Iterator[bool]:
        self._locks.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(self._locks / key, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield descriptor is not None
        finally:
            if descriptor is not None:
                _release(descriptor)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work in a thread. When cancelled, wait for its end first: a thread cannot be stopped,
    and must not go on in a folder whose lock was given back."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _acquire(path: Path, operation: int) -> int | None:
    """A descriptor that holds the lock; None if it is taken and `operation` does not wait."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, operation)
            if _is_same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # `prune` removed the file while we waited: lock the one that is there now


def _release(descriptor: int) -> None:
    # Not by closing alone: a daemon that an installer left behind may have inherited the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


async def _acquire_in_thread(path: Path, operation: int) -> int:
    """Wait for the lock in a thread of its own: it cannot be cancelled, so nobody may have to join it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int | None] = loop.create_future()

    def hand_over(descriptor: int | None, error: OSError | None) -> None:
        if future.cancelled():
            if descriptor is not None:
                _release(descriptor)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(descriptor)

    def wait() -> None:
        descriptor, error = None, None
        try:
            descriptor = _acquire(path, operation)
        except OSError as problem:
            error = problem
        try:
            loop.call_soon_threadsafe(hand_over, descriptor, error)
        except RuntimeError:  # the loop was closed
            if descriptor is not None:
                _release(descriptor)

    threading.Thread(target=wait, name=f"lock {path.name}", daemon=True).start()
    try:
        descriptor = await future
    except asyncio.CancelledError:
        if not future.cancelled() and (descriptor := future.result()) is not None:
            _release(descriptor)  # cancelled in the moment between the hand-over and here
        raise
    assert descriptor is not None  # noqa: S101 - only an operation that does not wait gives None
    return descriptor


def _size_of(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue  # its owner is just working on it
    return total
