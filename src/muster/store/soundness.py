"""Is the SQLite file one that can be served? What is damaged is refused before anything is written to it.

SQLite keeps no checksums: what is looked for is a structure that does not hold together.
"""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

from muster.domain.errors import StoreUnavailable

#: A start has two seconds: 100,000 runs (226 MB) are looked through in 0.6 s from memory, in 5 s from a
#: cold disk. What is not reached is found when it is read, and by the next backup, which looks at all.
LOOK_SECONDS = 0.5

RESTORE = "Restore it from a backup: muster restore FILE --force"
_MAGIC = b"SQLite format 3\0"


def require_usable(path: Path, *, used_before: bool) -> None:
    """Raise unless a server may open `path`. Not there, or empty, is right only for a first start.

    Only before this process has the database open: to close any file of it gives SQLite's locks back.
    """
    try:
        kind = path.stat()
        head = b"" if stat.S_ISDIR(kind.st_mode) else _head(path)
    except FileNotFoundError:
        if used_before:
            raise _gone(path, "is not there") from None
        return
    except OSError as error:
        raise _closed(path, str(error.strerror)) from error
    if stat.S_ISDIR(kind.st_mode):
        raise StoreUnavailable(
            f"{path} is a directory; the database is a file of that name.",
            hint="Move it away, or use another --data-dir.",
        )
    if not head:
        if used_before:
            raise _gone(path, "is empty")
        return
    if head != _MAGIC:
        raise StoreUnavailable(f"{path} is not a database, or its beginning is damaged.", hint=RESTORE)
    require_sound(path, within=LOOK_SECONDS)


def require_sound(path: Path, *, within: float | None = None, called: Path | None = None) -> None:
    """Raise if the database is damaged or not Muster's. Looks at all of it, or `within` so many seconds.
    If it is a copy, it is `called` by what it was copied from."""
    name = called or path
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, check_same_thread=False)) as conn:
            tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = _quick_check(conn, within)
    except sqlite3.DatabaseError as error:
        raise refusal(name, error) from error
    if found != "ok":
        raise _damaged(name, found)
    if tables and "alembic_version" not in tables:
        raise StoreUnavailable(
            f"{name} is a database, but not one of Muster's.", hint="Move it away, or use another --data-dir."
        )


def refusal(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    """What SQLite says about the file, with what to do."""
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, str(error))
    return _closed(path, str(error))


def _quick_check(conn: sqlite3.Connection, within: float | None) -> str:
    if within is None:
        return str(conn.execute("PRAGMA quick_check(1)").fetchone()[0])
    timer = threading.Timer(within, conn.interrupt)
    timer.start()
    try:
        return str(conn.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return "ok"
    finally:
        timer.cancel()
        timer.join()


def _head(path: Path) -> bytes:
    """The first bytes; opened for writing too, to find out whether that is possible."""
    with path.open("r+b", buffering=0) as file:
        return file.read(len(_MAGIC))


def _damaged(path: Path, words: str) -> StoreUnavailable:
    return StoreUnavailable(f"The database {path} is damaged: {' '.join(words.split())}.", hint=RESTORE)


def _closed(path: Path, words: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database {path} cannot be opened: {words}.",
        hint="File and folder must be readable and writable for the account that runs the server.",
    )


def _gone(path: Path, what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database {path} {what}, but files of its runs are here.",
        hint=f"{RESTORE}. To begin with nothing, use another --data-dir.",
    )
