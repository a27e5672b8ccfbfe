"""Code of a run from a git repository: fetched once for this machine, checked out for each run.

One bare mirror an address keeps what was fetched. Whatever a repository says, git fetches by the allowed
schemes only, also for submodules, runs no hook, and asks nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from muster.agent.cachedir import CacheDir, in_thread
from muster.agent.tool import run_tool, say_nothing
from muster.client.git import environment
from muster.domain import git
from muster.domain.errors import CheckoutFailed
from muster.domain.source import GitSource

SECONDS = 900.0  #: for one command of git
_TAIL = 8  #: lines of git's complaint that are told
_SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "protocol.file.allow=never"),
    *("-c", "gc.auto=0"),
    *("-c", "advice.detachedHead=false"),
)


class RepositoryCache:
    """Bare mirrors of repositories, one folder each."""

    def __init__(self, root: Path, *, schemes: frozenset[str]) -> None:
        self._cache = CacheDir(root)
        self._schemes = schemes

    async def checkout(self, source: GitSource, target: Path, *, say: Callable[[str], None]) -> str:
        """Put the source's files into `target`; returns the commit they are of."""
        git.checked(source, schemes=self._schemes)
        if shutil.which("git") is None:
            raise CheckoutFailed("There is no git on the agent's machine.", hint="Install git there.")
        key = hashlib.sha256(source.url.encode()).hexdigest()

        def waiting() -> None:
            say("waiting for another run to fetch the same repository")

        async with self._cache.lock(key, waiting=waiting) as lock:
            mirror = _Mirror(self._cache.entry(key), source, schemes=self._schemes, lock=lock)
            await mirror.make(self._cache.scratch(key))
            self._cache.touch(key)
            commit = await mirror.fetch()
            await mirror.check_out(commit, target)
        say(f"checked out {commit} of {git.redacted(source.url)}")
        return commit

    async def prune(self, max_bytes: int, *, keep: Collection[str] = ()) -> list[str]:
        """Remove the longest unused mirrors until the rest fits."""
        return await in_thread(self._cache.prune, max_bytes, keep=keep)


class _Mirror:
    """What is known here of one repository, in the hands of who holds its lock."""

    def __init__(self, folder: Path, source: GitSource, *, schemes: frozenset[str], lock: int) -> None:
        self._folder = folder
        self._source = source
        self._env = _environment(os.environ, schemes)
        self._lock = lock

    async def make(self, scratch: Path) -> None:
        if self._folder.exists():
            await in_thread(_remove_locks, self._folder)
            return
        await in_thread(shutil.rmtree, scratch, ignore_errors=True)
        await self._git(["init", "--quiet", "--bare", "--template=", str(scratch)], scratch.parent)
        await in_thread(scratch.rename, self._folder)

    async def fetch(self) -> str:
        """The wanted commit, brought here."""
        commit = self._source.commit or await self._look_up()
        if commit is not None:
            if await self._has(commit):
                return commit
            just_it = ["fetch", "--quiet", "--depth=1", "--no-tags", "--", self._source.url, commit]
            if (await self._run(just_it, self._folder))[0] == 0:
                return commit  # else: a server may hand out branches and tags only
        await self._fetch_all()
        wanted = commit or self._source.ref or "HEAD"
        verify = ["rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}"]
        status, lines = await self._run(verify, self._folder)
        if status != 0 or not git.is_commit(lines[-1]):
            raise CheckoutFailed(
                f"{git.redacted(self._source.url)} has no commit, branch or tag {wanted!r}.",
                hint="Is it pushed, and spelt as there? `git ls-remote` lists branches and tags.",
            )
        return lines[-1]

    async def check_out(self, commit: str, target: Path) -> None:
        """The files alone: what git keeps about them is removed again."""
        await self._git(["init", "--quiet", "--template=", str(target)], target)
        await in_thread(_share_objects, self._folder, target)
        await self._git(["checkout", "--quiet", "--force", "--detach", commit], target)
        if (target / ".gitmodules").is_file():
            await self._git(["config", "remote.origin.url", self._source.url], target)
            update = ["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"]
            await self._git(update, target)
        await in_thread(_forget_git, target)

    async def _look_up(self) -> str | None:
        """Which commit the ref is now; None: it is no branch or tag."""
        ref = self._source.ref
        if ref is not None and git.is_commit(ref):
            return ref
        listed = await self._git(["ls-remote", "--quiet", "--", self._source.url], self._folder)
        return git.pick_commit(listed, ref)

    async def _has(self, commit: str) -> bool:
        status, _ = await self._run(["cat-file", "-e", f"{commit}^{{commit}}"], self._folder)
        return status == 0

    async def _fetch_all(self) -> None:
        everything = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        shallow = ["--unshallow"] if (self._folder / "shallow").exists() else []
        fetch = ["fetch", "--quiet", "--no-tags", *shallow, "--", self._source.url, *everything]
        await self._git(fetch, self._folder)

    async def _git(self, words: Sequence[str], folder: Path) -> list[str]:
        """Run git; its lines. Its failure is raised in its own words."""
        status, lines = await self._run(words, folder)
        if status != 0:
            raise _failure(words, lines)
        return lines

    async def _run(self, words: Sequence[str], folder: Path) -> tuple[int, list[str]]:
        try:
            async with asyncio.timeout(SECONDS):
                # Git inherits the lock: if the agent is killed, the next one waits for its end.
                return await run_tool(
                    ["git", *_SAFE, *words], folder, say_nothing, env=self._env, inherit=(self._lock,)
                )
        except TimeoutError as error:
            raise CheckoutFailed(
                f"git {words[0]} did not end within {SECONDS:g} s.",
                hint="Is the repository reachable from the agent's machine, and not too big?",
            ) from error


def _environment(environ: Mapping[str, str], schemes: frozenset[str]) -> dict[str, str]:
    """Git runs for a stranger's repository: no key of the agent, no place of another repository."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("MUSTER_")
        and (
            not name.startswith("GIT_")
            or name.startswith(("GIT_SSL_", "GIT_CONFIG_", "GIT_SSH", "GIT_ASKPASS"))
        )
    }
    return environment(kept, schemes=schemes)


def _failure(words: Sequence[str], lines: Sequence[str]) -> CheckoutFailed:
    told = "\n".join(git.redacted(line) for line in lines[-_TAIL:]) or "It said nothing."
    hint = "Check that the agent's machine may fetch it."
    if any(
        sign in told for sign in ("could not read Username", "Authentication failed", "Permission denied")
    ):
        hint = "The agent's machine must sign in there: give its git a credential helper or an ssh key."
    elif "not allowed" in told:
        hint = "The operator of the agent allows schemes with MUSTER_GIT_SCHEMES."
    return CheckoutFailed(f"git {words[0]} failed:\n{told}\n", hint=hint)


def _remove_locks(mirror: Path) -> None:
    """Those of a git that was killed: nobody else is at work here."""
    for lock in mirror.rglob("*.lock"):
        lock.unlink(missing_ok=True)


def _share_objects(mirror: Path, target: Path) -> None:
    """Let the repository in `target` read what the mirror has."""
    kept = target / ".git"
    info = kept / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{mirror.absolute() / 'objects'}\n")
    if (mirror / "shallow").exists():
        shutil.copyfile(mirror / "shallow", kept / "shallow")


def _forget_git(target: Path) -> None:
    """Remove what git keeps of the repository and its submodules."""
    for parent, folders, files in os.walk(target):
        if ".git" in folders:
            folders.remove(".git")
            shutil.rmtree(Path(parent, ".git"), ignore_errors=True)
        elif ".git" in files:
            Path(parent, ".git").unlink()
