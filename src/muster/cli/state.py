"""What a server of this machine keeps, as `backup` and `restore` see it: where it is, how far they are."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.output import say
from muster.cli.usage import BadUsage
from muster.client.settings import data_dir as default_data_dir
from muster.domain.resources import readable_bytes

DataDirOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The server's data directory. Default: MUSTER_DATA_DIR.")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="MUSTER_DATABASE", help="The server's database, if it is not in the directory."
    ),
]
_SAY_EVERY = 2.0  #: seconds


def state_folder(given: Path | None, database: str | None) -> Path:
    """The data directory, if its own SQLite file is the database."""
    folder = (given or default_data_dir(os.environ)).expanduser().absolute()
    if database and database != f"sqlite:///{folder / 'muster.db'}":
        raise BadUsage(
            "Only a server whose database is the file in its data directory is backed up this way.",
            hint=f"Back up PostgreSQL with its own tool first (pg_dump, pg_restore), then copy {folder}.",
        )
    return folder


class Meter:
    """Says how far long work is, every two seconds."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._said = time.monotonic()

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now >= self._said + _SAY_EVERY:
            self._said = now
            say(f"{self._doing}: {readable_bytes(done)} so far")
