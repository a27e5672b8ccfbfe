"""`muster login`: which server, and who you are there."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import Json
from muster.cli.output import connect, is_somebody_there, say, show_facts, show_json
from muster.cli.usage import BadUsage
from muster.client.settings import ClientSettings, config_path, load, write_config
from muster.domain.access import KeyKind

if TYPE_CHECKING:
    from muster.wire.accounts import MeModel

app = typer.Typer(add_completion=False)

_KEY = re.compile(r"[!-~]+")


@app.command()
def login(
    url: Annotated[
        str | None,
        typer.Argument(help="Address of the server.", show_default="MUSTER_URL, else the last one"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="API key; - reads it from standard input. Without, you are asked."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Show who you are, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Sign in: check the key with the server, and keep both for the next commands.

    They are kept in ~/.config/muster/config.toml, which only you can read.
    """
    if show and (url or key):
        raise BadUsage("--show shows who you are; it takes no address and no key.")
    if show:
        with connect() as client:
            _show(client.get_me(), client.url, json=json)
        return
    known = load(url=url)
    settings = ClientSettings(url=known.url, api_key=_checked(_ask(key, known.url)))
    from muster.client.sync import Client

    with Client(settings=settings) as client:
        me = client.get_me()
    path = config_path(os.environ)
    write_config(path, {"url": settings.url, "api_key": settings.api_key or ""})
    _show(me, settings.url, json=json)
    say(f"Kept in {path}.")
    for name in ("MUSTER_URL", "MUSTER_API_KEY"):
        if os.environ.get(name):
            say(f"Note: {name} is set here, and goes before what is kept.")


def _ask(key: str | None, url: str) -> str:
    if key == "-":
        return sys.stdin.readline()
    if key is not None:
        return key
    if not is_somebody_there():
        raise BadUsage("There is no key.", hint="Give it on standard input: --key -")
    answer: str = typer.prompt(f"API key for {url} (it is not shown)", hide_input=True, err=True)
    return answer


def _checked(key: str) -> str:
    key = key.strip()
    if not _KEY.fullmatch(key):
        raise BadUsage("This is not a key.", hint="Paste it as `muster key create` printed it.")
    return key


def _show(me: MeModel, url: str, *, json: bool) -> None:
    if json:
        show_json(me)
        return
    roles = ", ".join(f"{role.value} of {entity}" for entity, role in sorted(me.roles.items()))
    show_facts(
        [
            ("signed in as", me.name + (" (admin of the server)" if me.server_admin else "")),
            ("key", f"of the kind {me.kind.value}" if me.kind is not KeyKind.USER else ""),
            ("roles", roles),
            ("entity", me.default_entity),
            ("server", f"{url} (version {me.server_version})"),
        ]
    )
