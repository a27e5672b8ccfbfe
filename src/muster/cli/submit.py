"""Launching an order: code first, then the run; and, if asked, staying with it to its end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.text import Text

from muster.cli.annotate import annotated
from muster.cli.follow import follow
from muster.cli.main import DONE, FAILED, INTERRUPTED
from muster.cli.order import Order
from muster.cli.output import hint, say, show, show_json
from muster.cli.usage import as_usage
from muster.cli.words import state
from muster.client import upload
from muster.client.api import AsyncClient
from muster.client.upload import Progress, R
from muster.domain.errors import BadCommand
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest, PreviewModel, RunModel

Begin = Callable[[AsyncClient], Awaitable[RunModel]]  #: what makes the run
Look = Callable[[AsyncClient], Awaitable[PreviewModel]]  #: what tells how it would be


async def preview(look: Look, *, json: bool) -> None:
    """Print exactly what would be started."""
    async with AsyncClient() as client:
        found = await look(client)
    if json:
        show_json(found)
        return
    sys.stdout.write(annotated(found.manifest, found.sources))
    say(f"This would run on queue {found.queue} (version {found.queue_version}); {found.checked}.")


async def launch(order: Order, *, json: bool) -> None:
    """Launch, and say where it can be found."""
    await start(partial(_launch, order=order), json=json)


async def start(begin: Begin, *, json: bool) -> None:
    """Make a run, and say where it can be found."""
    async with AsyncClient() as client:
        run = await begin(client)
    if json:
        show_json(run)
        return
    show(state(run.state), Text(f"  {run.name}", style="bold"), f"  {run.id}  on {run.queue}")
    hint(f"muster run logs {run.id} -f")


def launch_and_follow(order: Order, *, json: bool) -> int:
    """Launch, and stay with the run; the exit status is its verdict."""
    return start_and_follow(partial(_launch, order=order), json=json)


def start_and_follow(begin: Begin, *, json: bool) -> int:
    """Make a run, and stay with it; the exit status is its verdict."""
    launched: list[RunModel] = []
    try:
        ended = asyncio.run(_start_and_follow(begin, launched, output=not json))
    except KeyboardInterrupt:
        for run in launched:
            say(f"\nNot following any more. {run.name} goes on.")
            hint(f"muster run stop {run.id}      stops it")
            hint(f"muster run logs {run.id} -f   follows it again")
        return INTERRUPTED
    if json:
        show_json(ended)
    return DONE if ended.state is RunState.SUCCEEDED else FAILED


async def _start_and_follow(begin: Begin, launched: list[RunModel], *, output: bool) -> RunModel:
    async with AsyncClient() as client:
        run = await begin(client)
        launched.append(run)
        say(Text(run.name, style="bold"), f"  {run.id}  on {run.queue}")
        return await follow(client, run, output=output)


async def _launch(client: AsyncClient, order: Order) -> RunModel:
    return await client.launch(await prepared(client, order))


async def prepared(client: AsyncClient, order: Order) -> LaunchRequest:
    """The request, with the code it needs on the server."""
    return await with_source(client, order.request(client.settings), order.folder)


async def with_source(client: AsyncClient, request: R, folder: Path | None) -> R:
    """The same with its code on the server, told as it goes."""
    with _progress() as progress, as_usage(kind=BadCommand):
        return await upload.with_source(
            client, request, folder, progress=progress, note=partial(say, "Note: ")
        )


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
