"""Taking code along: which files of a folder go with a run, and how they are sent.

In a git work tree these are the tracked files and the untracked ones that git does not ignore, as they
lie on the disk now; elsewhere all that no `.gitignore` names. Submodules and repositories inside are
taken the same way, file by file; a submodule that is not checked out is left out with a note. In both
cases `.musterignore` files leave out more. Empty folders are not kept.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from muster.client.ignore import LeftOut
from muster.domain.errors import BadSnapshot
from muster.domain.resources import readable_bytes
from muster.domain.snapshot import (
    MAX_BYTES,
    MAX_FILES,
    GitState,
    Snapshot,
    SnapshotFile,
    without_credentials,
)

Progress = Callable[[int, int], None]  #: bytes done, bytes in all

#: set inside git's hooks, where they would point at another repository
_GIT_HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)
_CHUNK = 2**20
_HINT_IGNORE = "Add it to .musterignore, or remove it."
_HINT_AGAIN = "Something else is writing there. Launch again when it is done."


@dataclass(frozen=True, kw_only=True)
class CollectedCode:
    """A snapshot, and where the contents are that it speaks of."""

    snapshot: Snapshot
    paths: Mapping[str, Path]  #: SHA-256 to a file with that content
    notes: tuple[str, ...] = ()  #: what the user should know, such as a submodule left out


def collect(
    root: Path, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES, progress: Progress | None = None
) -> CollectedCode:
    """Find and hash the files under `root`; `BadSnapshot` says what stands in the way and what to do."""
    root = _folder(root)
    notes: list[str] = []
    inside_git = _is_work_tree(root)
    found = _look_at(root, _git_files(root, notes), max_files) if inside_git else {}
    if not found:  # no repository, or one that ignores this whole folder
        found = _look_at(root, _walked_files(root), max_files)
    if not found:
        raise BadSnapshot(
            f"There is no file to take along in {root}.",
            hint="Give the folder of your code; what .gitignore and .musterignore name is left out.",
        )
    _check_limits(found, max_bytes=max_bytes, max_files=max_files)
    files, paths = _read_all(root, found, progress)
    snapshot = Snapshot(files=tuple(files), git=_git_state(root) if inside_git else None)
    return CollectedCode(snapshot=snapshot, paths=paths, notes=tuple(notes))


def pack(paths: Iterable[tuple[str, Path]]) -> Iterator[bytes]:
    """The body of one upload of many blobs, as `muster.wire.frames` reads it.

    Raises `BadSnapshot` if a file is not what it was when it was collected. A large one is already
    partly sent then; whoever receives it checks the hash too, and keeps nothing.
    """
    waiting: list[bytes] = []  # small pieces are sent together
    waiting_bytes = 0
    for sha256, path in paths:
        for piece in _frame(sha256, path):
            waiting.append(piece)
            waiting_bytes += len(piece)
            if waiting_bytes >= _CHUNK:
                yield b"".join(waiting)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield b"".join(waiting)


def _frame(sha256: str, path: Path) -> Iterator[bytes]:
    import hashlib

    from muster.wire.frames import header

    digest = hashlib.sha256()
    chunk = b""
    try:
        with open(path, "rb", buffering=0) as file:
            missing = os.fstat(file.fileno()).st_size
            yield header(sha256, missing)
            while missing and (chunk := file.read(min(missing, _CHUNK))):
                digest.update(chunk)
                missing -= len(chunk)
                if missing:
                    yield chunk
    except OSError as error:
        raise BadSnapshot(f"{path} cannot be read any more: {error.strerror}.", hint=_HINT_AGAIN) from error
    if missing or digest.hexdigest() != sha256:
        raise BadSnapshot(f"{path} changed while it was sent.", hint=_HINT_AGAIN)
    yield chunk  # the last one only now that all of them are known to be right


# --- which files -----------------------------------------------------------------------------------


def _walked_files(root: Path) -> Iterator[str]:
    left_out = LeftOut(root, (".gitignore", ".musterignore"))
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise BadSnapshot(
                f"{root / folder} cannot be read: {error.strerror}.", hint=_HINT_IGNORE
            ) from error
        for entry in listed:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not entry.is_dir(follow_symlinks=False):
                if not left_out.file(path):
                    yield path
            elif not left_out.folder(path):
                folders.append(path)


def _git_files(root: Path, notes: list[str]) -> Iterator[str]:
    left_out = LeftOut(root, (".musterignore",))
    repositories = [""]
    while repositories:
        repository = repositories.pop()
        listing = _git(
            root / repository, "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "-z"
        )
        if listing is None:
            raise BadSnapshot(f"git cannot list the files of {root / repository}.", hint=_HINT_IGNORE)
        for listed in filter(None, listing.split("\0")):
            path = os.path.join(repository, listed.rstrip("/"))
            if left_out.file(path):
                continue
            place = root / path
            if os.path.islink(place) or not os.path.isdir(place):
                yield path
            elif left_out.folder(path):
                continue
            elif os.path.exists(place / ".git"):
                repositories.append(path)
            else:
                notes.append(
                    f"The submodule {path} is not checked out and was left out; "
                    "`git submodule update --init` brings it here."
                )


def _look_at(root: Path, paths: Iterable[str], max_files: int) -> dict[str, os.stat_result]:
    """Files and links among `paths` as they are now; those git knows but that were deleted are gone."""
    found: dict[str, os.stat_result] = {}
    for path in paths:
        try:
            seen = os.lstat(root / path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise BadSnapshot(f"{path!r} cannot be read: {error.strerror}.", hint=_HINT_IGNORE) from error
        if not stat.S_ISREG(seen.st_mode) and not stat.S_ISLNK(seen.st_mode):
            raise BadSnapshot(f"{path!r} is neither a file, a folder nor a link.", hint=_HINT_IGNORE)
        found[path] = seen
        if len(found) > 2 * max_files:
            break  # far too many, and perhaps a whole disk: enough is known to say so
    return found


def _check_limits(found: Mapping[str, os.stat_result], *, max_bytes: int, max_files: int) -> None:
    sizes = {path: _size(seen) for path, seen in found.items()}
    total = sum(sizes.values())
    if len(found) > max_files:
        many = f"more than {2 * max_files}" if len(found) > 2 * max_files else str(len(found))
        detail = f"The folder has {many} files; {max_files} can be taken along."
        biggest = [f"{name} ({count} files)" for name, count in _biggest(dict.fromkeys(found, 1))]
    elif total > max_bytes:
        detail = f"The folder has {readable_bytes(total)}; {readable_bytes(max_bytes)} can be taken along."
        biggest = [f"{name} ({readable_bytes(size)})" for name, size in _biggest(sizes)]
        biggest += [f"{name} ({readable_bytes(size)})" for name, size in Counter(sizes).most_common(3)]
    else:
        return
    listed = ", ".join(dict.fromkeys(biggest)).encode(errors="backslashreplace").decode()
    raise BadSnapshot(
        f"{detail} The biggest: {listed}.",
        hint="Add what the run does not need to .musterignore; put data where the run can read it.",
        facts={"files": len(found), "bytes": total},
    )


def _biggest(weights: Mapping[str, int]) -> list[tuple[str, int]]:
    """The heaviest entries at the top of the tree; folders end in `/`."""
    top: Counter[str] = Counter()
    for path, weight in weights.items():
        name, slash, _ = path.partition("/")
        top[name + slash] += weight
    return top.most_common(3)


def _size(seen: os.stat_result) -> int:
    return seen.st_size if stat.S_ISREG(seen.st_mode) else 0


def _folder(root: Path) -> Path:
    try:
        resolved = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise BadSnapshot(f"There is no folder {str(root)!r}.", hint="Check the path.") from error
    if not resolved.is_dir():
        raise BadSnapshot(
            f"{str(root)!r} is not a folder.", hint="Give the folder; the script to run comes after `--`."
        )
    return resolved


# --- their content ---------------------------------------------------------------------------------


def _read_all(
    root: Path, found: Mapping[str, os.stat_result], progress: Progress | None
) -> tuple[list[SnapshotFile], dict[str, Path]]:
    total = sum(map(_size, found.values()))
    done = 0
    files: list[SnapshotFile] = []
    paths: dict[str, Path] = {}
    for path, seen in found.items():
        try:
            if stat.S_ISLNK(seen.st_mode):
                files.append(SnapshotFile.symlink(path, os.readlink(root / path)))
                continue
            sha256, size = _hash(root / path)
        except OSError as error:
            raise BadSnapshot(
                f"{path!r} cannot be read: {error.strerror}.",
                hint="Make it readable, or add it to .musterignore.",
            ) from error
        mode = 0o755 if seen.st_mode & stat.S_IXUSR else 0o644
        files.append(SnapshotFile(path=path, mode=mode, size=size, sha256=sha256))
        paths[sha256] = root / path
        done += size
        if progress is not None:
            progress(min(done, total), total)
    return files, paths


def _hash(path: Path) -> tuple[str, int]:
    """The SHA-256 and the size of the bytes that were read, even if the file grows meanwhile."""
    import hashlib

    digest = hashlib.sha256()
    size = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


# --- git -------------------------------------------------------------------------------------------


def _is_work_tree(root: Path) -> bool:
    return _git(root, "rev-parse", "--is-inside-work-tree") == "true\n"


def _git_state(root: Path) -> GitState | None:
    status = _git(root, "status", "--porcelain=v2", "--branch", "-z", "--", ".")
    if status is None:
        return None
    entries = list(filter(None, status.split("\0")))
    headers = list(takewhile(lambda entry: entry.startswith("# "), entries))
    about = {key: value for key, _, value in (header[2:].partition(" ") for header in headers)}
    commit, branch = about.get("branch.oid"), about.get("branch.head")
    return GitState(
        remote=_git_remote(root),
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        dirty=len(entries) > len(headers),
    )


def _git_remote(root: Path) -> str | None:
    """The address of `origin`, else of the first remote there is."""
    listing = _git(root, "config", "-z", "--get-regexp", r"^remote\..*\.url$") or ""
    remotes = dict(entry.split("\n", 1) for entry in reversed(listing.split("\0")) if "\n" in entry)
    url = remotes.get("remote.origin.url") or next(reversed(remotes.values()), None)
    return None if url is None else without_credentials(url)


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None if it cannot: no git, no repository, one it does not trust."""
    import subprocess

    env = {name: value for name, value in os.environ.items() if name not in _GIT_HOOK_VARIABLES}
    try:
        done = subprocess.run(
            # A file-system monitor is a program that the repository names; do not start it.
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=env | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
