"""`muster migrate`: from one database to another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from muster.client.settings import data_dir as default_data_dir

app = typer.Typer(help="Move an installation to another database.", no_args_is_help=True)


@app.callback()
def migrate() -> None:
    """Move an installation to another database."""


@app.command("sqlite-to-postgres")
def sqlite_to_postgres(
    to: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="MUSTER_DATABASE",
            show_envvar=False,
            help="postgresql://USER@HOST/NAME, empty.",
        ),
    ],
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The installation. Default: MUSTER_DATA_DIR.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Move everything from the SQLite file into PostgreSQL. The server must be stopped; runs go on.

    Logs and code stay in the folder, which the new server goes on using. The SQLite file is kept beside
    them under another name.
    """
    import json as json_module

    from muster.cli.output import say
    from muster.server.setup import DataDir
    from muster.store.transfer import sqlite_to_postgres as move

    place = DataDir(path=(data_dir or default_data_dir(os.environ)).expanduser().absolute())
    held = place.lock()
    try:

        def progress(table: str, done: int, total: int) -> None:
            if total:
                say(f"{table}: {done:,} of {total:,}")

        counts = move(place.database, to, progress=progress)
        kept = place.set_database_aside()
    finally:
        os.close(held)
    if json:
        typer.echo(json_module.dumps({"tables": counts, "kept": str(kept)}))
        return
    say(f"Moved {sum(counts.values()):,} rows. The SQLite file is now {kept}.")
    say(f"Start the server on the new database: muster server --data-dir {place.path} --database URL")
