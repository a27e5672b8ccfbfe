"""Adding and changing many rows with few statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table, Update, bindparam, insert, update

_COPIED = 50  #: rows from which on PostgreSQL takes them faster as a copy


def add_many(conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns."""
    if len(rows) < _COPIED or conn.dialect.name != "postgresql":
        conn.execute(insert(table), rows)
        return
    names = list(rows[0])
    impls = [table.c[name].type.dialect_impl(conn.dialect) for name in names]
    makers = [impl.bind_processor(conn.dialect) for impl in impls]
    columns = ", ".join(f'"{name}"' for name in names)
    driver: Any = conn.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as into:
        for row in rows:
            into.write_row(
                [
                    row[name] if make is None else make(row[name])
                    for name, make in zip(names, makers, strict=True)
                ]
            )


def change_many(
    conn: Connection, table: Table, changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> None:
    """Each change is the key of a row and the columns to set there. Rows that change alike go together."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[dict[str, Any]]] = {}
    for key, values in changes:
        row = {f"key_{name}": value for name, value in key.items()} | dict(values)
        alike.setdefault((tuple(key), tuple(sorted(values))), []).append(row)
    for (key_names, names), rows in alike.items():
        conn.execute(_update(table, key_names, names), rows)


@lru_cache(maxsize=256)
def _update(table: Table, key: tuple[str, ...], names: tuple[str, ...]) -> Update:
    where = [table.c[name] == bindparam(f"key_{name}", type_=table.c[name].type) for name in key]
    return update(table).where(*where).values({name: bindparam(name) for name in names})
