"""The way to the database: many readers, one writer that commits many small writes at once.

A write is a function of a transaction. Those that wait while the disk is busy are run one after
another in the same transaction, each behind a savepoint, and committed together: one durable flush
serves them all, and no caller hears "done" before it is.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

from muster.domain.errors import StoreUnavailable

T = TypeVar("T")

MAX_GROUP = 256  #: writes in one commit
READERS = 4


@dataclass(kw_only=True)
class Tx:
    """A write in progress."""

    conn: Connection
    topics: set[str] = field(default_factory=set)

    def tell(self, topic: str) -> None:
        """Wake whoever waits on `topic`, once this is committed."""
        self.topics.add(topic)


@dataclass(kw_only=True)
class _Job:
    work: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)


class Database:
    """Reads and writes for an asyncio program; SQL runs in threads of its own."""

    def __init__(self, url: str, *, on_commit: Callable[[set[str]], None] = lambda topics: None) -> None:
        """`on_commit` hears, on the event loop and before the writers do, which topics changed."""
        self.url = make_url(url)
        self._on_commit = on_commit
        self._write_engine = _engine(self.url, read_only=False, pool_size=1)
        self._read_engine = _engine(self.url, read_only=True, pool_size=READERS)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="muster-read")
        self._writer = threading.Thread(target=self._write_loop, name="muster-write", daemon=True)
        self._writer.start()

    @property
    def dialect(self) -> str:
        return self.url.get_backend_name()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read-only transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, work)

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; returns when it is durable, raises if nothing of it was kept."""
        loop = asyncio.get_running_loop()
        job = _Job(work=work, loop=loop, future=loop.create_future())
        self._jobs.put(job)
        result: T = await job.future
        return result

    def write_now(self, work: Callable[[Tx], T]) -> T:
        """`write` for a program without an event loop (set-up commands)."""
        with _translated(), self._write_engine.begin() as conn:
            return work(Tx(conn=conn))

    def close(self) -> None:
        """Finish what was accepted, then let go of the database."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._read_engine.dispose()
        self._write_engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        with _translated(), self._read_engine.connect() as conn:
            return work(conn)

    def _write_loop(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            group, last = self._gather(first)
            try:
                self._commit(group)
            except BaseException as error:  # noqa: BLE001 - every waiting caller must hear of it
                for job in group:
                    job.error = job.error or error
                    job.topics = set()
            self._deliver(group)
            if last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        """The writes that wait already, and whether the end was among them."""
        group = [first]
        while len(group) < MAX_GROUP:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _commit(self, group: Sequence[_Job]) -> None:
        with _translated(), self._write_engine.begin() as conn:
            for job in group:
                tx = Tx(conn=conn)
                conn.exec_driver_sql("SAVEPOINT one")
                try:
                    job.result = job.work(tx)
                except DBAPIError as error:
                    if error.connection_invalidated or "disk" in str(error.orig):
                        raise
                    job.error = _unavailable(error)
                    conn.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
                except BaseException as error:  # noqa: BLE001 - handed to the caller as it is
                    job.error = error
                    conn.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
                else:
                    job.topics = tx.topics
                conn.exec_driver_sql("RELEASE SAVEPOINT one")

    def _deliver(self, group: Sequence[_Job]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in group:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._resolve, jobs)

    def _resolve(self, jobs: Sequence[_Job]) -> None:
        topics = set().union(*(job.topics for job in jobs))
        if topics:
            self._on_commit(topics)
        for job in jobs:
            if job.future.cancelled():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


class _translated:  # noqa: N801 - reads as a statement: `with _translated(), …`
    """Driver errors become `StoreUnavailable`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DBAPIError):
            raise _unavailable(error) from error


def _unavailable(error: DBAPIError) -> StoreUnavailable:
    words = str(error.orig)
    hint = "Look at the server's log; nothing was changed."
    if "full" in words:
        hint = "The disk is full: make room, then try again. Nothing was changed."
    elif "readonly" in words or "read-only" in words:
        hint = "The database cannot be written: check its permissions and mount. Nothing was changed."
    elif "malformed" in words or "not a database" in words:
        hint = "The database file is damaged: restore it from a backup. Nothing was changed."
    return StoreUnavailable(f"The database refused: {words}.", hint=hint)


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def _engine(url: URL, *, read_only: bool, pool_size: int) -> Engine:
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        json_serializer=lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    )
    if url.get_backend_name() == "sqlite":
        _tune_sqlite(engine, read_only=read_only)
    return engine


def _tune_sqlite(engine: Engine, *, read_only: bool) -> None:
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver's own rules are no use here
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA busy_timeout = 10000")
        cursor.execute("PRAGMA cache_size = -16000")
        if read_only:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        conn.exec_driver_sql(begin)
