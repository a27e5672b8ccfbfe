"""Code that a run takes along: which files, with which content, and what git says about them.

A `Snapshot` that exists is sound: every rule about paths, links and sizes is checked when it is made,
on the client as on the server, where the manifest comes from strangers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from muster.domain.errors import BadSnapshot
from muster.domain.resources import readable_bytes

MAX_BYTES = 500 * 2**20
MAX_FILES = 50_000
MAX_PATH = 4000  #: bytes of a path inside the tree; Linux takes 4096 for the whole path
MAX_NAME = 255  #: bytes of one component
MODES = frozenset({0o644, 0o755})

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_USERINFO = re.compile(r"(?P<scheme>[a-z+.-]*)://(?P<user>[^/?#]*)@", re.IGNORECASE)
_MAX_GIT_TEXT = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotFile:
    """One file or symbolic link. A link has no content: see `symlink`."""

    path: str  #: relative, with `/` between names
    mode: int
    size: int
    sha256: str
    link: str | None = None  #: the target, if this is a symbolic link

    @classmethod
    def symlink(cls, path: str, target: str) -> Self:
        return cls(path=path, mode=0o644, size=0, sha256=sha256_of(target), link=target)

    def __post_init__(self) -> None:
        _check_path(self.path)
        if self.link is not None:
            _check_link(self.path, self.link)
            if (self.mode, self.size, self.sha256) != (0o644, 0, sha256_of(self.link)):
                raise BadSnapshot(f"The link {self.path!r} may not have a content of its own.")
        if self.mode not in MODES:
            raise BadSnapshot(f"{self.path!r} has the mode {self.mode:o}; only 644 and 755 are kept.")
        if self.size < 0:
            raise BadSnapshot(f"{self.path!r} has the size {self.size}.")
        if not _SHA256.fullmatch(self.sha256):
            raise BadSnapshot(f"{self.path!r} has no SHA-256 of 64 lower-case hexadecimal digits.")

    def to_data(self) -> dict[str, Any]:
        if self.link is not None:
            return {"path": self.path, "link": self.link}
        return {"path": self.path, "mode": self.mode, "size": self.size, "sha256": self.sha256}

    @classmethod
    def from_data(cls, data: object) -> Self:
        given = _mapping(data, "a file of the snapshot")
        path = _text(given, "path")
        if given.get("link") is not None:
            return cls.symlink(path, _text(given, "link"))
        return cls(
            path=path,
            mode=_integer(given, "mode"),
            size=_integer(given, "size"),
            sha256=_text(given, "sha256"),
        )


@dataclass(frozen=True, kw_only=True)
class GitState:
    """Where the code came from. Told to people; not part of a snapshot's identity."""

    remote: str | None = None  #: without credentials
    commit: str | None = None
    branch: str | None = None  #: None: no branch is checked out
    dirty: bool = False  #: the files differ from the commit

    def __post_init__(self) -> None:
        if self.commit is not None and not _COMMIT.fullmatch(self.commit):
            raise BadSnapshot(f"{self.commit[:80]!r} is not a git commit.")
        for text in (self.remote, self.branch):
            if text is not None and (len(text) > _MAX_GIT_TEXT or _unprintable(text)):
                raise BadSnapshot(f"{text[:80]!r} is not a git remote or branch.")
        if self.remote is not None and self.remote != without_credentials(self.remote):
            raise BadSnapshot("A git remote may not carry credentials.")

    def to_data(self) -> dict[str, Any]:
        return {"remote": self.remote, "commit": self.commit, "branch": self.branch, "dirty": self.dirty}

    @classmethod
    def from_data(cls, data: object) -> Self:
        given = _mapping(data, "git")
        texts = {
            key: _text(given, key) for key in ("remote", "commit", "branch") if given.get(key) is not None
        }
        dirty = given.get("dirty", False)
        if not isinstance(dirty, bool):
            raise BadSnapshot("git: dirty must be true or false.")
        return cls(**texts, dirty=dirty)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A tree of files. Empty folders are not kept, as in git."""

    files: tuple[SnapshotFile, ...]  #: in the order of their paths
    git: GitState | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(sorted(self.files, key=lambda file: file.path)))
        if not self.files:
            raise BadSnapshot("A snapshot without files makes no sense.")
        _check_tree(self.files)

    @cached_property
    def id(self) -> str:
        """The same for the same files, wherever and whenever they were collected."""
        # No field can contain a NUL: paths and targets are checked, the rest is digits.
        records = (
            f"{file.path}\0{file.mode:o}\0{file.size}\0{file.sha256}\0{file.link or ''}\0"
            for file in self.files
        )
        return sha256_of("muster-snapshot-1\0" + "".join(records))

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def blobs(self) -> dict[str, int]:
        """The contents that must be stored, each once: SHA-256 and size. Links have none."""
        return {file.sha256: file.size for file in self.files if file.link is None}

    def to_data(self) -> dict[str, Any]:
        return {
            "files": [file.to_data() for file in self.files],
            "git": self.git.to_data() if self.git else None,
        }

    @classmethod
    def from_data(cls, data: object, *, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> Self:
        """Read what a stranger sent; anything that is not sound is refused as `BadSnapshot`."""
        given = _mapping(data, "the snapshot")
        entries = given.get("files")
        if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
            raise BadSnapshot("files must be a list.")
        if len(entries) > max_files:
            raise BadSnapshot(f"The snapshot has {len(entries)} files; {max_files} are allowed.")
        git = given.get("git")
        snapshot = cls(
            files=tuple(SnapshotFile.from_data(entry) for entry in entries),
            git=None if git is None else GitState.from_data(git),
        )
        if snapshot.total_bytes > max_bytes:
            raise BadSnapshot(
                f"The snapshot has {readable_bytes(snapshot.total_bytes)}; "
                f"{readable_bytes(max_bytes)} are allowed."
            )
        return snapshot


def sha256_of(text: str) -> str:
    import hashlib

    # Surrogates are refused in a moment, with a better message than the codec's.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def without_credentials(remote: str) -> str:
    """A git remote as it may be shown: no password, no token, no query.

    The user name stays only for ssh, where it is an account; over https it may be the token itself.
    """

    def keep_account(match: re.Match[str]) -> str:
        scheme, user = match["scheme"], match["user"].partition(":")[0]
        return f"{scheme}://{user}@" if "ssh" in scheme.lower() and user else f"{scheme}://"

    if "://" not in remote:
        return remote
    return _USERINFO.sub(keep_account, re.split(r"[?#]", remote, maxsplit=1)[0])


def _check_path(path: str) -> None:
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise BadSnapshot(f"{path[:200]!r} is not a relative path inside the tree.")
    _check_text(path, path)
    if any(len(part.encode()) > MAX_NAME for part in path.split("/")):
        raise BadSnapshot(f"{path[:200]!r} has a name of more than {MAX_NAME} bytes.")


def _check_link(path: str, target: str) -> None:
    """Refuse a target that could lead out of the tree.

    `..` is allowed only in front: it then climbs real folders, since nothing in the tree lies below a
    link. Behind a name it could climb from wherever another link leads, and out of the tree.
    """
    _check_text(target, path)
    parts = target.split("/")
    depth = path.count("/")
    climbs = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    if not target or target.startswith("/") or climbs > depth or ".." in parts[climbs:]:
        raise BadSnapshot(
            f"The link {path!r} to {target[:200]!r} leads out of the folder.",
            hint="Make it a relative link (`..` only in front) to something inside, "
            "or add it to .musterignore.",
        )


def _check_text(text: str, path: str) -> None:
    if _unprintable(text):
        raise BadSnapshot(
            f"The name {path[:200]!r} has control characters or is not UTF-8.",
            hint="Rename it, or add it to .musterignore.",
        )
    if len(text.encode()) > MAX_PATH:
        raise BadSnapshot(f"The path {path[:200]!r} is longer than {MAX_PATH} bytes.")


def _unprintable(text: str) -> bool:
    """Whether a text has control characters (Cc) or stands for bytes that are no UTF-8 (Cs)."""
    return not text.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


def _check_tree(files: Iterable[SnapshotFile]) -> None:
    paths: set[str] = set()
    for file in files:
        if file.path in paths:
            raise BadSnapshot(f"{file.path!r} is there twice.")
        paths.add(file.path)
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in paths:
                raise BadSnapshot(f"{parent!r} cannot be both a file and the folder of {path!r}.")
            parent = parent.rpartition("/")[0]


def _mapping(data: object, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise BadSnapshot(f"{what} must be an object.")
    return data


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str):
        raise BadSnapshot(f"{key} must be a text.")
    return value


def _integer(given: Mapping[str, Any], key: str) -> int:
    value = given.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadSnapshot(f"{key} must be a whole number.")
    return value
