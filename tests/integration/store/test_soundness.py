"""What a server finds in the place of its database, and what it says."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.domain.errors import StoreUnavailable
from muster.store.soundness import require_sound, require_usable
from world import new_sqlite


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xa5" * 4096 * 20)


def another_program(path: Path) -> None:
    path.unlink()
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE songs (name)")
    conn.close()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: list[tuple[Callable[[Path], object], str, str]] = [
    (cut, "is damaged", "muster restore FILE --force"),
    (overwrite, "is damaged", "muster restore FILE --force"),
    (
        lambda path: path.write_bytes(b"not a database " * 1000),
        "is not a database",
        "muster restore FILE --force",
    ),
    (lambda path: path.write_bytes(b"short"), "is not a database", "muster restore FILE --force"),
    (lambda path: path.write_bytes(b""), "is empty", "muster restore FILE --force"),
    (lambda path: path.unlink(), "is not there", "muster restore FILE --force"),
    (another_program, "not one of Muster's", "--data-dir"),
    (a_directory, "is a directory", "--data-dir"),
]


@pytest.mark.parametrize(("damage", "words", "advice"), DAMAGE, ids=[words for _, words, _ in DAMAGE])
def test_what_cannot_be_served_is_refused_with_what_to_do(
    tmp_path: Path, damage: Callable[[Path], object], words: str, advice: str
) -> None:
    new_sqlite(tmp_path)
    path = tmp_path / "muster.db"
    require_usable(path, used_before=True)
    damage(path)
    with pytest.raises(StoreUnavailable) as refused:
        require_usable(path, used_before=True)
    assert words in refused.value.detail
    assert advice in refused.value.hint


@pytest.mark.parametrize("begin", [lambda path: None, lambda path: path.touch()])
def test_a_first_start_finds_nothing_and_goes_on(tmp_path: Path, begin: Callable[[Path], None]) -> None:
    begin(tmp_path / "muster.db")
    require_usable(tmp_path / "muster.db", used_before=False)


def test_a_file_that_may_not_be_written_is_refused_in_words(tmp_path: Path) -> None:
    new_sqlite(tmp_path)
    (tmp_path / "muster.db").chmod(0o400)
    script = f"""
from pathlib import Path
from muster.store.soundness import require_usable
require_usable(Path({str(tmp_path / "muster.db")!r}), used_before=True)
"""
    # The owner without root's right to pass over modes.
    without = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    done = subprocess.run([*without, sys.executable, "-c", script], capture_output=True, text=True)
    assert "muster.db cannot be opened: Permission denied." in done.stderr


def test_a_start_looks_for_no_longer_than_it_has_but_a_backup_looks_at_all(tmp_path: Path) -> None:
    new_sqlite(tmp_path)
    path = tmp_path / "muster.db"
    conn = sqlite3.connect(path)
    conn.execute(
        "CREATE TABLE big AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 200000) SELECT i, hex(randomblob(40)) AS filler FROM n"
    )
    (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'big'").fetchone()
    conn.commit()
    conn.close()
    with path.open("r+b") as file:
        file.seek(page * 4096)  # the page after its root: SQLite looks from the end, so that comes last
        file.write(b"\xa5" * 4096)

    def passes() -> bool:
        try:
            require_sound(path, within=0.0001)
        except StoreUnavailable:
            return False  # the clock of a busy machine gave it more time
        return True

    assert any(passes() for _ in range(100))
    with pytest.raises(StoreUnavailable, match="is damaged"):
        require_sound(path)
