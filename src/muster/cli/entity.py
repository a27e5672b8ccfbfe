"""`muster entity`: teams, who is in them, who did what."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

from muster.cli.options import Entity, Json
from muster.cli.output import connect, hint, show, show_facts, show_json, show_table
from muster.cli.table import column
from muster.cli.usage import BadUsage
from muster.cli.words import ago, count, moment
from muster.domain.access import Role

app = typer.Typer(
    help="Create teams, see and change who is in them.", no_args_is_help=True, add_completion=False
)
member = typer.Typer(help="Change who is in a team.", no_args_is_help=True)
app.add_typer(member, name="member")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user or team.")]
Team = Annotated[str, typer.Argument(metavar="TEAM", help="Name of the team.")]
User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


@app.command()
def create(name: Name, json: Json = False) -> None:
    """Create a team. You are its first admin."""
    with connect() as client:
        made = client.create_entity(name)
    if json:
        show_json(made)
        return
    show(f"Team {made.name} is there, and you are its admin.")
    hint(f"muster entity member add {made.name} USER")


@app.command("list")
def list_entities(json: Json = False) -> None:
    """List the users and teams you belong to; for an admin of the server, all."""
    from muster.cli.queueview import limit_text

    with connect() as client:
        page = client.list_entities()
    if json:
        show_json(page)
        return
    columns = (
        column("NAME", least=12),
        column("KIND"),
        column("MEMBERS", right=True),
        column("CREATED"),
        column("LIMITS", spare=1),
    )
    rows = [
        (item.name, item.kind, len(item.members), ago(item.created_at), limit_text(item.limits))
        for item in page.items
    ]
    show_table(columns, rows, empty="There is none.")


@app.command("show")
def show_one(name: Name, json: Json = False) -> None:
    """Show who is in it, in which role, and its limits."""
    from muster.cli.queueview import limit_text

    with connect() as client:
        found = client.get_entity(name)
    if json:
        show_json(found)
        return
    show_facts(
        [
            (found.kind, found.name),
            ("created", moment(found.created_at)),
            ("members", count(len(found.members), "member")),
            ("limits", limit_text(found.limits)),
        ]
    )
    show()
    rows = [(user, role.value) for user, role in sorted(found.members.items())]
    show_table((column("USER"), column("ROLE")), rows, empty="Nobody is in it.")


@app.command()
def limit(
    name: Name,
    runs: Annotated[
        str | None, typer.Option(metavar="N", help="Runs at once; `none` lifts the limit.")
    ] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="N", help="GPUs at once; `none` lifts the limit.")
    ] = None,
    json: Json = False,
) -> None:
    """Limit what all queues of a user or team may run at once. For an admin of the server."""
    from muster.cli.queuefile import read_limit
    from muster.cli.queueview import limit_text
    from muster.wire.queues import LimitModel

    if runs is None and gpus is None:
        raise BadUsage("There is nothing to limit.", hint="Give --runs N, --gpus N, or both.")
    with connect() as client:
        now = client.get_entity(name).limits
        wanted = LimitModel(
            runs=now.runs if runs is None else read_limit("--runs", runs),
            gpus=now.gpus if gpus is None else read_limit("--gpus", gpus),
        )
        changed = client.set_entity_limits(name, wanted)
    if json:
        show_json(changed)
    else:
        said = limit_text(changed.limits)
        show(f"{name} may have {said} at once." if said else f"{name} is not limited.")


@app.command()
def audit(
    entity: Entity = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List who did what, newest first, in the entities you manage."""
    with connect() as client:
        page = client.list_audit(entity=entity or client.settings.entity, limit=limit)
    if json:
        show_json(page)
        return
    columns = (
        column("AT"),
        column("ACTOR", least=8),
        column("ACTION"),
        column("ENTITY", least=8, spare=1),
        column("TARGET", least=10),
        column("MORE", least=8, spare=2),
    )
    rows = [
        (
            moment(item.at),
            item.actor,
            item.action,
            item.entity,
            item.target,
            json_module.dumps(item.data) if item.data else "",
        )
        for item in page.items
    ]
    show_table(columns, rows, empty="Nothing was done yet.")
    if page.next is not None:
        hint(f"There is more: --limit {min(1000, limit * 2)}")


@member.command("add")
def add_member(
    team: Team,
    user: User,
    role: Annotated[Role, typer.Option(help="What the user may do.")] = Role.MEMBER,
    json: Json = False,
) -> None:
    """Take a user into a team, or change the role."""
    from muster.wire.accounts import RoleRequest

    with connect() as client:
        client.set_member(team, user, RoleRequest(role=role))
        changed = client.get_entity(team)
    if json:
        show_json(changed)
    else:
        show(f"{user} is {role.value} of {team}.")


@member.command("remove")
def remove_member(team: Team, user: User, json: Json = False) -> None:
    """Take a user out of a team."""
    with connect() as client:
        client.remove_member(team, user)
        changed = client.get_entity(team)
    if json:
        show_json(changed)
    else:
        show(f"{user} is no longer in {team}.")
