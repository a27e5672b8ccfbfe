"""`muster queue`: named places to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.options import Entity, Json, OneQueue, Yes
from muster.cli.output import confirm, connect, show, show_facts, show_json, show_table
from muster.cli.table import column
from muster.cli.words import ago, moment

if TYPE_CHECKING:
    from muster.wire.queues import QueueModel

app = typer.Typer(
    help="Create, look at, change and pause queues.", no_args_is_help=True, add_completion=False
)

Config = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="YAML or JSON; - for standard input.")
]
Var = Annotated[
    list[str] | None,
    typer.Option(metavar="SPEC", help="Variable: gpus:integer:default=1,min=1,max=4. Repeat."),
]
VARIABLE_COLUMNS = (
    column("VARIABLE"),
    column("TYPE", spare=1),
    column("DEFAULT", least=8),
    column("ALLOWED", least=8),
    column("DESCRIPTION", least=12, spare=2),
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the new queue.")],
    config: Config = None,
    resource: Annotated[
        str | None, typer.Option(metavar="KIND", help="What runs it.  [default: process]")
    ] = None,
    var: Var = None,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """Create a queue from a config file.

    The file is the config itself, or has the keys `resource`, `config` and `variables`.
    """
    from muster.cli.queuefile import read_new
    from muster.wire.queues import QueueRequest

    with connect() as client:
        asked = read_new(config, resource=resource, specs=var or [])
        request = QueueRequest(name=name, entity=entity or client.settings.entity, **asked)
        _done(client.create_queue(request), "is there", json=json)


@app.command("list")
def list_queues(entity: Entity = None, json: Json = False) -> None:
    """List the queues."""
    with connect() as client:
        page = client.list_queues(entity=entity or client.settings.entity)
    if json:
        show_json(page)
        return
    columns = (
        column("NAME", least=12),
        column("ENTITY", least=8, spare=1),
        column("RESOURCE", spare=2),
        column("WAITING", right=True),
        column("RUNNING", right=True),
        column("AGENTS", right=True),
        column("STATE"),
    )
    rows = [
        (
            queue.name,
            queue.entity,
            queue.resource,
            queue.waiting,
            queue.running,
            queue.agents_online,
            _standing(queue),
        )
        for queue in page.items
    ]
    show_table(columns, rows, empty="There is no queue. `muster queue create` makes one.")


@app.command("show")
def show_one(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Show a queue: its variables and its config."""
    from muster.cli import yamlfile

    with connect() as client:
        queue = client.get_queue(name, entity=entity or client.settings.entity)
    if json:
        show_json(queue)
        return
    show_facts(
        [
            ("queue", f"{queue.entity}/{queue.name} (version {queue.version})"),
            ("resource", queue.resource),
            ("state", _standing(queue)),
            ("runs", f"{queue.waiting} waiting, {queue.running} running"),
            ("agents", f"{queue.agents_online} online"),
            ("created", f"{moment(queue.created_at)} by {queue.created_by}"),
        ]
    )
    if queue.variables:
        show()
        rows = [_variable_row(variable, rule) for variable, rule in queue.variables.items()]
        show_table(VARIABLE_COLUMNS, rows, empty="")
    show()
    show(yamlfile.dump({"config": queue.config}).rstrip("\n"))


@app.command()
def edit(
    name: OneQueue, config: Config = None, var: Var = None, entity: Entity = None, json: Json = False
) -> None:
    """Make a new version of a queue; without options, in your editor.

    Runs that wait keep the version they were launched with. --var adds a variable or replaces one.
    """
    from muster.cli.queuefile import edit_in_editor, read_edit

    with connect() as client:
        owner = entity or client.settings.entity
        queue = client.get_queue(name, entity=owner)
        if config is None and not var:
            changed = edit_in_editor(queue, lambda asked: client.edit_queue(name, asked, entity=owner))
        else:
            changed = client.edit_queue(name, read_edit(queue, config, specs=var or []), entity=owner)
    _done(changed, "changed" if changed.version != queue.version else "is as it was", json=json)


@app.command()
def delete(name: OneQueue, entity: Entity = None, yes: Yes = False, json: Json = False) -> None:
    """Delete a queue that has no runs."""
    with connect() as client:
        owner = entity or client.settings.entity
        queue = client.get_queue(name, entity=owner)
        confirm(f"Delete the queue {queue.name}, with its config and variables?", yes=yes)
        client.delete_queue(name, entity=owner)
    if json:
        show_json(queue)
    else:
        show(f"Queue {name} is deleted.")


@app.command()
def pause(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Start no more runs of a queue. What runs goes on."""
    with connect() as client:
        _done(client.pause_queue(name, entity=entity or client.settings.entity), "is paused", json=json)


@app.command()
def resume(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Start runs of a queue again."""
    with connect() as client:
        _done(client.resume_queue(name, entity=entity or client.settings.entity), "is open", json=json)


def _done(queue: QueueModel, what: str, *, json: bool) -> None:
    if json:
        show_json(queue)
    else:
        show(f"Queue {queue.name} {what} (version {queue.version}).")


def _standing(queue: QueueModel) -> str:
    if queue.paused_at is not None:
        return f"paused {ago(queue.paused_at)}"
    return "open" if queue.agents_online else "no agent"


def _variable_row(name: str, rule: dict[str, Any]) -> tuple[str, ...]:
    default = rule.get("default")
    return (
        name,
        str(rule.get("type", "")),
        "(required)" if default is None else str(default),
        _allowed(rule),
        str(rule.get("description", "")),
    )


def _allowed(rule: dict[str, Any]) -> str:
    if rule.get("choices"):
        return ", ".join(map(str, rule["choices"]))
    low, high = rule.get("minimum"), rule.get("maximum")
    if low is not None and high is not None:
        return f"{low} … {high}"
    if low is not None:
        return f"≥ {low}"
    return f"≤ {high}" if high is not None else ""
