"""Where the code of a run comes from, and which job it belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GitSource:
    """Code in a repository, at a commit once somebody has looked it up."""

    url: str
    ref: str | None = None  #: branch, tag or commit, as asked; None: the default branch
    commit: str | None = None
    folder: str | None = None  #: within the repository; None: its root


@dataclass(frozen=True, kw_only=True)
class JobRef:
    """One version of a job."""

    id: str
    version: int
