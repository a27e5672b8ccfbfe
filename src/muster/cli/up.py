"""`muster up`: server, embedded store and a local agent, in one process tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.server import DatabaseOption
from muster.client.settings import data_dir as default_data_dir

app = typer.Typer(add_completion=False)


@app.command()
def up(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Loopback address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on.", min=0, max=65535)] = 8700,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where everything is kept. Default: MUSTER_DATA_DIR."),
    ] = None,
    database: DatabaseOption = None,
    max_jobs: Annotated[int, typer.Option(metavar="N", help="Runs at once; 0: what fits.", min=0)] = 0,
    stop_runs: Annotated[bool, typer.Option("--stop-runs", help="Stop what runs when this stops.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more in the log.")] = False,
) -> None:
    """Start a server with its store, and a local agent. Ctrl-C stops them; runs go on.

    What runs is found again at the next start.
    """
    from muster._start import begin

    begin()
    from muster.cli.companion import AgentProcess
    from muster.cli.usage import BadUsage
    from muster.domain.git import read_schemes
    from muster.logging import configure_logging
    from muster.server.context import Context, Settings
    from muster.server.loopback import is_loopback
    from muster.server.serve import bind, serve
    from muster.server.setup import DataDir, ensure_local_user, prepare
    from muster.store.database import sqlite_url

    if not is_loopback(host):
        raise BadUsage(
            f"`muster up` signs in without a key, so it listens on this machine only, not on {host}.",
            hint=f"Use `muster server --host {host}` and `muster agent`, which demand keys.",
        )
    configure_logging(verbose=verbose)
    place = DataDir(path=(data_dir or default_data_dir(os.environ)).expanduser().absolute())
    listener = bind(host, port)
    chosen_port = int(listener.getsockname()[1])
    url = f"http://{f'[{host}]' if ':' in host else host}:{chosen_port}"
    held = place.lock(embedded=database is None)
    context = Context.open(
        Settings(
            database_url=database or sqlite_url(place.database),
            data_dir=place.path,
            host=host,
            port=chosen_port,
            git_schemes=read_schemes(os.environ.get("MUSTER_GIT_SCHEMES")),
        )
    )
    prepare(context)
    context.settings = ensure_local_user(context, place)
    agent = AgentProcess(
        url=url, data_dir=place.path, key_file=place.local_key, max_jobs=max_jobs, stop_runs=stop_runs
    )

    def ready() -> None:
        typer.echo(f"Muster is ready at {url}", err=True)
        typer.echo("Launch something: muster launch -q local --follow -- echo hello", err=True)

    serve(context, listener, on_ready=ready, companion=agent)
    os.close(held)
    going_on = "" if stop_runs else " What was running goes on and is found again at the next start."
    typer.echo(f"Muster has stopped.{going_on}", err=True)
