"""An installation that can be kept: backed up while it works, restored later, and still right."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from installation import Installation, until
from muster.client.sdk import Run
from muster.domain.errors import NotFound, StoreUnavailable
from muster.domain.run import RunState
from muster.wire.runs import RunModel

#: Says on disk when it begins and ends, and runs until it is let go.
SCRIPT = (
    "echo begin; echo begin $(date +%s%N) >> {mark}.times; while [ ! -e {mark}.go ]; do sleep 0.02; done; "
    "echo end $(date +%s%N) >> {mark}.times; echo end"
)


@dataclass
class Marked:
    """A run that leaves marks."""

    muster: Installation
    mark: Path
    run: Run

    @classmethod
    def launch(cls, muster: Installation, name: str, *, gpus: int = 0) -> Marked:
        mark = muster.data.parent / name
        run = muster.launch(["sh", "-c", SCRIPT.format(mark=mark)], values={"gpus": gpus, "cpus": 0.1})
        return cls(muster, mark, run)

    @property
    def times(self) -> list[tuple[str, int]]:
        lines = Path(f"{self.mark}.times").read_text().splitlines()
        words = (line.split() for line in lines)
        return sorted(((word, int(at)) for word, at in words), key=lambda time: time[1])

    def until_it_runs(self) -> None:
        until(Path(f"{self.mark}.times").exists, what=f"{self.mark.name} to begin")
        until(lambda: self.now().state is RunState.RUNNING)

    def let_go(self) -> None:
        Path(f"{self.mark}.go").touch()

    def now(self) -> RunModel:
        """As the server has it; a `Run` trusts that an end stays an end, and a restore breaks that."""
        return self.muster.client().get_run(self.run.id)

    def log(self, attempt: int) -> bytes:
        return self.muster.client().read_log(self.run.id, attempt=attempt)

    def assert_never_twice_at_once(self) -> None:
        for before, after in pairwise(word for word, _ in self.times):
            assert (before, after) != ("begin", "begin"), self.times


@pytest.mark.slow
def test_a_server_is_restored_to_a_moment_when_runs_ran(muster: Installation, tmp_path: Path) -> None:
    done = muster.launch("echo done")
    assert done.wait(30) is RunState.SUCCEEDED
    long = Marked.launch(muster, "long")
    ending = Marked.launch(muster, "ending", gpus=4)
    long.until_it_runs()
    ending.until_it_runs()
    waiting = Marked.launch(muster, "waiting", gpus=4)  # for the GPUs of the one before it
    backup = muster.muster("backup", str(tmp_path / "b.tar.gz"), "--json", check=True)
    assert json.loads(backup.stdout)["runs"] == 4

    ending.let_go()
    waiting.until_it_runs()
    later = muster.launch("echo later", values={"cpus": 0.1})
    assert later.wait(30) is RunState.SUCCEEDED
    muster.kill_server()  # its agent lives on, and knows claims newer than the backup
    refused = muster.muster("restore", str(tmp_path / "b.tar.gz"))
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    restored = muster.muster("restore", str(tmp_path / "b.tar.gz"), "--force", "--json", check=True)
    replaced = Path(json.loads(restored.stdout)["replaced"])
    assert (replaced / "muster.db").exists(), "nothing was deleted"
    muster.start()

    with pytest.raises(NotFound):
        muster.client().get_run(later.id)
    assert list(done.logs()) == ["done"]
    long.let_go()
    waiting.let_go()
    for marked in (long, ending, waiting):
        until(lambda m=marked: m.now().state.terminal, seconds=60)  # type: ignore[misc]
        assert marked.now().state is RunState.SUCCEEDED
        assert marked.log(marked.now().attempt) == b"begin\nend\n"
        marked.assert_never_twice_at_once()
    assert [word for word, _ in long.times] == ["begin", "end"], "what still ran went on"
    assert [word for word, _ in waiting.times] == ["begin", "end"], "so did what started after the backup"
    assert ending.now().attempt == 2, "what ended since is forgotten, so it is tried again"
    assert ending.log(1) == b"begin\n"


def test_a_backup_is_readable_by_its_owner_alone_and_needs_an_empty_place(
    muster: Installation, tmp_path: Path
) -> None:
    assert muster.launch("echo hello").wait(30) is RunState.SUCCEEDED
    made = muster.muster("backup", cwd=tmp_path, check=True)
    file = Path(made.stdout.strip())
    assert file.parent == tmp_path
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = muster.muster("backup", str(file))
    assert again.returncode == 2
    assert "is there already" in again.stderr
    running = muster.muster("restore", str(file), "--force")
    assert running.returncode == 1
    assert "Another Muster server already uses" in running.stderr
    elsewhere = muster.muster("restore", str(file), "--data-dir", str(tmp_path / "new"), "--json", check=True)
    assert json.loads(elsewhere.stdout)["replaced"] is None
    assert (tmp_path / "new" / "local.key").read_text() == (muster.data / "local.key").read_text()
    postgres = muster.muster("backup", "--database", "postgresql://ann:secret@db/muster")
    assert postgres.returncode == 2
    assert "pg_dump" in postgres.stderr
    assert "secret" not in postgres.stderr


def test_a_second_server_is_refused_also_by_another_way_to_the_same_place(
    muster: Installation, tmp_path: Path
) -> None:
    (tmp_path / "other-way").symlink_to(muster.data)
    for words in (["up", "--port", "0"], ["server", "--port", "0"]):
        second = muster.muster(*words, "--data-dir", str(tmp_path / "other-way"))
        assert second.returncode == 1
        assert "Another Muster server already uses" in second.stderr


def test_a_damaged_database_is_refused_and_a_backup_mends_it(muster: Installation, tmp_path: Path) -> None:
    run = muster.launch("echo hello")
    assert run.wait(30) is RunState.SUCCEEDED
    muster.muster("backup", str(tmp_path / "b.tar"), check=True)
    muster.stop()
    spoil(muster.data / "muster.db", "runs")
    refused = muster.muster("up", "--port", "0")
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr
    assert "muster restore FILE --force" in refused.stderr
    unusable = muster.muster("backup", str(tmp_path / "damaged.tar"))
    assert unusable.returncode == 1
    assert "is damaged" in unusable.stderr
    assert not (tmp_path / "damaged.tar").exists()
    muster.muster("restore", str(tmp_path / "b.tar"), "--force", check=True)
    muster.start()
    assert muster.client().get_run(run.id).state is RunState.SUCCEEDED


def test_damage_met_while_serving_is_said_and_the_rest_is_answered(muster: Installation) -> None:
    run = muster.launch("echo hello")
    assert run.wait(30) is RunState.SUCCEEDED
    muster.stop()  # what was read before would be remembered, and not be missed
    muster.start()
    spoil(muster.data / "muster.db", "audit")
    audit = muster.muster("entity", "audit", "--json")
    assert audit.returncode == 1
    problem = json.loads(audit.stderr)
    assert (problem["status"], problem["code"]) == (503, "store_unavailable")
    assert "malformed" in problem["detail"]
    assert "backup" in problem["hint"]
    assert muster.client().get_run(run.id).state is RunState.SUCCEEDED
    assert list(run.logs()) == ["hello"]
    assert muster.launch("echo more").wait(30) is RunState.SUCCEEDED


def spoil(database: Path, table: str) -> None:
    """Overwrite the first page of a table with nonsense, in the file itself."""
    conn = sqlite3.connect(database)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)


def test_files_of_a_run_whose_deletion_was_cut_short_are_removed_at_the_next_start(tmp_path: Path) -> None:
    env = {"MUSTER_FAILPOINT": "run.deleted", "MUSTER_FAILPOINT_ONCE": str(tmp_path / "died")}
    muster = Installation(tmp_path, env=env)
    muster.start()
    try:
        kept, deleted = muster.launch("echo kept"), muster.launch("echo deleted")
        assert kept.wait(30) is RunState.SUCCEEDED
        assert deleted.wait(30) is RunState.SUCCEEDED
        foreign = muster.data / "logs" / "zz" / "zzzzzzzzzz" / "1" / "0"
        foreign.mkdir(parents=True)
        assert muster.muster("run", "delete", deleted.id, "--yes").returncode == 3, "the server died of it"
        assert muster.stop() == -signal.SIGKILL
        assert folder(muster, deleted).exists()
        muster.start()
        until(lambda: not folder(muster, deleted).exists())
        assert folder(muster, kept).exists()
        assert foreign.exists(), "a run that is not on record as deleted is left alone"
        with pytest.raises(NotFound):
            muster.client().get_run(deleted.id)
    finally:
        muster.destroy()


def folder(muster: Installation, run: Run) -> Path:
    return muster.data / "logs" / run.id[:2] / run.id


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Installation]:
    """An installation whose data directory is a disk of 24 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    installation = Installation(tmp_path)
    installation.data.mkdir()
    assert os.system(f"mount -t tmpfs -o size=24m tmpfs {installation.data}") == 0  # noqa: S605
    try:
        yield installation
    finally:
        installation.destroy()
        os.system(f"umount -l {installation.data}")  # noqa: S605


