"""Which repositories may be fetched, and which commit a name in one stands for. Nothing is fetched here.

An address comes from whoever launches, and ends up in a command of the server's or agent's machine. So it
must be of a scheme the operator allows, can be no option and no local path, and carries no password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from muster.domain.errors import BadGit, nearest
from muster.domain.source import GitSource

KNOWN_SCHEMES = ("https", "ssh", "http", "git")  #: all an operator can allow; `file` and `ext` never
DEFAULT_SCHEMES = frozenset({"https", "ssh"})
MAX_URL = 2048
MAX_NAME = 255

_SCP_LIKE = re.compile(r"(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^:/].*|/.+)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?::|//)")
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]")
_REF = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PART_OF_COMMIT = re.compile(r"[0-9a-f]{4,40}")
_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")
_EXAMPLE = "https://host/team/project.git or git@host:team/project.git"


def read_schemes(text: str | None) -> frozenset[str]:
    """What an operator allows, as in `https,ssh,git`; nothing given: https and ssh."""
    if text is None or not text.strip():
        return DEFAULT_SCHEMES
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in KNOWN_SCHEMES:
            raise BadGit(
                f"{word!r} cannot be allowed as a scheme of git addresses.",
                hint=f"MUSTER_GIT_SCHEMES takes some of {', '.join(KNOWN_SCHEMES)}, with commas between.",
            )
    return frozenset(words)


def checked(source: GitSource, *, schemes: Iterable[str] = KNOWN_SCHEMES) -> GitSource:
    """The source, if its address, names and folder may be used."""
    check_url(source.url, schemes=schemes)
    if source.ref is not None:
        check_ref(source.ref)
    if source.commit is not None and not is_commit(source.commit):
        raise BadGit(f"{source.commit[:80]!r} is not a commit.", hint="Give all 40 digits, or use `ref`.")
    if source.folder is not None:
        check_folder(source.folder)
    return source


def check_url(url: str, *, schemes: Iterable[str] = KNOWN_SCHEMES) -> None:
    """Refuse what is not the address of a repository elsewhere, in a scheme that is allowed."""
    shown = redacted(url[:200])
    if not url or len(url) > MAX_URL or _UNSEEN.search(url):
        raise BadGit(
            f"{shown!r} is not the address of a git repository.",
            hint=f"At most {MAX_URL} characters, no blanks: {_EXAMPLE}.",
        )
    if url.startswith("-"):
        raise BadGit(f"{shown!r} would be an option, not an address.", hint=f"Write {_EXAMPLE}.")
    scheme = scheme_of(url)
    if scheme is None:
        raise BadGit(
            f"{shown!r} is a local path, or no address at all.",
            hint=f"Launch a folder of this machine as a snapshot: muster launch PATH. Else write {_EXAMPLE}.",
        )
    allowed = sorted(schemes)
    if scheme not in allowed:
        raise BadGit(
            f"{shown!r} is fetched by {scheme}, and only {', '.join(allowed)} are allowed here.",
            hint=f"Write {_EXAMPLE}, or ask the operator: MUSTER_GIT_SCHEMES says what is allowed.",
            facts={"scheme": scheme, "allowed": allowed},
        )
    if "://" in url:
        _check_parts(url, shown)


def _check_parts(url: str, shown: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadGit(f"{shown!r} is not an address: {error}.", hint=f"Write {_EXAMPLE}.") from error
    if not host or host.startswith("-") or not parts.path.strip("/"):
        raise BadGit(f"{shown!r} names no repository on a host.", hint=f"Write {_EXAMPLE}.")
    is_secret = parts.password is not None or (parts.username is not None and parts.scheme.lower() != "ssh")
    if is_secret or (parts.username or "").startswith("-"):
        raise BadGit(
            f"{shown!r} carries a user or a password, which would be kept and shown in clear.",
            hint="Leave it out. Let git on the agent's machine know it: a credential helper, or an ssh key.",
        )
    if parts.query or parts.fragment:
        path = re.split("[?#]", shown)[0]  # what is behind it may be a secret
        raise BadGit(f"'{path}…' goes on behind the repository's path.", hint="Give a branch with --ref.")


def scheme_of(url: str) -> str | None:
    """`https`, `ssh` …; `ext` for git's `helper::address`; None for a path."""
    found = _SCHEME.match(url)
    if found:
        return "ext" if found[0].endswith("::") else found[1].lower()
    scp = _SCP_LIKE.fullmatch(url)
    is_scp = scp is not None and not scp["host"].startswith("-") and not scp["path"].startswith("-")
    return "ssh" if is_scp else None


def check_ref(ref: str) -> None:
    """Refuse what git would not take as the name of a branch, a tag or a commit."""
    bad = (
        not 0 < len(ref) <= MAX_NAME
        or ref.startswith(("-", "/", "."))
        or ref.endswith(("/", ".", ".lock"))
        or any(part in ref for part in ("..", "//", "@{", "/."))
        or _REF.fullmatch(ref) is None
    )
    if bad:
        raise BadGit(
            f"{ref[:80]!r} cannot be a branch, a tag or a commit.",
            hint="Write it as `git branch -a` does.",
            facts={"field": "git.ref"},
        )


def check_folder(folder: str) -> None:
    """Refuse what would lead out of the repository."""
    parts = folder.split("/")
    if (
        len(folder) > MAX_URL
        or _has_control(folder)
        or any(part in ("", ".", "..", ".git") for part in parts)
    ):
        raise BadGit(
            f"{folder[:80]!r} is not a folder within a repository.",
            hint="Write it as seen from the repository's root, as in examples/ddp.",
            facts={"field": "git.folder"},
        )


def _has_control(text: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in text)


def is_commit(text: str) -> bool:
    return _COMMIT.fullmatch(text) is not None


def may_be_commit(ref: str) -> bool:
    """Could this be the beginning of a commit's number? A remote does not list those."""
    return _PART_OF_COMMIT.fullmatch(ref) is not None


def pick_commit(listed: Sequence[str], ref: str | None) -> str | None:
    """Which commit `ref` is, by the lines of `git ls-remote`: a branch before a tag, a tag's own commit."""
    known: dict[str, str] = {}
    for line in listed:
        commit, _, name = line.partition("\t")
        if is_commit(commit):
            known[name.strip()] = commit
    names = (
        ["HEAD"] if ref is None else [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref]
    )
    return next((known[name] for name in names if name in known), None)


def near_ref(listed: Sequence[str], ref: str) -> str | None:
    """A branch or tag that `ref` may have been meant for."""
    names = [line.partition("\t")[2].strip() for line in listed]
    short = [name.removeprefix("refs/heads/").removeprefix("refs/tags/") for name in names]
    return nearest(ref, [name for name in short if not name.endswith("^{}")])


def redacted(text: str) -> str:
    """The text without users and passwords in addresses."""
    return _CREDENTIALS.sub(r"\1…@", text)
