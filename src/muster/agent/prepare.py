"""Making ready: code and Python environment of one attempt, in its own working directory."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from muster.agent.code import CodeCache
from muster.agent.environment import EnvironmentCache
from muster.agent.managed import merge_into_files
from muster.agent.repository import RepositoryCache
from muster.client.api import AsyncClient
from muster.domain.errors import BadTemplate, CheckoutFailed
from muster.domain.git import read_schemes
from muster.domain.inputs import names_from_data
from muster.domain.observation import AttemptKey
from muster.domain.snapshot import Snapshot
from muster.domain.source import GitSource
from muster.domain.template import fill_known
from muster.engine.port import Place, Work
from muster.wire.agents import ClaimModel


def work_of(claim: ClaimModel, *, macros: Mapping[str, str]) -> Work:
    """The claimed run as an engine sees it, with the agent's own macros filled."""
    run = claim.run
    config = fill_known(claim.bound_config, macros)
    if not isinstance(config, Mapping):
        raise BadTemplate(f"The config of queue {run.queue!r} is not a mapping.")
    return Work(
        key=claim.key,
        run_name=run.name,
        project=run.project,
        entity=run.entity,
        queue=run.queue,
        author=run.author,
        config=config,
        command=tuple(run.command),
        training=run.training.to_domain() if run.training else None,
        env=run.env,
        inputs=run.config,
        image=run.image,
        has_code=run.snapshot is not None or run.git is not None,
        security=claim.security,
    )


CODE_CACHE = 5 * 2**30  #: bytes of code kept beyond what live runs need
REPOSITORY_CACHE = 10 * 2**30
ENVIRONMENT_CACHE = 50 * 2**30
KEEP_WORK = 7 * 24 * 3600.0  #: seconds a working directory stays after its run


class Preparer(Protocol):
    """Makes an attempt ready for its engine."""

    async def prepare(self, claim: ClaimModel, *, say: Callable[[str], None]) -> Place:
        """Everything the attempt needs beside what its manifest says."""

    def clear(self, key: AttemptKey, *, outputs: bool = True) -> None:
        """Remove directories in which the run left nothing. Another attempt may use `outputs` already."""

    def empty(self) -> list[AttemptKey]:
        """Attempts with nothing in their working directory: perhaps over, and nobody cleared it."""

    def without_outputs(self) -> list[str]:
        """Runs with nothing in the directory of their outputs: perhaps over, and nobody cleared it."""

    def clear_outputs(self, run_id: str) -> None:
        """Remove that directory, if the run left nothing in it. No attempt may be using it."""

    async def prune(self, *, live: Collection[AttemptKey], now: float) -> None:
        """Give back disk space: caches beyond their size, working directories of long ago."""


class ClusterPreparer:
    """Nothing is made ready on the agent's machine: the pods fetch what they need."""

    def __init__(self, root: Path, client: AsyncClient) -> None:
        self._root = root
        self._client = client

    async def prepare(self, claim: ClaimModel, *, say: Callable[[str], None]) -> Place:
        secrets = claim.secrets(self._client.url)
        return Place(epoch=claim.epoch, workdir=self._root, output_dir=self._root, env=secrets)

    def clear(self, key: AttemptKey, *, outputs: bool = True) -> None:
        pass

    def empty(self) -> list[AttemptKey]:
        return []

    def without_outputs(self) -> list[str]:
        return []

    def clear_outputs(self, run_id: str) -> None:
        pass

    async def prune(self, *, live: Collection[AttemptKey], now: float) -> None:
        pass


