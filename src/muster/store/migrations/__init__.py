"""Brings a database to the newest schema, forward only. Expand first, contract a release later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from muster.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0003"  #: the newest revision; a test checks that it is


def current_revision(conn: Connection) -> str | None:
    if not inspect(conn).has_table("alembic_version"):
        return None
    revision: str | None = conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def upgrade(conn: Connection) -> bool:
    """Apply what is missing. Costs nothing, not even the import of Alembic, when nothing is."""
    current = current_revision(conn)
    if current == HEAD:
        return False
    if current is not None and current > HEAD:
        raise StoreUnavailable(
            f"The database was made by a newer Muster: its schema is {current}, this version knows {HEAD}.",
            hint="Install that version again, or restore a backup from before the upgrade.",
        )
    from alembic import command

    with _references_at_rest(conn):
        command.upgrade(_config(conn), "head")
    return True


@contextmanager
def _references_at_rest(conn: Connection) -> Iterator[None]:
    """On SQLite, a table is changed by copying and dropping it, and the drop would cascade to whatever
    refers to it. The switch against that works between transactions only."""
    if conn.dialect.name != "sqlite":
        yield
        return
    _execute(conn, "COMMIT", "PRAGMA foreign_keys = OFF", "BEGIN IMMEDIATE")
    end = "ROLLBACK"
    try:
        yield
        broken = conn.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise StoreUnavailable(f"The migration would break references of table {broken[0]}.")
        end = "COMMIT"
    finally:
        _execute(conn, end, "PRAGMA foreign_keys = ON", "BEGIN IMMEDIATE")


def _execute(conn: Connection, *statements: str) -> None:
    for statement in statements:
        conn.exec_driver_sql(statement)


def _config(conn: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = conn
    return config
