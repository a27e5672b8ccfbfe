"""The code of a run, brought to this machine once and copied for each run."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import IO

from muster._failpoint import failpoint
from muster.agent.cachedir import CacheDir, in_thread
from muster.domain.errors import BadSnapshot
from muster.domain.snapshot import Snapshot, SnapshotFile

Fetch = Callable[[Path], Awaitable[None]]  #: downloads the snapshot's tar to the path it is given

_CHUNK = 2**20
_SENDFILE = 2**30


class CodeCache:
    """Unpacked snapshots, checked when they arrived, one folder each."""

    def __init__(self, root: Path) -> None:
        self._cache = CacheDir(root)

    async def checkout(self, snapshot: Snapshot, fetch: Fetch, target: Path) -> None:
        """Put the snapshot's files into `target`, fetching them if this machine does not have them.

        The files are the run's own: whatever it does to them, the cache keeps what it has.
        """
        while not await self._copy(snapshot, target):
            await self._fill(snapshot, fetch)

    async def prune(self, max_bytes: int, *, keep: Collection[str] = ()) -> list[str]:
        """Remove the longest unused snapshots until the rest fits."""
        return await in_thread(self._cache.prune, max_bytes, keep=keep)

    async def _copy(self, snapshot: Snapshot, target: Path) -> bool:
        """False: it is not in the cache."""
        entry = self._cache.entry(snapshot.id)
        async with self._cache.lock(snapshot.id, shared=True):
            if not entry.exists():
                return False
            self._cache.touch(snapshot.id)
            failpoint("checkout.before")
            await in_thread(_copy_tree, snapshot, entry, target)
            failpoint("checkout.after")
            return True

    async def _fill(self, snapshot: Snapshot, fetch: Fetch) -> None:
        key = snapshot.id
        scratch = self._cache.scratch(key)
        async with self._cache.lock(key):
            if self._cache.entry(key).exists():
                return  # another agent was quicker
            await in_thread(self._cache.sweep)
            await in_thread(self._cache.discard, key)
            try:
                scratch.mkdir()
                await fetch(scratch / "tar")
                await in_thread(_unpack, snapshot, scratch / "tar", scratch / "tree")
                failpoint("code.before")
                (scratch / "tree").rename(self._cache.entry(key))
                failpoint("code.after")
            finally:
                await in_thread(shutil.rmtree, scratch, ignore_errors=True)


def _unpack(snapshot: Snapshot, tar: Path, tree: Path) -> None:
    """Write what the manifest says and nothing else; the tar only supplies the bytes.

    Paths, modes and links come from the manifest, which is checked, and never from the tar: there is
    nothing in it that could lead out of the tree.
    """
    _make_folders(snapshot, tree)
    missing = {file.path: file for file in snapshot.files if file.link is None}
    try:
        with tarfile.open(tar, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    continue
                file = missing.pop(member.name, None)
                if file is None:
                    raise BadSnapshot(f"The code that arrived has {member.name!r}, which was never sent.")
                _write(file, content, tree)
    except tarfile.TarError as error:
        raise BadSnapshot(f"The code that arrived cannot be unpacked: {error}.") from error
    if missing:
        raise BadSnapshot(f"The code that arrived lacks {min(missing)!r}.")
    for file in snapshot.files:
        if file.link is not None:
            os.symlink(file.link, tree / file.path)


def _write(file: SnapshotFile, content: IO[bytes], tree: Path) -> None:
    digest = hashlib.sha256()
    with open(tree / file.path, "xb") as written:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            written.write(chunk)
        os.fchmod(written.fileno(), file.mode)
    if digest.hexdigest() != file.sha256:
        raise BadSnapshot(f"{file.path!r} arrived with another content than was sent.")


def _copy_tree(snapshot: Snapshot, source: Path, target: Path) -> None:
    _make_folders(snapshot, target)
    for file in snapshot.files:
        to = os.path.join(target, file.path)
        with suppress(FileNotFoundError):
            os.unlink(to)  # from a copy that was cut short; never write through a link
        if file.link is not None:
            os.symlink(file.link, to)
            continue
        # Twice as quick as shutil.copyfile for the many small files that code is made of.
        with open(os.path.join(source, file.path), "rb", 0) as content, open(to, "xb", 0) as copied:
            while os.sendfile(copied.fileno(), content.fileno(), None, _SENDFILE):
                pass
            os.fchmod(copied.fileno(), file.mode)


def _make_folders(snapshot: Snapshot, tree: Path) -> None:
    for folder in sorted({file.path.rpartition("/")[0] for file in snapshot.files}):
        (tree / folder).mkdir(parents=True, exist_ok=True)
