"""The line of a queue: what waits in it, and giving a run another place there."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.complete import queue_names
from muster.cli.options import Entity, Json, OneRun
from muster.cli.output import connect, hint, show, show_json, show_table
from muster.cli.pick import pick_run
from muster.cli.table import column
from muster.cli.usage import BadUsage
from muster.cli.words import ago, count
from muster.domain.run import Priority


def line(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=queue_names)
    ],
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Runs to show.")] = 20,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """List what waits in a queue, in the order in which it would be started."""
    with connect() as client:
        found = client.get_queue_line(name, entity=entity or client.settings.entity, limit=limit)
    if json:
        show_json(found)
        return
    columns = (
        column("", right=True),
        column("RUN"),
        column("NAME", least=20),
        column("PRIORITY"),
        column("AUTHOR", least=6, spare=1),
        column("CREATED"),
    )
    rows = [
        (str(number), run.id, run.name, run.priority.value, run.author, ago(run.created_at))
        for number, run in enumerate(found.items, start=1)
    ]
    show_table(columns, rows, empty="Nothing waits here.")
    if found.more:
        hint(f"{count(found.more, 'run')} more wait behind these; --limit shows more.")


def move(
    run: OneRun,
    priority: Annotated[
        Priority | None, typer.Option(help="As if it had been launched with this one.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="RUN", help="Right before this run. For an admin.")
    ] = None,
    behind: Annotated[
        str | None, typer.Option(metavar="RUN", help="Right behind this run. For an admin.")
    ] = None,
    json: Json = False,
) -> None:
    """Give a run that waits another priority, or another place in its queue."""
    from muster.wire.runs import PlaceRequest

    if sum(option is not None for option in (priority, before, behind)) != 1:
        raise BadUsage(
            "A run is moved to one place.", hint="Give one of --priority, --before RUN and --behind RUN."
        )
    with connect() as client:
        request = PlaceRequest(
            priority=priority,
            before=pick_run(client, before).id if before else None,
            behind=pick_run(client, behind).id if behind else None,
        )
        moved = client.place_run(pick_run(client, run).id, request)
    if json:
        show_json(moved)
        return
    show(f"{moved.name} waits in {moved.queue}, priority {moved.priority.value}.")
    hint(f"muster queue line {moved.queue}   shows the order")
