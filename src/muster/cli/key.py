"""`muster key`: API keys, and the users they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import Entity, Json
from muster.cli.output import connect, say, show, show_json, show_table
from muster.cli.table import column
from muster.cli.usage import BadUsage
from muster.cli.words import ago, moment

if TYPE_CHECKING:
    from muster.wire.accounts import NewKeyModel

app = typer.Typer(
    help="Make, list and revoke API keys; add users.", no_args_is_help=True, add_completion=False
)


@app.command(no_args_is_help=True)
def create(
    label: Annotated[str | None, typer.Argument(help="What the key is for.", show_default=False)] = None,
    agent: Annotated[bool, typer.Option("--agent", help="A key for an agent: it can do no more.")] = False,
    entity: Entity = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, metavar="N", help="Valid for so many days.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add this user; the key is the user's first.")
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="With --user: an admin of the server.")] = False,
    json: Json = False,
) -> None:
    """Make a key for yourself or an agent, or add a user with a first key.

    The key alone goes to standard output, and is never shown again.
    """
    from muster.wire.accounts import KeyRequest, UserRequest

    if user is not None and (label or agent or entity or days):
        raise BadUsage("A new user's first key has no further options.", hint="Give --user and --admin only.")
    if user is None and admin:
        raise BadUsage("--admin is for a new user.", hint="Name the user: --user NAME --admin")
    if user is None and not label:
        raise BadUsage("The key needs a label.", hint="Say what it is for: muster key create laptop")
    with connect() as client:
        if user is not None:
            made = client.create_user(UserRequest(name=user, admin=admin))
        else:
            owner = entity or client.settings.entity
            kind = "agent" if agent else "user"
            request = KeyRequest.model_validate(
                {"label": label, "kind": kind, "entity": owner if agent else None, "days": days}
            )
            made = client.create_key(request)
    if json:
        show_json(made)
    else:
        _show_new(made)


def _show_new(made: NewKeyModel) -> None:
    until = f", valid until {moment(made.expires_at)}" if made.expires_at else ""
    whose = f"for agents of {made.entity}" if made.entity else f"of {made.user}"
    say(f"Key {made.id} {whose}{until}. It is shown this once:")
    show(made.key)


@app.command("list")
def list_keys(json: Json = False) -> None:
    """List your keys; for an admin of the server, all keys."""
    with connect() as client:
        page = client.list_keys()
    if json:
        show_json(page)
        return
    columns = (
        column("ID"),
        column("LABEL", least=10),
        column("KIND"),
        column("USER", least=8),
        column("ENTITY", least=8, spare=2),
        column("CREATED", spare=1),
        column("EXPIRES"),
    )
    rows = [
        (
            key.id,
            key.label,
            key.kind.value,
            key.user,
            key.entity,
            ago(key.created_at),
            moment(key.expires_at) if key.expires_at else "never",
        )
        for key in page.items
    ]
    show_table(columns, rows, empty="There is no key.")


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, from the list.")],
    json: Json = False,
) -> None:
    """Make a key worthless, at once."""
    with connect() as client:
        client.revoke_key(key_id)
    if json:
        show_json({"id": key_id})
    else:
        show(f"Key {key_id} is revoked.")
