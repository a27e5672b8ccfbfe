"""`muster server`: the server alone."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.client.settings import data_dir as default_data_dir

if TYPE_CHECKING:
    from muster.server.context import Context
    from muster.server.setup import DataDir

app = typer.Typer(help="Start a server alone, or set one up.", invoke_without_command=True)

DataDirOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where everything is kept. Default: MUSTER_DATA_DIR.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="MUSTER_DATABASE",
        show_envvar=False,
        help="postgresql://USER@HOST/NAME, which several servers may share. Default: MUSTER_DATABASE, "
        "else a SQLite file in the folder.",
    ),
]


@app.callback()
def server(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on.", min=0, max=65535)] = 8700,
    data_dir: DataDirOption = None,
    database: DatabaseOption = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name this server is called by. Repeat."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="MUSTER_PUBLIC_URL",
            show_envvar=False,
            help="Address that runs in a cluster reach this server at. Default: MUSTER_PUBLIC_URL, "
            "else the one their agent uses.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more in the log.")] = False,
) -> None:
    """Start the server. Every request needs a key: `muster server init` makes the first one."""
    if ctx.invoked_subcommand is not None:
        return
    from dataclasses import replace

    from muster._start import begin

    begin()
    from muster.domain.errors import NotSignedIn
    from muster.logging import configure_logging
    from muster.server.serve import bind, serve
    from muster.server.setup import has_users, prepare

    configure_logging(verbose=verbose)
    address = _checked_address(public_url) if public_url else None
    listener = bind(host, port, listen=database is None)  # PostgreSQL: others may answer meanwhile
    place, context = _open(data_dir, database)
    held = place.lock(shared=context.db.shared)
    prepare(context)
    if not has_users(context):
        context.db.close()
        error = NotSignedIn("This server has no users yet.")
        error.hint = "Make the first one, an admin: muster server init"
        raise error
    chosen_port = int(listener.getsockname()[1])
    context.settings = replace(
        context.settings,
        host=host,
        port=chosen_port,
        allowed_hosts=frozenset(allow_host or ()),
        public_url=address,
    )
    serve(
        context,
        listener,
        on_ready=lambda: typer.echo(f"Muster serves at http://{host}:{chosen_port}", err=True),
    )
    os.close(held)


@app.command()
def init(
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the first user. Default: yours.")
    ] = None,
    data_dir: DataDirOption = None,
    database: DatabaseOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the first user, an admin, and print the key. It is shown this once."""
    import json as json_module

    from muster.server.setup import create_admin, prepare

    place, context = _open(data_dir, database)
    held = place.lock(shared=context.db.shared)
    name = user or getpass.getuser()
    try:
        prepare(context)
        key = create_admin(context, name)
    finally:
        context.db.close()
        os.close(held)
    if json:
        typer.echo(json_module.dumps({"user": name, "key": key}))
        return
    typer.echo(f"User {name!r} is the admin of this server. The key, shown this once:", err=True)
    typer.echo(key)
    typer.echo("Sign in with it: muster login URL", err=True)


def _checked_address(url: str) -> str:
    from urllib.parse import urlsplit

    from muster.cli.usage import BadUsage

    refusal = BadUsage(
        f"--public-url {url}: this is not the address of a server.",
        hint="Write it like https://muster.example.org.",
    )
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise refusal from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise refusal
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise refusal
    return url.rstrip("/")


def _open(data_dir: Path | None, database: str | None) -> tuple[DataDir, Context]:
    from muster.domain.git import read_schemes
    from muster.server.context import Context, Settings
    from muster.server.setup import DataDir
    from muster.store.database import sqlite_url

    place = DataDir(path=(data_dir or default_data_dir(os.environ)).expanduser().absolute())
    settings = Settings(
        database_url=database or sqlite_url(place.database),
        data_dir=place.path,
        git_schemes=read_schemes(os.environ.get("MUSTER_GIT_SCHEMES")),
    )
    return place, Context.open(settings)
