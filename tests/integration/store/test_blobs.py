"""Code on disk, by content: whole or not at all, and each entity's own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from muster.domain.errors import MusterError
from muster.store.blobs import BlobPool

DATA = b"print('hello')\n"
SHA = hashlib.sha256(DATA).hexdigest()


def add(pool: BlobPool, entity: str = "ann") -> None:
    with pool.receive(entity, SHA) as incoming:
        incoming.write(DATA[:5])
        incoming.write(memoryview(DATA)[5:])
        incoming.commit()


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_file_is_there_once_it_is_committed(tmp_path: Path) -> None:
    pool = BlobPool(tmp_path)
    with pool.receive("ann", SHA) as incoming:
        incoming.write(DATA)
        assert pool.missing("ann", [SHA]) == [SHA]
        incoming.commit()
    assert pool.missing("ann", [SHA]) == []
    assert pool.path("ann", SHA).read_bytes() == DATA
    assert files(tmp_path) == [pool.path("ann", SHA)]


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    pool = BlobPool(tmp_path)
    incoming = pool.receive("ann", SHA)
    incoming.write(DATA[:5])
    incoming.__exit__(ConnectionError, ConnectionError("the line went dead"), None)
    assert files(tmp_path) == []
    assert pool.missing("ann", [SHA]) == [SHA]


def test_two_who_send_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    pool = BlobPool(tmp_path)
    with pool.receive("ann", SHA) as first, pool.receive("ann", SHA) as second:
        first.write(DATA)
        second.write(DATA)
        first.commit()
        second.commit()
    assert pool.path("ann", SHA).read_bytes() == DATA
    assert len(files(tmp_path)) == 1


def test_what_is_missing_is_named_once_and_in_order(tmp_path: Path) -> None:
    pool = BlobPool(tmp_path)
    add(pool)
    a, b = "a" * 64, "b" * 64
    assert pool.missing("ann", [b, SHA, a, b, a]) == [b, a]


def test_each_entity_has_its_own_pool(tmp_path: Path) -> None:
    pool = BlobPool(tmp_path)
    add(pool, "ann")
    assert pool.missing("bob", [SHA]) == [SHA]


@pytest.mark.parametrize(
    ("entity", "sha256"),
    [
        ("ann", ""),
        ("ann", "../../etc/passwd"),
        ("ann", SHA.upper()),
        ("ann", SHA + "\n"),
        ("ann", SHA[:-1]),
        ("..", SHA),
        ("a/b", SHA),
        ("", SHA),
        (".", SHA),
        ("ann\0", SHA),
    ],
)
def test_no_name_from_a_client_becomes_a_path(tmp_path: Path, entity: str, sha256: str) -> None:
    pool = BlobPool(tmp_path / "code")
    for work in (pool.path, pool.receive):
        with pytest.raises(MusterError):
            work(entity, sha256)
    assert list(tmp_path.iterdir()) == []
