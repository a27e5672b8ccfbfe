"""`muster backup`: everything the server of this machine keeps, in one file."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Json
from muster.cli.output import say, show, show_json
from muster.cli.state import DatabaseOption, DataDirOption, Meter, state_folder
from muster.cli.usage import BadUsage
from muster.cli.words import count
from muster.domain.resources import readable_bytes

app = typer.Typer(add_completion=False)


@app.command()
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Where to: .tar.gz, or .tar. Default: muster-DATE.tar.gz in this folder."
        ),
    ] = None,
    data_dir: DataDirOption = None,
    database: DatabaseOption = None,
    outputs: Annotated[
        bool, typer.Option("--outputs/--no-outputs", help="Take along what runs kept as outputs, or not.")
    ] = True,
    json: Json = False,
) -> None:
    """Back up the server of this machine to one file, while it runs or not.

    Database, logs, usage, code, outputs and keys. The file holds secrets, so only you can read it.
    """
    from muster.store.backup import write

    now = datetime.now(UTC)
    folder = state_folder(data_dir, database)
    target = _target(file or Path(), now)
    manifest = write(folder, target, now=now, outputs=outputs, progress=Meter("Backing up"))
    size = target.stat().st_size
    if json:
        show_json({"file": str(target), "bytes": size, **asdict(manifest)})
        return
    say(
        f"Backed up {count(manifest.runs, 'run')} in {count(manifest.files, 'file')}, {readable_bytes(size)}."
    )
    show(str(target))


def _target(given: Path, now: datetime) -> Path:
    path = given.expanduser().absolute()
    if path.is_dir():
        path /= f"muster-{now.astimezone():%Y%m%d-%H%M%S}.tar.gz"
    if path.exists():
        raise BadUsage(f"{path} is there already.", hint="Choose another name, or move it away.")
    if not path.parent.is_dir():
        raise BadUsage(f"There is no folder {path.parent}.", hint="Make it first.")
    return path
