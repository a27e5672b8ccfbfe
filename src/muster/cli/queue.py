"""`muster queue`: named places to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.line import line
from muster.cli.main import FAILED
from muster.cli.options import Entity, Json, OneQueue, Yes
from muster.cli.output import confirm, connect, hint, show, show_facts, show_json, show_table
from muster.cli.queueoptions import (
    Config,
    DefaultImage,
    Limit,
    Order,
    Priorities,
    SecurityLevel,
    Var,
    options_of,
)
from muster.cli.table import column
from muster.cli.usage import BadUsage
from muster.cli.words import ago, moment

if TYPE_CHECKING:
    from muster.wire.queues import QueueModel

app = typer.Typer(
    help="Create, look at, change, pause and drain queues.", no_args_is_help=True, add_completion=False
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the new queue.")],
    config: Config = None,
    resource: Annotated[
        str | None, typer.Option(metavar="KIND", help="What runs it.  [default: process]")
    ] = None,
    var: Var = None,
    order: Order = None,
    priorities: Priorities = None,
    limit: Limit = None,
    security: SecurityLevel = None,
    default_image: DefaultImage = None,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """Create a queue from a config file.

    The file is the config itself, or has it under `config`, beside `resource`, `variables` and the rules:
    `order`, `priorities`, `limits`, `overridable`, `allow`, `security`, `default_image`.
    """
    from muster.cli.queuefile import read_new
    from muster.wire.queues import QueueRequest

    options = options_of(var, order, priorities, limit, security, default_image)
    with connect() as client:
        asked = read_new(config, resource=resource, options=options)
        request = QueueRequest(name=name, entity=entity or client.settings.entity, **asked)
        _done(client.create_queue(request), "is there", json=json)


@app.command()
def parse(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML or JSON; - for standard input.")],
    resource: Annotated[str | None, typer.Option(metavar="KIND", help="What is to run it.")] = None,
    var: Var = None,
    json: Json = False,
) -> None:
    """List what is in a queue's file: variables, macros, objects, and what is wrong or missing.

    Nothing is kept. It exits with 1 where something is wrong.
    """
    from muster.cli import yamlfile
    from muster.cli.queuefile import read_variables
    from muster.cli.queueview import show_survey
    from muster.wire.queues import ParseRequest

    request = ParseRequest(
        text=yamlfile.read_text(file), resource=resource, variables=read_variables(var or [])
    )
    with connect() as client:
        found = client.parse_queue(request)
    if json:
        show_json(found)
    else:
        show_survey(found, yamlfile.name_of(file))
    if found.errors:
        raise typer.Exit(FAILED)


@app.command("list")
def list_queues(entity: Entity = None, json: Json = False) -> None:
    """List the queues."""
    from muster.cli.queueview import standing

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
            standing(queue),
        )
        for queue in page.items
    ]
    show_table(columns, rows, empty="There is no queue. `muster queue create` makes one.")


@app.command("show")
def show_one(
    name: OneQueue,
    version: Annotated[str | None, typer.Option(metavar="VERSION", help="As it was: v2.")] = None,
    diff: Annotated[
        tuple[str, str] | None, typer.Option(metavar="FROM TO", help="How two versions differ: v2 v3.")
    ] = None,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """Show a queue: its rules, its variables and its config; or an old version of it, or a difference."""
    from muster.cli import queueview

    if version is not None and diff is not None:
        raise BadUsage("--version and --diff ask for different things.", hint="Give one of them.")
    with connect() as client:
        owner = entity or client.settings.entity
        if diff is not None:
            older, newer = (_number(word) for word in diff)
            found = client.diff_queue(name, from_version=older, to_version=newer, entity=owner)
            show_json(found) if json else queueview.show_diff(found)
            return
        if version is None:
            queue = client.get_queue(name, entity=owner)
            show_json(queue) if json else queueview.show_queue(queue)
            return
        old = client.get_queue_version(name, _number(version), entity=owner)
    if json:
        show_json(old)
        return
    show_facts(
        [
            ("queue", f"{old.queue} (version {old.version}; the newest is {old.newest})"),
            *queueview.rule_facts(old),
            ("made", f"{moment(old.created_at)} by {old.created_by}"),
        ]
    )
    queueview.show_definition(old.variables, old.config)


@app.command()
def versions(
    name: OneQueue,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="At most so many.")] = 20,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """List the versions of a queue, the newest first, and what each changed."""
    with connect() as client:
        page = client.list_queue_versions(name, entity=entity or client.settings.entity, limit=limit)
    if json:
        show_json(page)
        return
    columns = (column("VERSION"), column("MADE"), column("BY", least=8), column("CHANGED", least=12))
    rows = [
        (f"v{item.version}", ago(item.created_at), item.created_by, ", ".join(item.changed))
        for item in page.items
    ]
    show_table(columns, rows, empty="")
    if page.next is not None:
        hint(f"There are older ones: --limit {min(1000, limit * 2)}")


@app.command()
def rollback(
    name: OneQueue,
    version: Annotated[str, typer.Argument(help="Which: v2.")],
    entity: Entity = None,
    json: Json = False,
) -> None:
    """Make a new version of a queue that says what an old one said."""
    number = _number(version)
    with connect() as client:
        owner = entity or client.settings.entity
        before = client.get_queue(name, entity=owner)
        changed = client.roll_back_queue(name, number, entity=owner)
    same = changed.version == before.version
    _done(changed, f"is as v{number} already" if same else f"is as v{number} was", json=json)


@app.command()
def edit(
    name: OneQueue,
    config: Config = None,
    var: Var = None,
    order: Order = None,
    priorities: Priorities = None,
    limit: Limit = None,
    security: SecurityLevel = None,
    default_image: DefaultImage = None,
    entity: Entity = None,
    json: Json = False,
) -> None:
    """Make a new version of a queue; without options, in your editor.

    Runs that wait keep the version they were launched with. --var adds a variable or replaces one, --limit
    changes the limits it names; what is not named stays.
    """
    from muster.cli.queuefile import edit_in_editor, read_edit

    options = options_of(var, order, priorities, limit, security, default_image)
    given = [config, var, order, priorities, limit, security, default_image]
    with connect() as client:
        owner = entity or client.settings.entity
        queue = client.get_queue(name, entity=owner)
        if all(value is None for value in given):
            changed = edit_in_editor(queue, lambda asked: client.edit_queue(name, asked, entity=owner))
        else:
            changed = client.edit_queue(name, read_edit(queue, config, options=options), entity=owner)
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


app.command("line", no_args_is_help=True)(line)


@app.command()
def pause(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Start no more runs of a queue. What runs goes on."""
    with connect() as client:
        _done(client.pause_queue(name, entity=entity or client.settings.entity), "is paused", json=json)


@app.command()
def drain(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Take no more launches into a queue. What waits and what runs goes on."""
    with connect() as client:
        _done(client.drain_queue(name, entity=entity or client.settings.entity), "is draining", json=json)


@app.command()
def resume(name: OneQueue, entity: Entity = None, json: Json = False) -> None:
    """Start runs of a queue again, and take launches again."""
    with connect() as client:
        _done(client.resume_queue(name, entity=entity or client.settings.entity), "is open", json=json)


def _done(queue: QueueModel, what: str, *, json: bool) -> None:
    if json:
        show_json(queue)
    else:
        show(f"Queue {queue.name} {what} (version {queue.version}).")


def _number(word: str) -> int:
    """`v2` and `2` are the same version."""
    digits = word.removeprefix("v")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 2**31:
        raise BadUsage(
            f"{word!r} is not a version.", hint="Write it as v2; `muster queue versions` lists them."
        )
    return int(digits)
