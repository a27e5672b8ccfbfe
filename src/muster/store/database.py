"""The way to the database: many readers, one writer that commits many small writes at once.

A write is a function of a transaction. Those that wait while the disk is busy are run one after
another in the same transaction and committed together: one durable flush serves them all, and no
caller hears "done" before it is. If one of them fails, which is rare, all are undone and run again,
each behind a savepoint. Writes of one kind that are done best for many at once (`write_among`) are.

On PostgreSQL other servers write too. A write then locks the rows it is about to decide on (`runs`
says how), and one that collided with another's all the same is undone and run again.

A write may therefore run more than once: it must change nothing but the database.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from muster._failpoint import failpoint
from muster.domain.errors import BadInput, MusterError, StoreUnavailable
from muster.store import postgres, sqlite
from muster.store.bulk import add_many
from muster.store.schema import events

A = TypeVar("A")
T = TypeVar("T")

MAX_GROUP = 256  #: writes in one commit
READERS = 4
GATHER = 0.006  #: seconds at most that a write waits for others that are likely to come
TRIES = 5  #: of a write that collides with those of other servers


@dataclass(kw_only=True)
class Tx:
    """A write in progress."""

    conn: Connection
    topics: set[str] = field(default_factory=set)
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def tell(self, topic: str) -> None:
        """Wake whoever waits on `topic`, once this is committed."""
        self.topics.add(topic)

    def file_events(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows for the table of events. They are written last of all, so that their numbers grow in
        the order in which they can be seen, whichever server writes: who follows them misses none."""
        self.events.extend(rows)

    def alone(self, what: str) -> None:
        """Until this is committed, nobody else is in a transaction that is alone with `what`."""
        if self.conn.dialect.name == "postgresql":
            postgres.lock(self.conn, what)


@dataclass(kw_only=True, eq=False)
class _Job:
    work: Callable[[Tx], Any]
    kind: Callable[[Tx, Sequence[Any]], Sequence[Any]] | None = None  #: does all items of the kind at once
    item: Any = None
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    result: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)


