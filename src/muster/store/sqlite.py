"""SQLite: durable, many readers beside one writer."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.engine import URL

from muster.store.codec import compact_json


def make_engine(url: URL, *, read_only: bool, pool_size: int) -> Engine:
    engine = create_engine(url, pool_size=pool_size, max_overflow=0, json_serializer=compact_json)
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

    @event.listens_for(engine, "handle_error")
    def _let_go(context: ExceptionContext) -> None:
        """A connection made while the file could not be written never writes, even when it can be again."""
        code = getattr(context.original_exception, "sqlite_errorcode", sqlite3.SQLITE_OK)
        if code & 0xFF == sqlite3.SQLITE_READONLY:  # the rest of the bits say more of why
            context.is_disconnect = True

    return engine
