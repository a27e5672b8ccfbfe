"""Brings a database to the newest schema, forward only. Expand first, contract a release later.

An empty database needs no steps: it gets the tables of `muster.store.schema` as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    select,
)

from muster.domain.errors import StoreUnavailable
from muster.store.schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0006"  #: the newest revision; a test checks that it is

#: Alembic's own table: the revision that a database is at.
_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def current_revision(conn: Connection) -> str | None:
    if not inspect(conn).has_table(_version.name):
        return None
    revision: str | None = conn.execute(select(_version.c.version_num)).scalar()
    return revision


def upgrade(conn: Connection) -> bool:
    """Apply what is missing. Alembic, which takes long to load, is imported only for a database that
    has an older schema."""
    current = current_revision(conn)
    if current == HEAD:
        return False
    if current is None:
        create(conn)
        return True
    if current > HEAD:
        raise StoreUnavailable(
            f"The database was made by a newer Muster: its schema is {current}, this version knows {HEAD}.",
            hint="Install that version again, or restore a backup from before the upgrade.",
        )
    take_steps(conn)
    return True


def create(conn: Connection) -> None:
    """Make all tables in an empty database, as the steps would have; a test compares the two."""
    metadata.create_all(conn, checkfirst=False)
    _version.create(conn)
    conn.execute(insert(_version).values(version_num=HEAD))


def take_steps(conn: Connection) -> None:
    """Go from the schema that is there to the newest, step by step."""
    from alembic import command

    with _references_at_rest(conn):
        command.upgrade(_config(conn), "head")


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
