"""Making ready: code and Python environment of one attempt, in its own working directory."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from muster.agent.code import CodeCache
from muster.agent.environment import EnvironmentCache
from muster.client.api import AsyncClient
from muster.domain.snapshot import Snapshot
from muster.engine.port import Place, Work
from muster.wire.agents import ClaimModel


def work_of(claim: ClaimModel) -> Work:
    """The claimed run as an engine sees it."""
    run = claim.run
    return Work(
        key=claim.key,
        run_name=run.name,
        project=run.project,
        entity=run.entity,
        queue=run.queue,
        author=run.author,
        config=claim.bound_config,
        command=tuple(run.command),
        training=run.training.to_domain() if run.training else None,
        env=run.env,
        inputs=run.config,
        image=run.image,
        has_code=run.snapshot is not None,
    )


class Preparer:
    """Caches shared by all runs of this machine's agents; working directories of their own."""

    def __init__(self, root: Path, client: AsyncClient) -> None:
        self._root = root
        self._client = client
        self._code = CodeCache(root / "code")
        self._environments = EnvironmentCache(root / "environments")

    def workdir(self, claim: ClaimModel) -> Path:
        return self._root / "work" / claim.run.id / str(claim.attempt)

    async def prepare(self, claim: ClaimModel, *, say: Callable[[str], None]) -> Place:
        """Everything the attempt needs on this machine."""
        workdir = self.workdir(claim)
        output = self._root / "outputs" / claim.run.id
        if claim.adopt and workdir.exists():  # half-made by an agent that died
            await asyncio.to_thread(shutil.rmtree, workdir, ignore_errors=True)
        workdir.mkdir(parents=True, exist_ok=True)
        output.mkdir(parents=True, exist_ok=True)
        bin_dirs: tuple[Path, ...] = ()
        env: dict[str, str] = {"MUSTER_URL": self._client.url, "MUSTER_API_KEY": claim.token}
        if claim.run.snapshot is not None:
            await self._checkout(claim, claim.run.snapshot, workdir)
            made = await self._environments.prepare(workdir, python=_python(claim.bound_config), progress=say)
            if made is not None:
                bin_dirs = (made.bin,)
                env["VIRTUAL_ENV"] = str(made.bin.parent)
        return Place(epoch=claim.epoch, workdir=workdir, output_dir=output, path_prepend=bin_dirs, env=env)

    def clear(self, claim: ClaimModel) -> None:
        """Remove directories in which the run left nothing."""
        for folder in (self.workdir(claim), self._root / "outputs" / claim.run.id):
            for empty in (folder, folder.parent):
                try:
                    empty.rmdir()
                except OSError:
                    break  # something is in it: it stays

    async def _checkout(self, claim: ClaimModel, snapshot_id: str, workdir: Path) -> None:
        entity = claim.run.entity
        content = await self._client.get_snapshot(snapshot_id, entity=entity)
        snapshot = Snapshot.from_data(content.manifest)

        async def fetch(target: Path) -> None:
            await self._client.download_snapshot(snapshot_id, target, entity=entity)

        await self._code.checkout(snapshot, fetch, workdir)


def _python(config: Mapping[str, object]) -> str | None:
    value = config.get("python")
    return value if isinstance(value, str) and value else None
