"""Everything a server keeps in one file, and back again.

A backup is a tar with the names of the data directory: the database, `blobs.id`, `local.key`, then code,
logs, usage and outputs of runs; at its end `manifest.json` with a digest of all before it.

It is taken while the server serves and runs run. The database comes first, as of one moment. The files
after it only grow, and none is removed meanwhile (`removal`), so all that the database speaks of is there.
Logs may be longer than it knows: an attempt that goes on goes on from there. But logs of an attempt that
the database does not know to have started are left out: after a restore another one takes its number,
and its output must not begin in the middle of this one's.
"""

from __future__ import annotations

import contextlib
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
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO

from muster._failpoint import failpoint
from muster._version import __version__
from muster.domain.errors import BadBackup, Conflict, LocalProblem, StoreUnavailable
from muster.store.removal import files_kept
from muster.store.soundness import refusal, require_sound

FORMAT = 1
DATABASE = "muster.db"
OUTPUTS = "agent/outputs"
_FILES = (DATABASE, "blobs.id", "local.key")
_FOLDERS = ("code", "logs", "usage")
_STATE = (*_FILES, f"{DATABASE}-wal", f"{DATABASE}-shm", *_FOLDERS)
_MANIFEST = "manifest.json"
_UNFINISHED = "restore.unfinished"
_CHUNK = 1024 * 1024

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
        _sync_folder(target.parent)
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
            for name in _FILES[1:]:
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
            packer.add_bytes(_MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _open_tar(file: IO[bytes], *, compressed: bool) -> tarfile.TarFile:
    if compressed:  # level 1: logs and the database shrink well at it, and a disk is not much faster
        return tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT)
    return tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)


def _members(data_dir: Path, *, outputs: bool) -> Iterator[tuple[Path, str]]:
    """Every file below the folders that are kept. Names that begin with a dot are uploads under way."""
    for top in (*_FOLDERS, *((OUTPUTS,) if outputs else ())):
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


class _Seal:
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
        self._seal = _Seal()
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
            self._seal.add(info, _sha256(info.linkname))
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


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """A backup beside the place it is for, checked and ready to be put there."""

    folder: Path
    manifest: Manifest

    @property
    def database(self) -> Path:
        return self.folder / DATABASE


