"""A long write on PostgreSQL: kept while its server computes, given up when its server is frozen."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial

import psycopg
import pytest
from sqlalchemy import text, update

from installation import until
from muster.domain.errors import StoreUnavailable
from muster.store import postgres, records
from muster.store.database import Database, Tx
from muster.store.schema import meta
from postgres import new_postgres

#: Begins to change a row, says so, and is told to go on by a line.
WRITER = """
import sys
from sqlalchemy import update
from muster.store.database import Database
from muster.store.schema import meta

def work(tx):
    tx.conn.execute(update(meta).where(meta.c.key == "k").values(value="from a frozen server"))
    print("begun", flush=True)
    sys.stdin.readline()

Database(sys.argv[1]).write_now(work)
"""


@pytest.fixture
def url() -> str:
    url = new_postgres()
    database = Database(url)
    database.write_now(lambda tx: records.set_setting(tx.conn, "k", "first"))
    database.close()
    return url


def outlast(tx: Tx, *, url: str) -> None:
    """Compute for three times as long as a transaction may be idle, by the database's clock."""
    tx.conn.execute(text("SET LOCAL idle_in_transaction_session_timeout = '400ms'"))
    tx.conn.execute(update(meta).where(meta.c.key == "k").values(value="computed"))
    pid = tx.conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
    aged = "SELECT now() - xact_start > interval '1.2 s' FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(url, autocommit=True) as watch:

        def is_over() -> bool:
            row = watch.execute(aged, (pid,)).fetchone()
            return row is None or bool(row[0])

        until(is_over)


def test_a_write_may_compute_for_longer_than_a_transaction_may_be_idle(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_BEAT", 0.05)
    database = Database(url)
    database.write_now(partial(outlast, url=url))
    assert database.write_now(lambda tx: records.setting(tx.conn, "k")) == "computed"
    database.close()


def test_without_a_pulse_it_may_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_BEAT", 3600.0)
    database = Database(url)
    with pytest.raises(StoreUnavailable, match="idle-in-transaction"):
        database.write_now(partial(outlast, url=url))
    assert database.write_now(lambda tx: records.setting(tx.conn, "k")) == "first"
    database.close()


def test_a_server_that_is_frozen_in_the_middle_of_a_write_holds_nobody_up_for_long(url: str) -> None:
    words = [sys.executable, "-c", WRITER, url]
    frozen = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert frozen.stdout is not None
    assert frozen.stdout.readline() == "begun\n"
    frozen.send_signal(signal.SIGSTOP)
    database = Database(url)
    try:
        database.write_now(lambda tx: records.set_setting(tx.conn, "k", "second"))
        frozen.send_signal(signal.SIGCONT)
        _, said = frozen.communicate("go on\n", timeout=60)
        assert frozen.returncode != 0
        assert "The database refused" in said
        assert database.write_now(lambda tx: records.setting(tx.conn, "k")) == "second"
    finally:
        frozen.kill()
        frozen.wait()
        database.close()
