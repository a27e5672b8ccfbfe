"""Brings a database to the newest schema, forward only. Expand first, contract a release later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0001"  #: the newest revision; a test checks that it is


def current_revision(conn: Connection) -> str | None:
    if not inspect(conn).has_table("alembic_version"):
        return None
    revision: str | None = conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def upgrade(conn: Connection) -> bool:
    """Apply what is missing. Costs nothing, not even the import of Alembic, when nothing is."""
    if current_revision(conn) == HEAD:
        return False
    from alembic import command

    command.upgrade(_config(conn), "head")
    return True


def _config(conn: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = conn
    return config