class HostPreparer:
    """Caches shared by all runs of this machine's agents; working directories of their own."""

    def __init__(self, root: Path, client: AsyncClient) -> None:
        self._root = root
        self._client = client
        self._work, self._outputs = root / "work", root / "outputs"
        self._code = CodeCache(root / "code")
        schemes = read_schemes(os.environ.get("MUSTER_GIT_SCHEMES"))
        self._repositories = RepositoryCache(root / "repositories", schemes=schemes)
        self._environments = EnvironmentCache(root / "environments")
        self._in_use: dict[AttemptKey, str] = {}  # attempt → environment it runs in, or is about to

    def _workdir(self, key: AttemptKey) -> Path:
        return self._work / f"{key.run_id}.{key.attempt}"

    def _worked_on(self) -> list[AttemptKey]:
        """Every attempt that has a working directory."""
        parts = (name.rpartition(".") for name in _names(self._work))
        return [
            AttemptKey(run_id=run_id, attempt=int(attempt))
            for run_id, _, attempt in parts
            if run_id and attempt.isdecimal()
        ]

    async def prepare(self, claim: ClaimModel, *, say: Callable[[str], None]) -> Place:
        workdir = self._workdir(claim.key)
        output = self._outputs / claim.run.id
        if claim.adopt and workdir.exists():  # half-made by an agent that died
            await asyncio.to_thread(shutil.rmtree, workdir, ignore_errors=True)
        for folder in (workdir, output):
            folder.mkdir(parents=True, exist_ok=True)
        bin_dirs: tuple[Path, ...] = ()
        env: dict[str, str] = {"MUSTER_URL": self._client.url, "MUSTER_API_KEY": claim.token}
        start = workdir
        if claim.run.snapshot is not None:
            await self._checkout(claim, claim.run.snapshot, workdir)
        elif claim.run.git is not None:
            start = await self._checkout_git(claim.run.git.to_domain(), workdir, say=say)
        if claim.run.snapshot is not None or claim.run.git is not None:
            await _merge_inputs(claim, start)
            made = await self._environments.prepare(start, python=_python(claim.bound_config), progress=say)
            if made is not None:
                bin_dirs = (made.bin,)
                env["VIRTUAL_ENV"] = str(made.bin.parent)
                self._in_use[claim.key] = made.key
        return Place(epoch=claim.epoch, workdir=start, output_dir=output, path_prepend=bin_dirs, env=env)

    def clear(self, key: AttemptKey, *, outputs: bool = True) -> None:
        self._in_use.pop(key, None)
        if outputs:  # first: whoever dies in between leaves what tells of both
            self.clear_outputs(key.run_id)
        with suppress(OSError):  # something is in it: it stays
            self._workdir(key).rmdir()

    def empty(self) -> list[AttemptKey]:
        return [key for key in self._worked_on() if not _names(self._workdir(key))]

    def without_outputs(self) -> list[str]:
        return [run_id for run_id in _names(self._outputs) if not _names(self._outputs / run_id)]

    def clear_outputs(self, run_id: str) -> None:
        with suppress(OSError):  # something is in it: it stays
            (self._outputs / run_id).rmdir()

    async def prune(self, *, live: Collection[AttemptKey], now: float) -> None:
        for key in self._worked_on():
            work = self._workdir(key)
            with suppress(OSError):  # gone meanwhile
                if key not in live and now - work.stat().st_mtime > KEEP_WORK:
                    await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        in_use = await asyncio.to_thread(_environments_in_use, self._root / "environments")
        await self._environments.prune(ENVIRONMENT_CACHE, keep=in_use | set(self._in_use.values()))
        await self._code.prune(CODE_CACHE)
        await self._repositories.prune(REPOSITORY_CACHE)

    async def _checkout_git(self, source: GitSource, workdir: Path, *, say: Callable[[str], None]) -> Path:
        """The folder to start in."""
        await asyncio.to_thread(_clear, workdir)
        await self._repositories.checkout(source, workdir, say=say)
        start = workdir / (source.folder or "")
        if not _is_folder_within(start, workdir):
            raise CheckoutFailed(
                f"The repository has no folder {source.folder!r}.", hint="Name it as seen from its root."
            )
        return start

    async def _checkout(self, claim: ClaimModel, snapshot_id: str, workdir: Path) -> None:
        entity = claim.run.entity
        content = await self._client.get_snapshot(snapshot_id, entity=entity)
        snapshot = Snapshot.from_data(content.manifest)

        async def fetch(target: Path) -> None:
            await self._client.download_snapshot(snapshot_id, target, entity=entity)

        await self._code.checkout(snapshot, fetch, workdir)


async def _merge_inputs(claim: ClaimModel, workdir: Path) -> None:
    """Into the run's own copy of the code, whatever it came from; never into a cache."""
    files = names_from_data(claim.run.managed_files)
    if files:
        await asyncio.to_thread(merge_into_files, workdir, files, claim.run.config)


def _is_folder_within(folder: Path, root: Path) -> bool:
    """Also if it is a link: those of a repository may lead anywhere."""
    return folder.is_dir() and folder.resolve().is_relative_to(root.resolve())


def _clear(folder: Path) -> None:
    """Empty it: an earlier try may have been cut short."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _names(folder: Path) -> list[str]:
    """What is in it. Not by `Path.glob`, which raises when another agent removes a directory meanwhile."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _python(config: Mapping[str, object]) -> str | None:
    value = config.get("python")
    return value if isinstance(value, str) and value else None


def _environments_in_use(root: Path) -> set[str]:
    """Environments that processes of this machine run in, whichever agent started them."""
    prefix = f"VIRTUAL_ENV={root}/".encode()
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # ended meanwhile, or another user's
            words = environ.read_bytes().split(b"\0")
            found |= {word.removeprefix(prefix).decode() for word in words if word.startswith(prefix)}
    return found
