"""Putting a backup back in its place: checked first, all of it or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from muster._failpoint import failpoint
from muster.domain.errors import BadBackup, Conflict, LocalProblem, StoreUnavailable
from muster.store.backup import (
    DATABASE,
    FILES,
    FOLDERS,
    FORMAT,
    MANIFEST,
    OUTPUTS,
    Manifest,
    Progress,
    Seal,
    sha256_of,
    sync_folder,
)

_STATE = (*FILES, f"{DATABASE}-wal", f"{DATABASE}-shm", *FOLDERS)
_UNFINISHED = "restore.unfinished"
_CHUNK = 1024 * 1024


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
    for name in FOLDERS:
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
        self._seal = Seal()
        self._links: dict[PurePosixPath, str] = {}
        self._bytes = 0

    def take(self, tar: tarfile.TarFile) -> Manifest:
        for info in tar:
            if info.name == MANIFEST:
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
            self._seal.add(info, sha256_of(info.linkname))
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
    is_known = info.name in FILES or path.parts[:1] in [(top,) for top in FOLDERS] or is_output
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
    sync_folder(data_dir)
    there = [name for name in _STATE if (data_dir / name).exists()]
    if there:
        aside.mkdir(mode=0o700)
    for name in there:
        (data_dir / name).rename(aside / name)
    failpoint("restore.moved-aside")
    for name in _STATE:
        with contextlib.suppress(FileNotFoundError):  # a server with keys of its own has no local.key
            (content.folder / name).rename(data_dir / name)
    _place_outputs(content.folder / OUTPUTS, data_dir / OUTPUTS)
    sync_folder(data_dir)
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