class Database:
    """Reads and writes for an asyncio program; SQL runs in threads of its own."""

    def __init__(self, url: str, *, on_commit: Callable[[set[str]], None] = lambda topics: None) -> None:
        """`on_commit` hears, on the event loop and before the writers do, which topics changed."""
        self.url = _parsed(url)
        kind = self.url.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise StoreUnavailable(
                f"Muster keeps its data in SQLite or PostgreSQL, not in {kind}.",
                hint="Give an address such as postgresql://user@host/muster.",
            )
        self._on_commit = on_commit
        make = sqlite.make_engine if kind == "sqlite" else postgres.make_engine
        self._write_engine = make(self.url, read_only=False, pool_size=1)
        self._read_engine = make(self.url, read_only=True, pool_size=READERS)
        self._relay = postgres.Relay(self.url) if kind == "postgresql" else None
        self._pulse = postgres.Pulse() if kind == "postgresql" else None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="muster-read")
        self._expected = 1  # writes in the next group
        self._patience = 0.0  # seconds that it is waited for them
        self._writer = threading.Thread(target=self._write_loop, name="muster-write", daemon=True)
        self._writer.start()

    @property
    def shared(self) -> bool:
        """May other servers use it at the same time?"""
        return self._relay is not None

    def follow(self, on_gap: Callable[[], None]) -> None:
        """Hear of the commits of other servers too, on this event loop; `on_gap`: some were missed."""
        if self._relay is not None:
            loop = asyncio.get_running_loop()
            self._relay.start(
                lambda topics: loop.call_soon_threadsafe(self._on_commit, topics),
                lambda: loop.call_soon_threadsafe(on_gap),
            )

    def tell(self, topics: set[str]) -> None:
        """Wake whoever waits on these, here and at other servers, for something that is in no database."""
        self._on_commit(topics)
        if self._relay is not None:
            self._relay.send(topics)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read-only transaction."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, work)

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; returns when it is durable, raises if nothing of it was kept."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work=work, loop=loop, future=future))
        return await future

    async def write_among(self, kind: Callable[[Tx, Sequence[A]], Sequence[T | MusterError]], item: A) -> T:
        """`write` for one of many items that are done best together: those that wait at the same time go
        into one call of `kind`, which answers each with its result or its error."""

        def alone(tx: Tx) -> T:
            [answer] = kind(tx, [item])
            if isinstance(answer, MusterError):
                raise answer
            return answer

        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work=alone, kind=kind, item=item, loop=loop, future=future))
        return await future

    def write_now(self, work: Callable[[Tx], T]) -> T:
        """`write` for a program without an event loop (set-up commands)."""
        job = _Job(work=work)
        self._settle([job])
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def close(self) -> None:
        """Finish what was accepted, then let go of the database."""
        self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        if self._relay is not None:
            self._relay.close()
        if self._pulse is not None:
            self._pulse.close()
        self._read_engine.dispose()
        self._write_engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        with _translated():
            try:
                with self._read_engine.connect() as conn:
                    return work(conn)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            with self._read_engine.connect() as conn:  # the connection had died while it lay in the pool
                return work(conn)

    def _write_loop(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            group, last = self._gather(first)
            in_vain = len(group) < self._expected
            began = time.monotonic()
            self._settle(group)
            self._deliver(group)
            if last:
                return
            # Whoever was served is likely to ask again, beside those that came meanwhile.
            self._expected = 1 if in_vain else len(group) + self._jobs.qsize()
            self._patience = min(GATHER, (time.monotonic() - began) / 2)

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        """The writes that wait already, and whether the end was among them. Where more are expected, they
        are waited for a moment, shorter than a commit takes: one is then likely to serve them all. Without
        that, writers that ask again and again fall apart into small groups that wait for each other. Where
        it was in vain, the next time it is not done."""
        group = [first]
        deadline = time.monotonic() + self._patience
        while len(group) < MAX_GROUP:
            try:
                if len(group) < self._expected:
                    job = self._jobs.get(timeout=max(0.0, deadline - time.monotonic()))
                else:
                    job = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _settle(self, group: Sequence[_Job]) -> None:
        """Every job of the group has its result or its error, and what has a result is durable."""
        if len(group) > 1 and self._at_once(group):
            return
        for job in self._together(group):
            for _ in range(TRIES):
                job.error = None
                if not self._together([job], patient=True):
                    break

    def _at_once(self, group: Sequence[_Job]) -> bool:
        """Run the group in one transaction, in the hope that all goes well. False: nothing was done."""
        committing = False
        try:
            with self._write_engine.connect() as conn:
                with self._alive(conn):
                    txs = [(kin, _run_kin(conn, kin)) for kin in _by_kind(group)]
                    self._finish(conn, [tx for _, tx in txs])
                committing = True
                self._commit(conn)
        except BaseException as error:  # noqa: BLE001 - whose it is, the second run tells
            if not committing:
                return False
            for job in group:
                job.error, job.result = _uncertain(error), None
            return True
        for kin, tx in txs:
            for job in kin:
                job.topics = tx.topics
        return True

    def _together(self, group: Sequence[_Job], *, patient: bool = False) -> list[_Job]:
        """Run the group in one transaction, each behind a savepoint. Returns those of which nothing was
        kept through no fault of their own, each with the error it met: it is worth another try alone."""
        again: list[_Job] = []
        committing = False
        try:
            with self._write_engine.connect() as conn:
                if patient and self.shared:
                    postgres.be_patient(conn)
                with self._alive(conn):
                    done = [(job, tx) for job in group if (tx := _run(conn, job, group, again)) is not None]
                    if not done:
                        return again
                    self._finish(conn, [tx for _, tx in done])
                committing = True
                self._commit(conn)
                for job, tx in done:
                    job.topics = tx.topics
        except BaseException as error:  # noqa: BLE001 - every waiting caller must hear of it
            retry = not committing and isinstance(error, DBAPIError) and _is_worth_another_try(error, group)
            said = _uncertain(error) if committing else _told(error)
            for job in group:
                if job.error is None:
                    job.error, job.result = said, None
                    if retry:
                        again.append(job)
        return again

    def _alive(self, conn: Connection) -> AbstractContextManager[None]:
        return self._pulse.of(conn) if self._pulse is not None else nullcontext()

    def _commit(self, conn: Connection) -> None:
        failpoint("commit.before")
        try:
            conn.commit()
        except BaseException:
            conn.invalidate()  # whatever it has left undone, the next write must not commit it
            raise
        failpoint("commit.after")

    def _finish(self, conn: Connection, done: Sequence[Tx]) -> None:
        """What is written last: the events, and word to other servers."""
        rows = [row for tx in done for row in tx.events]
        if self._relay is not None:
            topics = set().union(*(tx.topics for tx in done))
            if rows:
                self._relay.lock_and_notify(conn, "events", topics)
            else:
                self._relay.notify(conn, topics)
        if rows:
            add_many(conn, events, rows)

    def _deliver(self, group: Sequence[_Job]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in group:
            if job.loop is not None:
                by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._resolve, jobs)

    def _resolve(self, jobs: Sequence[_Job]) -> None:
        topics = set().union(*(job.topics for job in jobs))
        if topics:
            self._on_commit(topics)
        for job in jobs:
            if job.future is None or job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)


