"""Launching an order: code first, then the run; and, if asked, staying with it to its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from muster.cli.annotate import annotated
from muster.cli.follow import follow
from muster.cli.main import DONE, FAILED, INTERRUPTED
from muster.cli.order import Order
from muster.cli.output import hint, say, show, show_json
from muster.cli.usage import as_usage
from muster.cli.words import state
from muster.client.api import AsyncClient
from muster.client.upload import Progress, upload_code
from muster.domain.errors import BadCommand
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest, RunModel


async def preview(order: Order, *, json: bool) -> None:
    """Print exactly what would be started."""
    async with AsyncClient() as client:
        found = await client.preview_launch(order.request(client.settings))
    if json:
        show_json(found)
        return
    sys.stdout.write(annotated(found.manifest, found.sources))
    say(f"This would run on queue {found.queue} (version {found.queue_version}); {found.checked}.")


async def launch(order: Order, *, json: bool) -> None:
    """Launch, and say where it can be found."""
    async with AsyncClient() as client:
        run = await _launch(client, order)
    if json:
        show_json(run)
        return
    show(state(run.state), Text(f"  {run.name}", style="bold"), f"  {run.id}  on {run.queue}")
    hint(f"muster run logs {run.id} -f")


def launch_and_follow(order: Order, *, json: bool) -> int:
    """Launch, and stay with the run; the exit status is its verdict."""
    launched: list[RunModel] = []
    try:
        ended = asyncio.run(_launch_and_follow(order, launched, output=not json))
    except KeyboardInterrupt:
        for run in launched:
            say(f"\nNot following any more. {run.name} goes on.")
            hint(f"muster run stop {run.id}      stops it")
            hint(f"muster run logs {run.id} -f   follows it again")
        return INTERRUPTED
    if json:
        show_json(ended)
    return DONE if ended.state is RunState.SUCCEEDED else FAILED


async def _launch_and_follow(order: Order, launched: list[RunModel], *, output: bool) -> RunModel:
    async with AsyncClient() as client:
        run = await _launch(client, order)
        launched.append(run)
        say(Text(run.name, style="bold"), f"  {run.id}  on {run.queue}")
        return await follow(client, run, output=output)


async def _launch(client: AsyncClient, order: Order) -> RunModel:
    return await client.launch(await prepared(client, order))


async def prepared(client: AsyncClient, order: Order) -> LaunchRequest:
    """The request, with the code it needs on the server."""
    request = order.request(client.settings)
    return request if order.folder is None else await _with_code(client, request, order)


async def _with_code(client: AsyncClient, request: LaunchRequest, order: Order) -> LaunchRequest:
    if order.folder is None:
        return request
    with _progress() as progress, as_usage(kind=BadCommand):
        snapshot, code = await upload_code(
            client, order.folder, command=request.command, entity=request.entity, progress=progress
        )
    for note in code.notes:
        say("Note: ", note)
    return request.model_copy(update={"snapshot": snapshot.id})


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """A bar while code is read and sent, where somebody sees it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def show_progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(bars.task_ids[tasks[what]], completed=done)

        yield show_progress
