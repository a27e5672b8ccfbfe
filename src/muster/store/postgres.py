"""PostgreSQL: several servers on one database, and how they wake each other."""

from __future__ import annotations

import json
import os
import queue
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import structlog
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from muster.store.bulk import array
from muster.store.codec import compact_json

if TYPE_CHECKING:
    import psycopg

log = structlog.get_logger()

_CHANNEL = "muster"
_PAYLOAD = 7000  #: bytes of topics in one notification; PostgreSQL takes 8000
_PAUSE = 0.5  #: seconds between tries to listen again
_GATHER = 0.02  #: seconds in which what is told by `send` becomes one notification
#: A server that is frozen in the middle of a write must not hold up the others for long.
_WRITER = "-c lock_timeout=200ms -c idle_in_transaction_session_timeout=2s"
_BEAT = 0.5  #: seconds after which a server that computes says that it lives
_READER = "-c default_transaction_read_only=on -c idle_in_transaction_session_timeout=60s"
#: serialization failure, deadlock, lock not available, unique violation, missing parent: another server
#: was there at the same moment, and a second look sees what it did.
_COLLISIONS = frozenset({"40001", "40P01", "55P03", "23505", "23503"})

_patience = text("SET LOCAL lock_timeout = '10s'")
_lock = text("SELECT set_config('lock_timeout', '10s', true), pg_advisory_xact_lock(:number)")
_time = text("SELECT clock_timestamp()")
# Said to the driver as they are, with an array that is written already: they are part of every commit.
_NOTIFY = "SELECT count(pg_notify(%s, payload)) FROM unnest(%s::text[]) AS payload"
#: Both at once: a round trip less for every commit.
_LOCK_AND_NOTIFY = f"SELECT set_config('lock_timeout', '10s', true), pg_advisory_xact_lock(%s), ({_NOTIFY})"


def make_engine(url: URL, *, read_only: bool, pool_size: int) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=0,
        json_serializer=compact_json,
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        connect_args={"options": _READER if read_only else _WRITER, "connect_timeout": 5},
    )


def lock(conn: Connection, what: str) -> None:
    """Held until the transaction ends."""
    conn.execute(_lock, {"number": _number(what)})


def _number(what: str) -> int:
    return zlib.crc32(f"muster:{what}".encode())


def time_of(conn: Connection) -> datetime:
    """The database's clock."""
    now: datetime = conn.execute(_time).scalar_one()
    return now


def be_patient(conn: Connection) -> None:
    """Wait for locks. Who has company in a transaction does not, or two servers would wait for each other."""
    conn.execute(_patience)


def is_collision(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) in _COLLISIONS


class Pulse:
    """Keeps the session of a write in use while this server computes. The limit on idle transactions is
    for servers that are frozen or gone, not for large writes on slow machines."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._session: psycopg.Connection[Any] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="muster-pulse", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    @contextmanager
    def of(self, conn: Connection) -> Iterator[None]:
        """To be left before the commit."""
        with self._held:
            self._session = conn.connection.driver_connection
        try:
            yield
        finally:
            with self._held:
                self._session = None

    def _beat(self) -> None:
        import psycopg

        waits = psycopg.pq.TransactionStatus.INTRANS  # for the next statement of this server
        while not self._closing.wait(_BEAT):
            with self._held, suppress(psycopg.Error):
                if self._session is not None and self._session.info.transaction_status is waits:
                    self._session.execute("SELECT 1")


class Relay:
    """Topics told at one server reach the others: with the commit that they are about, or by `send`.

    Notifications are hints: who waits looks at the database before and after, and after a broken
    connection everybody looks again.
    """

    def __init__(self, url: URL) -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._me = os.urandom(6).hex()
        self._closing = threading.Event()
        self._unsent: queue.SimpleQueue[set[str]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self, on_topics: Callable[[set[str]], object], on_gap: Callable[[], object]) -> None:
        ear = threading.Thread(
            target=self._listen, args=(on_topics, on_gap), name="muster-listen", daemon=True
        )
        mouth = threading.Thread(target=self._send_forever, name="muster-notify", daemon=True)
        self._threads = [ear, mouth]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        self._unsent.put(set())
        for thread in self._threads:
            thread.join()

    def notify(self, conn: Connection, topics: Iterable[str]) -> None:
        """Tell the other servers when this transaction is committed."""
        payloads = [*self._payloads(topics)]
        if payloads:
            conn.exec_driver_sql(_NOTIFY, (_CHANNEL, array(payloads)))

    def lock_and_notify(self, conn: Connection, what: str, topics: Iterable[str]) -> None:
        """`lock` and `notify`."""
        payloads = array([*self._payloads(topics)])
        conn.exec_driver_sql(_LOCK_AND_NOTIFY, (_number(what), _CHANNEL, payloads))

    def send(self, topics: set[str]) -> None:
        """Tell the other servers soon."""
        self._unsent.put(topics)

    def _payloads(self, topics: Iterable[str]) -> Iterator[str]:
        names: list[str] = []
        size = 0
        for topic in sorted(topics):
            size += len(topic.encode()) + 3
            if size > _PAYLOAD:
                yield json.dumps([self._me, *names], ensure_ascii=False)
                names, size = [], len(topic.encode()) + 3
            names.append(topic)
        if names:
            yield json.dumps([self._me, *names], ensure_ascii=False)

    def _listen(self, on_topics: Callable[[set[str]], object], on_gap: Callable[[], object]) -> None:
        import psycopg

        broken = False
        while not self._closing.is_set():
            try:
                with self._connect() as conn:
                    conn.execute(f"LISTEN {_CHANNEL}")
                    if broken:
                        on_gap()
                    broken = False
                    while not self._closing.is_set():
                        for notice in conn.notifies(timeout=0.5):
                            sender, *topics = json.loads(notice.payload)
                            if sender != self._me:
                                on_topics(set(topics))
            except psycopg.Error as error:
                if not broken:
                    log.warning("cannot hear other servers; trying again", reason=str(error).strip())
                broken = True
                self._closing.wait(_PAUSE)

    def _send_forever(self) -> None:
        import psycopg

        while not self._closing.is_set():
            try:
                with self._connect() as conn:
                    conn.execute("SET synchronous_commit = off")  # a hint need not survive
                    while not self._closing.is_set():
                        for payload in self._payloads(self._gathered()):
                            conn.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, payload))
            except psycopg.Error:
                self._closing.wait(_PAUSE)

    def _gathered(self) -> set[str]:
        """What there is to tell; the first waits a moment for company."""
        topics = set(self._unsent.get())
        self._closing.wait(_GATHER)
        while not self._unsent.empty():
            topics |= self._unsent.get()
        return topics

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        import psycopg

        return psycopg.connect(self._dsn, autocommit=True, connect_timeout=5)
