"""`muster server` alone, with a store that was filled before: no agent but those a benchmark plays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from bench.processes import Processes
from muster.client.settings import ClientSettings
from muster.server import setup
from muster.server.context import Context, Settings
from muster.service import accounts, launch
from muster.service.launch import Order
from muster.service.queue import LOCAL_QUEUE
from muster.store import shares
from muster.store.database import Tx, sqlite_url
from muster.store.schema import runs

USER = "bench"
_BATCH = 10_000

Vary = Callable[[int], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Store:
    """A prepared store: where it is, and the key of its only user."""

    folder: Path
    database: str | None  #: an address of PostgreSQL; None: SQLite in the folder
    key: str


def prepare(folder: Path, database: str | None, *, queued: int, vary: Vary = lambda number: {}) -> Store:
    """A new store with so many runs in the queue `local`. `vary` says what differs of the n-th from the
    first: columns of the table of runs."""
    folder.mkdir(parents=True)
    address = database or sqlite_url(setup.DataDir(path=folder).database)
    context = Context.open(Settings(database_url=address, data_dir=folder))
    try:
        setup.prepare(context)
        key = setup.create_admin(context, USER)
        context.db.write_now(lambda tx: _launch_one(tx, context))
        for first in range(1, queued, _BATCH):
            numbers = range(first, min(first + _BATCH, queued))
            context.db.write_now(partial(_copy_first, numbers=numbers, vary=vary))
        context.db.write_now(lambda tx: shares.repair(tx.conn))
        # So that plans are made for what is there now. PostgreSQL does so by itself, a minute later.
        context.db.write_now(lambda tx: tx.conn.exec_driver_sql("ANALYZE"))
    finally:
        context.db.close()
    return Store(folder=folder, database=database, key=key)


def _launch_one(tx: Tx, context: Context) -> None:
    """The first run comes about as every run does; the others are copies of its row."""
    actor = accounts.user_actor(tx.conn, USER)
    order = Order(queue=LOCAL_QUEUE, command=("true",))
    launch.launch(tx, actor, [order], now=context.now(), random=context.random)


def _copy_first(tx: Tx, *, numbers: range, vary: Vary) -> None:
    row = dict(tx.conn.execute(select(runs).order_by(runs.c.seq).limit(1)).mappings().one())
    del row["seq"]
    same = {name: value for name, value in row.items() if value is not None}
    tx.conn.execute(
        insert(runs),
        [{**same, "id": f"r{n:09d}", "rank": row["rank"] + n, **vary(n)} for n in numbers],
    )


@contextmanager
def serving(store: Store) -> Iterator[ClientSettings]:
    """A server on this store, for as long as the block lasts."""
    words = [sys.executable, "-m", "muster.cli", "server", "--port", "0", "--data-dir", str(store.folder)]
    words += ["--database", store.database] if store.database else []
    with Processes(store.folder) as processes:
        process = processes.spawn("server", words)
        line = processes.wait_for_words("server", process, "serves at")
        yield ClientSettings(url=line.split()[-1], api_key=store.key)
