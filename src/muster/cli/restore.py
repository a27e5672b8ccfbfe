"""`muster restore`: a backup back in its place."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Json
from muster.cli.output import hint, say, show_json
from muster.cli.state import DatabaseOption, DataDirOption, Meter, state_folder
from muster.cli.usage import BadUsage
from muster.cli.words import count, moment

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `muster backup` made.")],
    data_dir: DataDirOption = None,
    database: DatabaseOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Move aside what is there. Nothing is deleted.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup back, into a data directory that no server uses. All of it, or nothing.

    Runs that were live then are looked for on their machines: what is still there goes on, the others
    are tried again.
    """
    from muster.server.setup import DataDir
    from muster.service.restore import restore as put_back

    folder = state_folder(data_dir, database)
    if not file.is_file():
        raise BadUsage(f"There is no file {file}.", hint="Name what `muster backup` made.")
    held = DataDir(path=folder).lock()
    try:
        done = put_back(file, folder, replace=force, now=datetime.now(UTC), progress=Meter("Restoring"))
    finally:
        os.close(held)
    if json:
        replaced = str(done.replaced) if done.replaced else None
        facts = {"data_dir": str(folder), "replaced": replaced, "live": done.live}
        show_json({**facts, **asdict(done.manifest)})
        return
    taken = moment(datetime.fromisoformat(done.manifest.taken_at))
    say(f"Restored {count(done.manifest.runs, 'run')} as of {taken} to {folder}.")
    if done.replaced:
        say(f"What was there before is in {done.replaced}.")
    if done.live:
        say(f"{count(done.live, 'run')} had an agent then, and will be looked for on its machine.")
    hint("Start the server again, the same way as before.")
