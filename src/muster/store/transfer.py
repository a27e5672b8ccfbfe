"""Moving an installation's database from SQLite to PostgreSQL: every row, in one transaction.

The files beside the database (logs, usage, code) stay where they are: they belong to the directory,
and go on with the new database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Connection, Table, func, select, text

from muster.domain.errors import Conflict, StoreUnavailable
from muster.store import migrations
from muster.store.database import Database, Tx, sqlite_url
from muster.store.schema import metadata, users

if TYPE_CHECKING:
    import psycopg

_BATCH = 5000

Progress = Callable[[str, int, int], None]  #: table, rows done, rows in all


def sqlite_to_postgres(
    source: Path, target: str, *, progress: Progress = lambda table, done, total: None
) -> dict[str, int]:
    """Copy all tables into an empty database; returns how many rows each has. All of it, or nothing."""
    _bring_up_to_date(source)
    new = Database(target)
    try:
        if not new.shared:
            raise Conflict("The new database must be PostgreSQL.", hint="--to postgresql://USER@HOST/NAME")
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old:
            old.execute("BEGIN")  # one moment of it
            return new.write_now(lambda tx: _copy_all(old, tx, progress))
    finally:
        new.close()


def _bring_up_to_date(source: Path) -> None:
    if not source.exists():
        raise Conflict(f"There is no database at {source}.", hint="Point --data-dir at an installation.")
    old = Database(sqlite_url(source))
    try:
        old.write_now(lambda tx: migrations.upgrade(tx.conn))
    finally:
        old.close()


def _copy_all(old: sqlite3.Connection, tx: Tx, progress: Progress) -> dict[str, int]:
    tx.alone("setup")
    migrations.upgrade(tx.conn)
    if tx.conn.execute(select(func.count()).select_from(users)).scalar_one():
        raise Conflict(
            "The PostgreSQL database is in use by another installation.", hint="Make a new, empty one."
        )
    return {table.name: _copy(old, tx.conn, table, progress) for table in metadata.sorted_tables}


def _copy(old: sqlite3.Connection, conn: Connection, table: Table, progress: Progress) -> int:
    total = int(old.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0])  # noqa: S608 - a name of ours
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    driver: psycopg.Connection[tuple[Any, ...]] | Any = conn.connection.driver_connection
    done = 0
    with driver.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as into:
        for row in _rows(old, table, names):
            into.write_row(row)
            done += 1
            if done % _BATCH == 0:
                progress(table.name, done, total)
    _go_on_counting(conn, table)
    kept = conn.execute(select(func.count()).select_from(table)).scalar_one()
    if not done == total == kept:
        raise StoreUnavailable(f"Of {total} rows of {table.name}, {kept} arrived.", hint="Nothing was moved.")
    progress(table.name, done, total)
    return total


def _rows(old: sqlite3.Connection, table: Table, names: str) -> Iterator[tuple[Any, ...]]:
    """JSON stays the text it is; what PostgreSQL is stricter about is made fit for it."""
    logical = [isinstance(column.type, Boolean) for column in table.columns]
    for row in old.execute(f'SELECT {names} FROM "{table.name}"'):  # noqa: S608 - names of ours
        yield tuple(
            bool(value)
            if is_logical and value is not None
            else value.replace("\0", "\N{REPLACEMENT CHARACTER}")
            if isinstance(value, str)
            else value
            for value, is_logical in zip(row, logical, strict=True)
        )


def _go_on_counting(conn: Connection, table: Table) -> None:
    """Numbers that the database gives go on after those that came along."""
    column = table.autoincrement_column
    if column is not None and len(table.primary_key) == 1:
        conn.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table.name}', '{column.name}'), "  # noqa: S608 - names of ours
                f'(SELECT coalesce(max("{column.name}"), 0) + 1 FROM "{table.name}"), false)'
            )
        )
