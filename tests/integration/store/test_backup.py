"""The backup file: what goes in comes out, and nothing that is damaged or malicious gets anywhere."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.domain.errors import BadBackup, Conflict, LocalProblem, MusterError, StoreUnavailable
from muster.domain.observation import ReplicaState
from muster.service.restore import Restored, restore
from muster.store import backup, unpack
from muster.store.backup import Manifest
from muster.store.blobs import BlobPool
from muster.store.logs import LogKey, LogStore
from muster.store.removal import may_remove
from world import DAWN, World, member, new_sqlite, open_world

SHA = "ab" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def world(home: Path) -> Iterator[World]:
    made = open_world(new_sqlite(home))
    made.queue()
    yield made
    made.close()


@pytest.fixture
def filled(world: World, home: Path) -> Path:
    """A data directory with something of everything."""
    (home / "blobs.id").write_text("0123")
    (home / "local.key").write_text("mk-secret")
    (home / "local.key").chmod(0o600)
    (home / "server.lock").touch()
    with BlobPool(home / "code").receive("ann", SHA) as incoming:
        incoming.write(b"print()")
        incoming.commit()
    (home / "code" / "ann" / "ab" / ".half.1").write_text("an upload under way")
    outputs = home / "agent" / "outputs" / "a123456789"
    outputs.mkdir(parents=True)
    (outputs / "model-1.bin").write_bytes(os.urandom(100_000))
    (outputs / "latest").symlink_to("model-1.bin")
    (home / "agent" / "process").mkdir()
    (home / "agent" / "process" / "state").touch()
    return home


def write(home: Path, file: Path, **options: bool) -> Manifest:
    return backup.write(home, file, now=DAWN, progress=lambda done: None, **options)


def put_back(file: Path, home: Path, *, replace: bool = False) -> Restored:
    return restore(file, home, replace=replace, now=DAWN, progress=lambda done: None)


def content(home: Path) -> dict[str, bytes | str]:
    """All that is kept, but the database."""
    found: dict[str, bytes | str] = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith(
            ("muster.db", "server.lock", "files.lock", "agent/process")
        ):
            found[name] = path.read_bytes()
    return found


def start_one(world: World, home: Path, log: bytes) -> str:
    """A run that an agent has started."""
    agent = world.agent("a1")
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, member(0, ReplicaState.RUNNING, started_at=DAWN))
    LogStore(home / "logs").write(LogKey(run_id=run_id, attempt=1, rank=0), 0, log, at_micros=1)
    return run_id


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_what_goes_in_comes_out(filled: Path, world: World, tmp_path: Path, name: str) -> None:
    start_one(world, filled, b"hello")
    manifest = write(filled, tmp_path / name)
    assert (manifest.runs, manifest.taken_at) == (1, DAWN.isoformat())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], (
        "nothing is left over"
    )
    new = tmp_path / "new"
    done = put_back(tmp_path / name, new)
    assert (done.manifest, done.live, done.replaced) == (manifest, 1, None)
    expected = content(filled)
    del expected["code/ann/ab/.half.1"]
    assert content(new) == expected
    assert (new / "local.key").stat().st_mode & 0o777 == 0o600
    assert asked(new, "SELECT id, spec FROM runs") == asked(filled, "SELECT id, spec FROM runs")


def asked(home: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / "muster.db")) as conn:
        return conn.execute(query).fetchall()


def test_outputs_can_be_left_out_and_those_here_are_left_alone(filled: Path, tmp_path: Path) -> None:
    assert (
        write(filled, tmp_path / "a.tar", outputs=False).files == write(filled, tmp_path / "b.tar").files - 2
    )
    here = filled / "agent" / "outputs" / "a123456789" / "model-1.bin"
    here.write_bytes(b"newer")
    done = put_back(tmp_path / "b.tar", filled, replace=True)
    assert here.read_bytes() == b"newer"
    assert (filled / "agent" / "process" / "state").exists(), "the agent's own state stays where it is"
    assert done.replaced is not None
    assert (done.replaced / "local.key").read_text() == "mk-secret"


def test_logs_of_attempts_the_database_does_not_know_are_left_out(
    filled: Path, world: World, tmp_path: Path
) -> None:
    """After a restore their numbers are given again, and the new log would begin with the old one."""
    known = start_one(world, filled, b"kept")
    logs = LogStore(filled / "logs")
    waiting = world.launch_one()
    for key in (LogKey(run_id=known, attempt=2, rank=0), LogKey(run_id=waiting, attempt=1, rank=0)):
        logs.write(key, 0, b"written after the moment of the backup", at_micros=1)
    write(filled, tmp_path / "b.tar")
    put_back(tmp_path / "b.tar", tmp_path / "new")
    restored = LogStore(tmp_path / "new" / "logs")
    assert restored.length(LogKey(run_id=known, attempt=1, rank=0)) == 4
    assert restored.length(LogKey(run_id=known, attempt=2, rank=0)) == 0
    assert restored.run_ids() == [known]


def test_a_backup_of_a_database_that_is_written_all_the_time_is_of_one_moment(
    filled: Path, world: World, tmp_path: Path
) -> None:
    over = threading.Event()

    def write_pairs() -> None:
        with sqlite3.connect(filled / "muster.db", isolation_level=None) as conn:
            number = 0
            while not over.is_set():
                conn.execute("BEGIN IMMEDIATE")
                conn.execute("INSERT INTO meta VALUES (?, '')", [f"left-{number}"])
                conn.execute("INSERT INTO meta VALUES (?, '')", [f"right-{number}"])
                conn.execute("COMMIT")
                number += 1
        conn.close()

    writer = threading.Thread(target=write_pairs)
    writer.start()
    try:
        for number in range(5):
            write(filled, tmp_path / f"{number}.tar")
    finally:
        over.set()
        writer.join()
    put_back(tmp_path / "4.tar", tmp_path / "new")
    keys = {str(key) for (key,) in asked(tmp_path / "new", "SELECT key FROM meta")}
    lefts = {key.removeprefix("left-") for key in keys if key.startswith("left-")}
    assert lefts
    assert lefts == {key.removeprefix("right-") for key in keys if key.startswith("right-")}


def test_no_file_is_removed_while_a_backup_reads(filled: Path, tmp_path: Path) -> None:
    seen: list[bool] = []

    def look(done: int) -> None:
        with may_remove(filled) as free:
            seen.append(free)

    backup.write(filled, tmp_path / "b.tar", now=DAWN, progress=look)
    assert seen
    assert not any(seen)
    with may_remove(filled) as free:
        assert free


def test_a_killed_backup_leaves_no_file_that_looks_whole(filled: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "muster.cli", "backup", str(tmp_path / "b.tar"), "--data-dir", str(filled)]
    done = subprocess.run(words, env={**os.environ, "MUSTER_FAILPOINT": "backup.written"})
    assert done.returncode == -9
    assert not (tmp_path / "b.tar").exists()


def test_a_restore_killed_half_way_is_not_served_and_can_be_done_again(filled: Path, tmp_path: Path) -> None:
    write(filled, tmp_path / "b.tar")
    words = [
        sys.executable,
        "-m",
        "muster.cli",
        "restore",
        str(tmp_path / "b.tar"),
        "--data-dir",
        str(filled),
    ]
    env = {**os.environ, "MUSTER_FAILPOINT": "restore.moved-aside"}
    assert subprocess.run([*words, "--force"], env=env).returncode == -9
    with pytest.raises(StoreUnavailable, match="was interrupted"):
        unpack.require_finished(filled)
    put_back(tmp_path / "b.tar", filled)
    unpack.require_finished(filled)
    assert (filled / "local.key").read_text() == "mk-secret"


def test_a_place_in_use_is_not_touched_unless_that_is_wanted(filled: Path, tmp_path: Path) -> None:
    write(filled, tmp_path / "b.tar")
    before = content(filled)
    with pytest.raises(Conflict, match=r"in use already: muster\.db"):
        put_back(tmp_path / "b.tar", filled)
    assert content(filled) == before


def test_a_backup_that_cannot_be_written_to_its_end_leaves_nothing(filled: Path, tmp_path: Path) -> None:
    blocks = (filled / "muster.db").stat().st_size // 512 + 20  # room for the database, not for outputs too
    command = f"ulimit -f {blocks}; exec {sys.executable} -m muster.cli backup b.tar --data-dir {filled}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "The backup could not be made: File too large" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


# --- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_a_backup_cut_short_or_altered_anywhere_is_refused(filled: Path, tmp_path: Path, name: str) -> None:
    write(filled, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    dice = random.Random(1)  # noqa: S311 - it has to repeat
    manifest_starts = whole.index(b"manifest.json") if name == "b.tar" else len(whole)
    damaged = [whole[:cut] for cut in (0, 1, 511, 512, *(dice.randrange(manifest_starts) for _ in range(10)))]
    for _ in range(15):
        place = dice.randrange(len(whole) // 2)
        damaged.append(whole[:place] + bytes([whole[place] ^ 0x40]) + whole[place + 1 :])
    harmless = 0
    for number, raw in enumerate(damaged):
        (tmp_path / "bad").write_bytes(raw)
        target = tmp_path / f"new-{number}"
        try:
            put_back(tmp_path / "bad", target)
        except BadBackup as error:
            assert "cannot be restored" in error.detail  # noqa: PT017 - some bits are padding
            assert list(target.iterdir()) == [], "nothing was put in place"
        else:
            harmless += 1
            assert content(target) == {**content(target), **_kept(filled)}
    assert harmless <= 5, "only what tar itself passes over may differ"


def _kept(home: Path) -> dict[str, bytes | str]:
    return {name: data for name, data in content(home).items() if "/." not in name}


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


OUT = "agent/outputs"
#: what is wrong → members, a name alone being a file
EVIL: dict[str, list[str | tarfile.TarInfo]] = {
    "a path upwards": ["logs/../../evil"],
    "an absolute path": ["/tmp/evil"],
    "an unknown name": ["agent/process/evil"],
    "a dot path": ["./logs/evil"],
    "a file where a folder belongs": ["logs/x", "logs/x/evil"],
    "a link among the logs": [link("logs/evil", "/etc")],
    "a hard link": [link(f"{OUT}/evil", "/etc/passwd", tarfile.LNKTYPE)],
    "a device": [link(f"{OUT}/evil", "", tarfile.CHRTYPE)],
    "a file twice": ["logs/x", "logs/x"],
    "a link below a link": [link(f"{OUT}/a", "/tmp"), link(f"{OUT}/a/evil", "x")],
    "a file below a link": [link(f"{OUT}/a", "/tmp"), f"{OUT}/a/evil"],
}


def add(tar: tarfile.TarFile, name: str, data: bytes = b"evil") -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("name", EVIL)
def test_a_malicious_archive_gets_nowhere(
    filled: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one whose manifest fits."""
    monkeypatch.setattr(backup.Seal, "sha256", "always")
    monkeypatch.setattr(
        backup.Seal, "files", property(lambda seal: 0, lambda seal, value: None), raising=False
    )
    write(filled, tmp_path / "good.tar")
    with tarfile.open(tmp_path / "good.tar") as good, tarfile.open(tmp_path / "evil.tar", "w") as evil:
        members = good.getmembers()
        for info in members[:-1]:
            evil.addfile(info, good.extractfile(info) if info.isreg() else None)
        for made in EVIL[name]:
            add(evil, made) if isinstance(made, str) else evil.addfile(made)
        evil.addfile(members[-1], good.extractfile(members[-1]))
    with pytest.raises(BadBackup):
        put_back(tmp_path / "evil.tar", tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/evil").exists()


def with_manifest(file: Path, target: Path, **changes: object) -> None:
    with tarfile.open(file) as good, tarfile.open(target, "w") as other:
        for info in good:
            content = good.extractfile(info)
            if info.name != "manifest.json":
                other.addfile(info, content)
            else:
                assert content is not None
                add(other, info.name, json.dumps({**json.loads(content.read()), **changes}).encode())


def test_a_backup_of_a_later_format_or_schema_is_refused_by_name(filled: Path, tmp_path: Path) -> None:
    write(filled, tmp_path / "good.tar", outputs=False)
    with_manifest(tmp_path / "good.tar", tmp_path / "later.tar", format=2, version="9.9", more="?")
    with pytest.raises(BadBackup, match=r"format is 2, made by Muster 9\.9"):
        put_back(tmp_path / "later.tar", tmp_path / "new")
    conn = sqlite3.connect(filled / "muster.db")
    conn.execute("UPDATE alembic_version SET version_num = '9999'")
    conn.commit()
    conn.close()
    write(filled, tmp_path / "newer.tar")
    with pytest.raises(StoreUnavailable, match="made by a newer Muster"):
        put_back(tmp_path / "newer.tar", tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("raw", [b"", b"text, not a tar", b"\0" * 20480])
def test_what_is_no_backup_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "file").write_bytes(raw)
    with pytest.raises(BadBackup):
        put_back(tmp_path / "file", tmp_path / "new")


def test_a_damaged_database_is_not_backed_up(filled: Path, world: World, tmp_path: Path) -> None:
    world.launch_one()
    world.close()
    with (filled / "muster.db").open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xa5" * 4096 * 20)
    with pytest.raises(MusterError, match="is damaged"):
        write(filled, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()
    shutil.rmtree(filled)
    with pytest.raises(LocalProblem, match="nothing to back up"):
        write(filled, tmp_path / "b.tar")