@contextmanager
def unpacked(file: Path, data_dir: Path, *, progress: Progress) -> Iterator[Unpacked]:
    """Unpack below `data_dir` and check all of it. What is not placed by the end is removed."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix=".restore-", dir=data_dir))
    except OSError as error:
        raise LocalProblem(f"Nothing can be written to {data_dir}: {error.strerror}.") from error
    try:
        manifest = _unpack(file, folder, progress)
        yield Unpacked(folder=folder, manifest=manifest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(file: Path, folder: Path, progress: Progress) -> Manifest:
    try:
        with tarfile.open(file, mode="r|*") as tar:
            manifest = _Unpacker(folder, progress).take(tar)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _bad(file, f"it is cut short or altered ({error})") from error
    except _Refused as error:
        raise _bad(file, str(error)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise _bad(file, "two things in it have the same name") from error
    except OSError as error:
        if error.errno is None:  # gzip says so that a checksum does not fit
            raise _bad(file, f"it is cut short or altered ({error})") from error
        raise LocalProblem(f"{file} could not be unpacked: {error.strerror}.") from error
    for name in _FOLDERS:
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    return manifest


class _Refused(Exception):
    """Why a backup is not taken."""


def _bad(file: Path, why: str) -> BadBackup:
    return BadBackup(f"{file} cannot be restored: {why}.", hint="Nothing was changed. Use another backup.")


class _Unpacker:
    """Takes members one by one. No name from the archive leads out of `folder`: names are checked, files
    are new ones, and links are made when all files are there, none below another."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder = folder
        self._progress = progress
        self._seal = _Seal()
        self._links: dict[PurePosixPath, str] = {}
        self._bytes = 0

    def take(self, tar: tarfile.TarFile) -> Manifest:
        for info in tar:
            if info.name == _MANIFEST:
                manifest = self._checked(tar, info)
                break
            self._add(tar, info)
        else:
            raise _Refused("it is cut short, or not a backup of Muster")
        for path, target in self._links.items():
            if not self._links.keys().isdisjoint(path.parents):
                raise _Refused(f"a link in it leads elsewhere: {path}")
            link = self._folder / path
            link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            link.symlink_to(target)
        return manifest

    def _add(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
        path = _checked_name(info)
        if info.issym():
            self._links[path] = info.linkname
            self._seal.add(info, _sha256(info.linkname))
            return
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = tar.extractfile(info)
        if content is None:
            raise _Refused(f"{info.name!r} in it has no content")
        digest = hashlib.sha256()
        with target.open("xb") as file:
            while piece := content.read(_CHUNK):
                digest.update(piece)
                file.write(piece)
            os.fchmod(file.fileno(), info.mode & 0o777)
        os.utime(target, (info.mtime, info.mtime))
        self._seal.add(info, digest.hexdigest())
        self._bytes += info.size
        self._progress(self._bytes)

    def _checked(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> Manifest:
        content = tar.extractfile(info)
        try:
            data = json.loads(content.read(_CHUNK) if content else b"")
            known = int(data["format"])
            if known != FORMAT:
                made_by = data.get("version")
                raise _Refused(f"its format is {known}, made by Muster {made_by}; this one reads {FORMAT}")
            manifest = Manifest(**data)
        except (ValueError, KeyError, TypeError) as error:
            raise _Refused("its manifest cannot be read") from error
        if (manifest.files, manifest.sha256) != (self._seal.files, self._seal.sha256):
            raise _Refused("it was altered: its content is not what its manifest says")
        if not (self._folder / DATABASE).is_file():
            raise _Refused("there is no database in it")
        return manifest


def _checked_name(info: tarfile.TarInfo) -> PurePosixPath:
    path = PurePosixPath(info.name)
    is_output = info.name.startswith(f"{OUTPUTS}/")
    is_known = info.name in _FILES or path.parts[:1] in [(top,) for top in _FOLDERS] or is_output
    if str(path) != info.name or ".." in path.parts or "\0" in info.name or not is_known:
        raise _Refused(f"it has a file that no backup has: {info.name[:200]!r}")
    if not info.isreg() and not (info.issym() and is_output):
        raise _Refused(f"{info.name[:200]!r} in it is neither file nor folder")
    return path


def require_place(data_dir: Path, *, replace: bool) -> None:
    """Raise if there is something that a restore would replace, unless that is wanted."""
    there = [name for name in _STATE if (data_dir / name).exists()]
    if there and not replace:
        raise Conflict(
            f"{data_dir} is in use already: {', '.join(there)}.",
            hint="Restore into another --data-dir, or with --force, which moves what is there aside.",
        )


def place(content: Unpacked, data_dir: Path, *, aside: Path) -> Path | None:
    """Put a backup in its place; returns where what was there is now, if anything was.

    The agent's own folder stays: it knows what runs on this machine, and which claims it has seen.
    """
    os.sync()
    mark = data_dir / _UNFINISHED
    mark.touch()
    _sync_folder(data_dir)
    there = [name for name in _STATE if (data_dir / name).exists()]
    if there:
        aside.mkdir(mode=0o700)
    for name in there:
        (data_dir / name).rename(aside / name)
    failpoint("restore.moved-aside")
    for name in (*_FILES, *_FOLDERS):
        with contextlib.suppress(FileNotFoundError):  # a server with keys of its own has no local.key
            (content.folder / name).rename(data_dir / name)
    _place_outputs(content.folder / OUTPUTS, data_dir / OUTPUTS)
    _sync_folder(data_dir)
    mark.unlink()
    return aside if there else None


def _place_outputs(source: Path, target: Path) -> None:
    """Outputs of runs that have none here; those that are here are as new, or newer."""
    if not source.is_dir():
        return
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in source.iterdir():
        if not (target / folder.name).exists():
            folder.rename(target / folder.name)


def require_finished(data_dir: Path) -> None:
    """Raise if a restore was interrupted while it put files in place."""
    if (data_dir / _UNFINISHED).exists():
        raise StoreUnavailable(
            f"A restore into {data_dir} was interrupted.",
            hint="Do it again: muster restore FILE --force. What was there before is in its `replaced-…`.",
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