def test_a_full_disk_refuses_launches_in_words_and_nothing_else(small_disk: Installation) -> None:
    muster = small_disk
    muster.start()
    before = muster.launch("echo before")
    assert before.wait(30) is RunState.SUCCEEDED
    filler = muster.data / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 512):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                pass

    def refused() -> str | None:
        asked = muster.muster("launch", "-q", "local", "--json", "--", "echo", "no")
        return asked.stderr if asked.returncode else None

    problem = json.loads(until(refused, what="a launch to be refused"))
    assert (problem["status"], problem["code"]) == (503, "store_unavailable")
    assert "The disk is full: make room" in problem["hint"]
    assert muster.client().get_run(before.id).state is RunState.SUCCEEDED
    assert list(before.logs()) == ["before"]
    filler.unlink()
    after = muster.launch("echo after")
    assert after.wait(60) is RunState.SUCCEEDED
    assert list(after.logs()) == ["after"]
    muster.stop()
    muster.muster("backup", str(muster.data.parent / "whole.tar"), check=True)  # looks at all of the database


def test_a_read_only_disk_is_refused_at_start_in_words(small_disk: Installation) -> None:
    muster = small_disk
    muster.start()
    muster.stop()
    assert os.system(f"mount -o remount,ro {muster.data}") == 0  # noqa: S605
    for words in (["up", "--port", "0"], ["server", "--port", "0"], ["server", "init"]):
        refused = muster.muster(*words)
        assert refused.returncode == 1
        assert f"{muster.data} cannot be used: Read-only file system." in refused.stderr
        assert "--data-dir" in refused.stderr


def test_a_database_that_became_read_only_refuses_writes_until_it_is_mended(muster: Installation) -> None:
    before = muster.launch("echo before")
    assert before.wait(30) is RunState.SUCCEEDED
    files = [str(muster.data / name) for name in ("muster.db", "muster.db-wal")]
    if subprocess.run(["chattr", "+i", *files], capture_output=True).returncode != 0:
        pytest.skip("only root, and not on every file system, may make files immutable")
    try:
        for _ in range(2):  # the second on a connection that was opened while nothing could be written
            refused = muster.muster("launch", "--json", "--", "echo", "no")
            assert refused.returncode == 1
            assert json.loads(refused.stderr)["status"] == 503
        assert muster.client().get_run(before.id).state is RunState.SUCCEEDED
        assert list(before.logs()) == ["before"]
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)

    def launched() -> Run | None:
        """A write that had begun before the files were mended may take this one down with it."""
        try:
            return muster.launch("echo after")
        except StoreUnavailable:
            return None

    assert until(launched).wait(60) is RunState.SUCCEEDED
