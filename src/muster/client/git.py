"""Which commit a launch from a repository means, looked up where the user is, before it is sent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from muster.domain import git
from muster.domain.errors import BadGit
from muster.domain.source import GitSource

SECONDS = 10.0  #: for the remote to answer; then the agent looks it up


def environment(environ: Mapping[str, str], *, schemes: frozenset[str]) -> dict[str, str]:
    """For git: it asks nobody, and fetches by these schemes only, whatever a repository tells it."""
    return {
        **environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(sorted(schemes)),
        "GIT_SSH_COMMAND": environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes -oConnectTimeout=10"),
        "LC_ALL": "C",
    }


async def pinned(source: GitSource) -> GitSource:
    """The source with its commit, if the remote says it in time. Refuses a branch it does not have."""
    git.checked(source)
    if source.commit is not None:
        return source
    if source.ref is not None and git.is_commit(source.ref):
        return replace(source, commit=source.ref)
    listed = await _list_remote(source.url)
    if listed is None:
        return source
    commit = git.pick_commit(listed, source.ref)
    if commit is None and source.ref is not None and not git.may_be_commit(source.ref):
        near = git.near_ref(listed, source.ref)
        raise BadGit(
            f"{git.redacted(source.url)} has no branch or tag {source.ref!r}.",
            hint=f"Did you mean {near!r}?" if near else f"`git ls-remote {source.url}` lists what it has.",
        )
    return replace(source, commit=commit)


async def _list_remote(url: str) -> list[str] | None:
    """What the remote has; None: it cannot be asked from here."""
    try:
        async with asyncio.timeout(SECONDS):
            said = await ask("ls-remote", "--quiet", "--", url)
    except (OSError, TimeoutError, GitFailed):
        return None
    return said.decode(errors="replace").splitlines()


class GitFailed(Exception):
    """A command of git did not do what it was asked."""


async def ask(*words: str, folder: Path | None = None) -> bytes:
    """What git answers. Who cancels this ends git and whatever it has started."""
    process = await asyncio.create_subprocess_exec(
        *("git", *words),
        cwd=folder,
        env=environment(os.environ, schemes=frozenset(git.KNOWN_SCHEMES)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        raise GitFailed(words[0])
    return said
