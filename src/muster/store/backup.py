"""Everything a server keeps, in one file. `unpack` reads it.

A backup is a tar with the names of the data directory: the database, `blobs.id`, `local.key`, then code,
logs, usage and outputs of runs; at its end `manifest.json` with a digest of all before it.

It is taken while the server serves and runs run. The database comes first, as of one moment. The files
after it only grow, and none is removed meanwhile (`removal`), so all that the database speaks of is there.
Logs may be longer than it knows: an attempt that goes on goes on from there. But logs of an attempt that
the database does not know to have started are left out: after a restore another one takes its number,
and its output must not begin in the middle of this one's.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

from muster._failpoint import failpoint
from muster._version import __version__
from muster.domain.errors import LocalProblem
from muster.store.removal import files_kept
from muster.store.soundness import refusal, require_sound

FORMAT = 1
DATABASE = "muster.db"
OUTPUTS = "agent/outputs"
FILES = (DATABASE, "blobs.id", "local.key")
FOLDERS = ("code", "logs", "usage")
MANIFEST = "manifest.json"

Progress = Callable[[int], None]  #: hears how many bytes went through so far


@dataclass(frozen=True, kw_only=True)
class Manifest:
    format: int
    version: str  #: of Muster
    revision: str  #: of the database's schema
    taken_at: str
    host: str
    runs: int
    files: int
    sha256: str  #: over names, kinds, sizes and contents, in the order of the archive


def write(
    data_dir: Path, target: Path, *, now: datetime, outputs: bool = True, progress: Progress
) -> Manifest:
    """Back up to `target`: there whole, or not at all."""
    database = data_dir / DATABASE
    if not database.is_file():
        raise LocalProblem(f"There is no {database}, so nothing to back up.", hint="Name it with --data-dir.")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".muster-backup-", dir=target.parent))
    except OSError as error:
        raise LocalProblem(f"Nothing can be written to {target.parent}: {error.strerror}.") from error
    try:
        with files_kept(data_dir):
            _snapshot(database, folder / DATABASE)
            manifest = _pack(data_dir, folder, target, now=now, outputs=outputs, progress=progress)
        failpoint("backup.written")
        (folder / target.name).rename(target)
        sync_folder(target.parent)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise LocalProblem(
            f"The backup could not be made: {error.strerror}{where}.", hint="Nothing is left of it."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _snapshot(database: Path, copy: Path) -> None:
    """The database as of one moment, whoever writes to it; refused if it is damaged."""
    try:
        with (
            closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise LocalProblem(f"There is no room for the backup beside {copy.parent}.") from error
        raise refusal(database, error) from error
    require_sound(copy, called=database)


def _pack(
    data_dir: Path, folder: Path, target: Path, *, now: datetime, outputs: bool, progress: Progress
) -> Manifest:
    with closing(sqlite3.connect(folder / DATABASE)) as conn:
        (revision,) = conn.execute("SELECT version_num FROM alembic_version").fetchone()
        (runs,) = conn.execute("SELECT count(*) FROM runs").fetchone()
        started = set(
            conn.execute('SELECT run_id, attempt FROM attempts WHERE started_at NOT NULL OR "end" NOT NULL')
        )
    descriptor = os.open(folder / target.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with _open_tar(file, compressed=target.name.endswith("gz")) as tar:
            packer = _Packer(tar, progress)
            packer.add(folder / DATABASE, DATABASE)
            for name in FILES[1:]:
                packer.add(data_dir / name, name)
            for path, name in _members(data_dir, outputs=outputs):
                if _is_of_record(PurePosixPath(name), started):
                    packer.add(path, name)
            manifest = Manifest(
                format=FORMAT,
                version=__version__,
                revision=str(revision),
                taken_at=now.isoformat(timespec="seconds"),
                host=socket.gethostname(),
                runs=int(runs),
                files=packer.files,
                sha256=packer.sha256,
            )
            packer.add_bytes(MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _open_tar(file: IO[bytes], *, compressed: bool) -> tarfile.TarFile:
    if compressed:  # level 1: logs and the database shrink well at it, and a disk is not much faster
        return tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT)
    return tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)


def _members(data_dir: Path, *, outputs: bool) -> Iterator[tuple[Path, str]]:
    """Every file below the folders that are kept. Names that begin with a dot are uploads under way."""
    for top in (*FOLDERS, *((OUTPUTS,) if outputs else ())):
        for place, folders, names in os.walk(data_dir / top):
            folders.sort()
            links = [name for name in folders if os.path.islink(os.path.join(place, name))]
            for name in sorted([*names, *links]):
                if top == OUTPUTS or not name.startswith("."):
                    path = Path(place, name)
                    yield path, path.relative_to(data_dir).as_posix()


def _is_of_record(name: PurePosixPath, started: set[tuple[str, int]]) -> bool:
    """Whether a file is to be there after a restore; of logs, those of attempts known to have started."""
    if name.parts[0] != "logs":
        return True
    _, _, run_id, attempt, *_ = name.parts
    return attempt.isdigit() and (run_id, int(attempt)) in started


class Seal:
    """One digest over a sequence of members."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.files = 0

    def add(self, info: tarfile.TarInfo, content_sha256: str) -> None:
        words = (info.name, "link" if info.issym() else "file", str(info.size), content_sha256)
        self._sha256.update("\0".join((*words, "")).encode("utf-8", "surrogateescape"))
        self.files += 1

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


class _Packer:
    def __init__(self, tar: tarfile.TarFile, progress: Progress) -> None:
        self._tar = tar
        self._progress = progress
        self._seal = Seal()
        self._bytes = 0

    @property
    def files(self) -> int:
        return self._seal.files

    @property
    def sha256(self) -> str:
        return self._seal.sha256

    def add(self, path: Path, name: str) -> None:
        """Add a file, as long as it is now, or a link. What is neither, or gone, is passed over."""
        info = tarfile.TarInfo(name)
        if path.is_symlink():
            info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
            self._tar.addfile(info)
            self._seal.add(info, sha256_of(info.linkname))
            return
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return
            info.size, info.mtime, info.mode = found.st_size, int(found.st_mtime), found.st_mode & 0o777
            content = _Content(file)
            self._tar.addfile(info, content)  # type: ignore[arg-type]  # it only ever calls `read`
            self._seal.add(info, content.sha256)
        self._bytes += info.size
        self._progress(self._bytes)

    def add_bytes(self, name: str, content: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o600
        self._tar.addfile(info, io.BytesIO(content))


class _Content:
    """A file being read, and its digest. If it shrinks meanwhile, which only the outputs of a live run
    do, what is missing is zeros: the archive has promised its size already."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size).ljust(size, b"\0")
        self._sha256.update(data)
        return data

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
