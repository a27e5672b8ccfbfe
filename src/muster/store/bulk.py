"""Changing many rows with few statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table, Update, bindparam, update


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
