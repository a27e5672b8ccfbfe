"""Grids: launched as one, followed as one, the exit status is that of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from muster.cli.main import DONE, FAILED, INTERRUPTED
from muster.cli.news import HOLD, patiently
from muster.cli.order import Order
from muster.cli.output import hint, say, show, show_json
from muster.cli.submit import prepared, preview
from muster.cli.words import count, state
from muster.client.api import AsyncClient
from muster.domain.run import RunState
from muster.wire.groups import GridRequest, GroupModel, GroupRuns

if TYPE_CHECKING:
    from muster.domain.grid import Grid


async def preview_grid(order: Order, grid: Grid, *, json: bool) -> None:
    """Print what would be started for the first of the runs."""
    first = next(grid.points(order.config))
    await preview(order.with_config(first).preview, json=json)
    if not json:
        say(f"This is the first of {count(grid.size, 'run')}.")


async def launch_grid(order: Order, grid: Grid, *, json: bool) -> None:
    async with AsyncClient() as client:
        made = await _launch(client, order, grid)
    if json:
        show_json(made)
        return
    _show_made(made, show)
    hint(f"muster run compare --group {made.id}   shows how they do")
    hint(f"muster run stop --group {made.id}      stops them all")


def launch_grid_and_follow(order: Order, grid: Grid, *, json: bool) -> int:
    """Stay with the group until all runs have ended; 0 only if all succeeded."""
    launched: list[GroupRuns] = []
    try:
        group = asyncio.run(_launch_and_follow(order, grid, launched))
    except KeyboardInterrupt:
        for made in launched:
            say(f"\nNot following any more. The {count(len(made.items), 'run')} go on.")
            hint(f"muster run stop --group {made.id}   stops them")
        return INTERRUPTED
    if json:
        show_json(group)
    else:
        hint(f"muster run compare --group {group.id}")
    return DONE if set(group.states) == {RunState.SUCCEEDED} else FAILED


async def _launch_and_follow(order: Order, grid: Grid, launched: list[GroupRuns]) -> GroupModel:
    async with AsyncClient() as client:
        made = await _launch(client, order, grid)
        launched.append(made)
        _show_made(made, say)
        return await follow_group(client, made.id)


async def follow_group(client: AsyncClient, group_id: str) -> GroupModel:
    """A line for every change of what the runs are doing, until all have ended."""
    seen: int | None = None
    told: Mapping[RunState, int] = {}
    while True:
        group = await patiently(
            lambda seen: client.get_group(group_id, newer_than=seen, wait=HOLD if seen is not None else 0),
            seen,
        )
        seen = group.version
        if group.states != told:
            told = group.states
            say("  ", summary(group))
        if group.ended:
            return group


def summary(group: GroupModel) -> Text:
    """`3 queued, 2 running, 1 failed`"""
    parts = [
        Text.assemble(f"{group.states[each]} ", state(each)) for each in RunState if each in group.states
    ]
    return Text(", ").join(parts)


async def _launch(client: AsyncClient, order: Order, grid: Grid) -> GroupRuns:
    request = await prepared(client, order)
    return await client.launch_grid(GridRequest(launch=request, grid=grid.to_data()))


def _show_made(made: GroupRuns, tell: Callable[..., None]) -> None:
    first, last = made.items[0], made.items[-1]
    names = first.name if first is last else f"{first.name} … {last.name}"
    tell(Text(names, style="bold"), f"  group {made.id}: {count(len(made.items), 'run')} on {first.queue}")