def _by_kind(group: Sequence[_Job]) -> list[list[_Job]]:
    """Those of one kind together, at the place of the first."""
    kinds: dict[object, list[_Job]] = {}
    for job in group:
        kinds.setdefault(job if job.kind is None else job.kind, []).append(job)
    return list(kinds.values())


def _run_kin(conn: Connection, kin: Sequence[_Job]) -> Tx:
    tx = Tx(conn=conn)
    kind = kin[0].kind
    if kind is None:
        kin[0].result = kin[0].work(tx)
        return tx
    for job, answer in zip(kin, kind(tx, [job.item for job in kin]), strict=True):
        job.error = answer if isinstance(answer, MusterError) else None
        job.result = None if isinstance(answer, MusterError) else answer
    return tx


def _run(conn: Connection, job: _Job, group: Sequence[_Job], again: list[_Job]) -> Tx | None:
    """Run one job of a transaction; None: nothing of it is left there."""
    tx = Tx(conn=conn)
    company = len(group) > 1
    if company:
        conn.exec_driver_sql("SAVEPOINT one")
    try:
        job.result = job.work(tx)
    except DBAPIError as error:
        if error.connection_invalidated or "disk" in str(error.orig):
            raise
        job.error = _unavailable(error)
        if postgres.is_collision(error):
            again.append(job)
    except BaseException as error:  # noqa: BLE001 - handed to the caller as it is
        job.error = error
    if company and job.error is not None:
        conn.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
    if company:
        conn.exec_driver_sql("RELEASE SAVEPOINT one")
    return tx if job.error is None else None


def _is_worth_another_try(error: DBAPIError, group: Sequence[_Job]) -> bool:
    """One of a group may have spoiled it for all; a connection may have died before the commit."""
    return len(group) > 1 or error.connection_invalidated or postgres.is_collision(error)


def _told(error: BaseException) -> BaseException:
    return _unavailable(error) if isinstance(error, DBAPIError) else error


class _translated:  # noqa: N801 - reads as a statement: `with _translated(): …`
    """Driver errors become ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DBAPIError):
            raise _unavailable(error) from error


def _uncertain(error: BaseException) -> BaseException:
    """A commit that failed: if the connection broke, the database may have done it all the same."""
    said = _told(error)
    if isinstance(said, MusterError) and isinstance(error, DBAPIError) and error.connection_invalidated:
        said.hint = "It may have been kept or not: look before you do it again."
    return said


def _unavailable(error: DBAPIError) -> MusterError:
    words = str(error.orig).strip().rstrip(".")
    if "0x00" in words:  # only PostgreSQL minds
        return BadInput("A NUL character cannot be part of this.", hint="Leave it out.")
    hint = "Look at the server's log; nothing was changed."
    if "full" in words:
        hint = "The disk is full: make room, then try again. Nothing was changed."
    elif "readonly" in words or "read-only" in words:
        hint = "The database cannot be written: check its permissions and mount. Nothing was changed."
    elif "malformed" in words or "not a database" in words:
        hint = "The database file is damaged: restore it from a backup (muster restore FILE --force)."
    elif "connection" in words:
        hint = "Is the database running, and its address right? Nothing was changed."
    return StoreUnavailable(f"The database refused: {words}.", hint=hint)


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise StoreUnavailable(
            "This is not the address of a database.", hint="Give one such as postgresql://user@host/muster."
        ) from error


def sqlite_url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()
