"""Files nobody speaks of any more go; all others stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service import stop
from muster.service.tidy import Files, tidy
from muster.store import runs
from muster.store.blobs import BlobPool
from muster.store.logs import LogKey, LogStore
from muster.store.removal import files_kept
from muster.store.usage import FIELDS, UsagePoint, UsageStore
from world import World, new_sqlite, open_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = open_world(new_sqlite(tmp_path))
    made.queue()
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(
        data_dir=tmp_path,
        logs=LogStore(tmp_path / "logs"),
        usage=UsageStore(tmp_path / "usage"),
        blobs=BlobPool(tmp_path / "code"),
    )


def run_with_files(world: World, files: Files) -> str:
    run_id = world.launch_one()
    key = LogKey(run_id=run_id, attempt=1, rank=0)
    files.logs.write(key, 0, b"text", at_micros=1)
    files.usage.append(key, [UsagePoint(at=1.0, values=(None,) * len(FIELDS))])
    return run_id


def delete(world: World, run_id: str) -> None:
    """In the database alone, as when the server dies right after."""
    world.stop(run_id)
    world.do(lambda tx: stop.delete(tx, world.owner, run_id, now=world.now))


def test_files_of_deleted_runs_go_and_those_of_others_stay(world: World, files: Files) -> None:
    kept, deleted, lost = (run_with_files(world, files) for _ in range(3))
    delete(world, deleted)
    world.do(lambda tx: runs.remove(tx.conn, lost))  # gone, but nobody deleted it: a database that forgot
    asyncio.run(tidy(world.db, files))
    assert files.logs.run_ids() == files.usage.run_ids()
    assert set(files.run_ids()) == {kept, lost}


def test_nothing_goes_while_a_backup_reads(world: World, files: Files) -> None:
    deleted = run_with_files(world, files)
    delete(world, deleted)
    with files_kept(files.data_dir):
        files.remove([deleted])
        asyncio.run(tidy(world.db, files))
        assert files.run_ids() == [deleted]
    asyncio.run(tidy(world.db, files))
    assert files.run_ids() == []


def test_uploads_that_broke_off_go_and_those_on_their_way_stay(world: World, files: Files) -> None:
    broken, going_on = files.blobs.receive("ann", "ab" * 32), files.blobs.receive("ann", "cd" * 32)
    whole = files.blobs.receive("ann", "ef" * 32)
    whole.commit()
    for upload in (broken, going_on):
        upload.write(b"half")
    broken._file.close()  # as when its server is killed: the lock is gone, the file is not
    asyncio.run(tidy(world.db, files))
    names = {path.name[:5] for pattern in ("*", ".*") for path in files.data_dir.glob(f"code/*/*/{pattern}")}
    assert names == {".cdcd", "efefe"}
    going_on.commit()
    assert files.blobs.missing("ann", ["cd" * 32]) == []
