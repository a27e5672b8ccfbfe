"""The SDK's grids: `muster.launch_grid(…)` gives a `Group` of runs to wait for, compare and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from muster.client.api import AsyncClient
from muster.client.sdk import Asked, Run, default_client, request_for
from muster.client.sync import Client
from muster.client.upload import Progress, with_source
from muster.domain.grid import Grid
from muster.domain.run import RunState
from muster.wire.groups import GridRequest, GroupModel, GroupRuns
from muster.wire.runs import LaunchRequest, RunModel

_HOLD = 20.0  #: seconds one request waits for news of a group
_PAGE = 1000


class AsyncGroup:
    """Runs that were launched together, with `await`."""

    def __init__(self, client: AsyncClient, group_id: str) -> None:
        self._client = client
        self.id = group_id

    async def refresh(self) -> GroupModel:
        """How its runs stand now."""
        return await self._client.get_group(self.id)

    async def wait(self, timeout: float | None = None) -> GroupModel:
        """Until all runs have ended. `TimeoutError` if that takes longer than `timeout`."""
        async with asyncio.timeout(timeout):
            group = await self.refresh()
            while not group.ended:
                group = await self._client.get_group(self.id, newer_than=group.version, wait=_HOLD)
        return group

    async def runs(self) -> list[RunModel]:
        """All of them as they stand, in the order of the grid."""
        found: list[RunModel] = []
        cursor: str | None = None
        while True:
            page = await self._client.list_runs(group=self.id, limit=_PAGE, cursor=cursor)
            found += page.items
            cursor = page.next
            if cursor is None:
                return found[::-1]

    async def stop(self) -> int:
        """Ask all of them to stop; how many had not ended and were not asked before."""
        return (await self._client.stop_group(self.id)).asked


class Group:
    """Runs that were launched together."""

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group = AsyncGroup(client.asynchronous, group_id)

    def __repr__(self) -> str:
        return f"<muster.Group {self.id}>"

    @property
    def id(self) -> str:
        return self._group.id

    @property
    def states(self) -> dict[RunState, int]:
        """How many runs are in each state now."""
        return self._client.wait(self._group.refresh()).states

    @property
    def runs(self) -> list[Run]:
        """All of them as they stand, in the order of the grid."""
        return [Run(self._client, model) for model in self._client.wait(self._group.runs())]

    def wait(self, timeout: float | None = None) -> dict[RunState, int]:
        """Until all runs have ended; how many ended in which state. `TimeoutError` after `timeout`."""
        return self._client.wait(self._group.wait(timeout)).states

    def stop(self) -> int:
        """Ask all of them to stop; how many had not ended and were not asked before."""
        return self._client.wait(self._group.stop())


def launch_grid(
    path: str | PathLike[str] | None = None,
    *,
    grid: Mapping[str, Sequence[Any]],
    client: Client | None = None,
    progress: Progress | None = None,
    **asked: Unpack[Asked],
) -> Group:
    """Launch a run for each combination of the grid's values: `grid={"lr": [0.1, 0.01], "seed": range(4)}`.

    Everything else is as for `launch`, and the same for all of them.
    """
    owner = client or default_client()
    folder = Path(path) if path is not None else None
    request = request_for(owner.settings, folder, **asked)
    axes = Grid.from_data(grid)
    made = owner.wait(_launch(owner.asynchronous, request, axes, folder, progress))
    return Group(owner, made.id)


async def _launch(
    client: AsyncClient, request: LaunchRequest, grid: Grid, folder: Path | None, progress: Progress | None
) -> GroupRuns:
    whole = await with_source(client, request, folder, progress=progress)
    return await client.launch_grid(GridRequest(launch=whole, grid=grid.to_data()))
