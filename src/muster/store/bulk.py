"""Adding and changing many rows with few statements.

PostgreSQL is given the values of each column as one array: however many rows there are, it is one
statement, always of the same words, and so it is planned once and takes one round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    String,
    Table,
    TypeDecorator,
    Update,
    bindparam,
    insert,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from muster.store.codec import compact_json

_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
_COPIED = 50  #: rows from which on PostgreSQL takes them faster as a copy

Rows = Sequence[Mapping[str, Any]]


def add_many(conn: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that all have the same columns."""
    if conn.dialect.name != "postgresql":
        conn.execute(insert(table), rows)
    elif len(rows) < _COPIED:
        names = tuple(rows[0])
        conn.exec_driver_sql(_insert_arrays(table, names), _arrays(conn, table, names, rows))
    else:
        _copy(conn, table, rows)


def _copy(conn: Connection, table: Table, rows: Rows) -> None:
    names = list(rows[0])
    columns = ", ".join(f'"{name}"' for name in names)
    driver: Any = conn.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({columns}) FROM STDIN') as into:
        for row in zip(*_values(conn, table, names, rows), strict=True):
            into.write_row(row)


def change_many(
    conn: Connection, table: Table, changes: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> None:
    """Each change is the key of a row and the columns to set there. Rows that change alike go together."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Mapping[str, Any]]] = {}
    for key, values in changes:
        alike.setdefault((tuple(key), tuple(sorted(values))), []).append({**key, **values})
    for (key_names, names), rows in alike.items():
        if conn.dialect.name == "postgresql":
            arrays = _arrays(conn, table, (*key_names, *names), rows)
            conn.exec_driver_sql(_update_arrays(table, key_names, names), arrays)
        else:
            keyed = [
                {**{f"key_{name}": row[name] for name in key_names}, **{name: row[name] for name in names}}
                for row in rows
            ]
            conn.execute(_update(table, key_names, names), keyed)


@lru_cache(maxsize=256)
def _update(table: Table, key: tuple[str, ...], names: tuple[str, ...]) -> Update:
    where = [table.c[name] == bindparam(f"key_{name}", type_=table.c[name].type) for name in key]
    return update(table).where(*where).values({name: bindparam(name) for name in names})


@lru_cache(maxsize=256)
def _insert_arrays(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{name}"' for name in names)
    return f'INSERT INTO "{table.name}" ({columns}) SELECT {_given(table, names)}'


@lru_cache(maxsize=256)
def _update_arrays(table: Table, key: tuple[str, ...], names: tuple[str, ...]) -> str:
    setting = ", ".join(f'"{name}" = given."{name}"' for name in names)
    where = " AND ".join(f'"{table.name}"."{name}" = given."{name}"' for name in key)
    given = _given(table, (*key, *names))
    return f'UPDATE "{table.name}" SET {setting} FROM (SELECT {given}) AS given WHERE {where}'  # noqa: S608 - of the schema


def _given(table: Table, names: Sequence[str]) -> str:
    """Arrays, one for each column, as rows in the same order."""
    kinds = [table.c[name].type for name in names]
    arrays = ", ".join(f"%s::{_kind_of_array(kind)}[]" for kind in kinds)
    values = ", ".join(
        f'"{name}"::json AS "{name}"' if isinstance(kind, JSON) else f'"{name}"'
        for name, kind in zip(names, kinds, strict=True)
    )
    columns = ", ".join(f'"{name}"' for name in names)
    return f"{values} FROM unnest({arrays}) AS arrays({columns})"


def _kind_of_array(kind: TypeEngine[Any]) -> str:
    """Words have no length here: they would be cut to it, not refused."""
    plain = kind.impl_instance if isinstance(kind, TypeDecorator) else kind
    return "text" if isinstance(plain, String | JSON) else plain.compile(dialect=_POSTGRESQL)


def _values(conn: Connection, table: Table, names: Sequence[str], rows: Rows) -> list[list[Any]]:
    """The values of each column, as the database takes them."""
    made = []
    for name in names:
        kind = table.c[name].type
        make = kind.dialect_impl(conn.dialect).bind_processor(conn.dialect)
        if isinstance(kind, JSON):  # the driver would have it wrapped
            make = partial(_json, kind)
        values = [row[name] for row in rows]
        made.append(values if make is None else [make(value) for value in values])
    return made


def _json(kind: JSON, value: object) -> str | None:
    return None if value is None and kind.none_as_null else compact_json(value)


def _arrays(conn: Connection, table: Table, names: Sequence[str], rows: Rows) -> tuple[str, ...]:
    """The same, each column as an array is written. The driver would do so too, in much more time."""
    return tuple(map(array, _values(conn, table, names, rows)))


def array(values: Sequence[str | int | float | None]) -> str:
    """An array as PostgreSQL reads it."""
    return "{" + ",".join(map(_literal, values)) + "}"


def _literal(value: str | int | float | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
