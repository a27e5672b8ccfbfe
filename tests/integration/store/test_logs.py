"""Logs: whatever comes in whatever pieces, what is there is the beginning of the stream."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.domain.errors import BadInput
from muster.store import logs
from muster.store.logs import LogKey, LogStore

KEY = LogKey(run_id="a123456789", attempt=1, rank=0)
SEGMENT = 64


def read_all(store: LogStore, key: LogKey = KEY) -> bytes:
    return store.read(key, 0, 10**9)


@given(
    stream=st.binary(min_size=1, max_size=5 * SEGMENT),
    pieces=st.lists(st.tuples(st.integers(0, 5 * SEGMENT), st.integers(0, 2 * SEGMENT)), max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_what_is_there_is_always_the_beginning_of_the_stream(
    tmp_path_factory: pytest.TempPathFactory, stream: bytes, pieces: list[tuple[int, int]]
) -> None:
    """Pieces overlap, come again, leave gaps, cross segments: as from an agent that resends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "SEGMENT", SEGMENT)
        store = LogStore(tmp_path_factory.mktemp("logs"))
        length = 0
        for offset, size in pieces:
            piece = stream[offset : offset + size]
            expected = max(length, offset + len(piece)) if offset <= length and piece else length
            length = store.write(KEY, offset, piece, at_micros=0)
            assert length == expected == store.length(KEY)
            assert read_all(store) == stream[:length]
        assert store.write(KEY, length, stream[length:], at_micros=0) == len(stream)
        assert read_all(store) == stream


@given(
    stream=st.binary(min_size=1, max_size=5 * SEGMENT),
    pieces=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.one_of(st.integers(0, 5 * SEGMENT), st.sampled_from([2**62, 2**63, 10**400])),
            st.integers(0, 3 * SEGMENT),
        ),
        max_size=30,
    ),
)
@settings(max_examples=60, deadline=None)
def test_servers_that_share_the_files_need_no_word_of_each_other(
    tmp_path_factory: pytest.TempPathFactory, stream: bytes, pieces: list[tuple[int, int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "SEGMENT", SEGMENT)
        root = tmp_path_factory.mktemp("logs")
        servers = [LogStore(root) for _ in range(3)]
        for server, offset, size in pieces:
            length = servers[server].write(KEY, offset, stream[offset : offset + size], at_micros=0)
            for other in servers:
                assert other.length(KEY) == length
                assert read_all(other) == stream[:length]


def test_writes_of_the_same_bytes_at_the_same_time_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an answer was lost and the agent sends again while the first request is still at work."""
    monkeypatch.setattr(logs, "SEGMENT", SEGMENT)
    stream = os.urandom(40 * SEGMENT)
    servers = [LogStore(tmp_path) for _ in range(4)]

    def send_all(store: LogStore) -> None:
        length = 0
        while length < len(stream):
            length = store.write(KEY, length, stream[length : length + SEGMENT // 2 + 5], at_micros=0)
            assert read_all(store)[:length] == stream[:length]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send_all, servers))
    assert read_all(servers[0]) == stream


def test_what_would_follow_a_removed_log_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", SEGMENT)
    store = LogStore(tmp_path)
    store.write(KEY, 0, b"x" * (SEGMENT + 5), at_micros=0)
    store.remove_run(KEY.run_id)
    assert store.write(KEY, SEGMENT + 5, b"more", at_micros=0) == 0
    assert read_all(store) == b""
    assert store.write(KEY, 0, b"anew", at_micros=0) == 4
    assert read_all(store) == b"anew"


@given(offset=st.integers(0, 6 * SEGMENT), limit=st.integers(0, 6 * SEGMENT))
@settings(max_examples=60, deadline=None)
def test_any_range_can_be_read(tmp_path_factory: pytest.TempPathFactory, offset: int, limit: int) -> None:
    stream = bytes(i % 251 for i in range(5 * SEGMENT + 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "SEGMENT", SEGMENT)
        store = LogStore(tmp_path_factory.mktemp("logs"))
        store.write(KEY, 0, stream, at_micros=0)
        assert store.read(KEY, offset, limit) == stream[offset : offset + limit]


def test_segments_are_named_by_their_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SEGMENT", SEGMENT)
    LogStore(tmp_path).write(KEY, 0, b"x" * (2 * SEGMENT + 1), at_micros=0)
    names = sorted(path.name for path in (tmp_path / "a1" / KEY.run_id / "1" / "0").iterdir())
    assert names == [f"{0:020d}", f"{SEGMENT:020d}", f"{2 * SEGMENT:020d}", "times"]


def test_a_writer_that_died_between_segments_left_a_whole_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", SEGMENT)
    store = LogStore(tmp_path)
    store.write(KEY, 0, b"x" * SEGMENT, at_micros=0)
    (tmp_path / "a1" / KEY.run_id / "1" / "0" / f"{SEGMENT:020d}").touch()
    assert store.length(KEY) == SEGMENT
    assert store.write(KEY, SEGMENT, b"more", at_micros=0) == SEGMENT + 4


def test_replicas_attempts_and_runs_are_apart(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    keys = [
        KEY,
        LogKey(run_id=KEY.run_id, attempt=1, rank=1),
        LogKey(run_id=KEY.run_id, attempt=2, rank=0),
        LogKey(run_id="b123456789", attempt=1, rank=0),
    ]
    for number, key in enumerate(keys):
        store.write(key, 0, b"%d" % number, at_micros=0)
    assert [read_all(store, key) for key in keys] == [b"0", b"1", b"2", b"3"]
    store.remove_run(KEY.run_id)
    assert [read_all(store, key) for key in keys] == [b"", b"", b"", b"3"]
    store.remove_run(KEY.run_id)


def test_what_was_never_written_is_empty(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    assert (store.length(KEY), read_all(store), list(store.stamps(KEY))) == (0, b"", [])
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


def test_the_index_says_when_which_offset_was_reached(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    second = 1_000_000
    for at, data in (
        (0, b"aa"),
        (second // 2, b"bb"),
        (second, b"cc"),
        (3 * second, b"dd"),
        (2 * second, b"ee"),
    ):
        store.write(KEY, store.length(KEY), data, at_micros=at)
    assert list(store.stamps(KEY)) == [(0, 0), (4, second), (6, 3 * second)]


def test_a_stamp_cut_short_spoils_none_after_it(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    store.write(KEY, 0, b"aa", at_micros=0)
    with (tmp_path / "a1" / KEY.run_id / "1" / "0" / "times").open("ab") as times:
        times.write(b"\x01\x02\x03")  # the disk was full
    store.write(KEY, 2, b"bb", at_micros=5_000_000)
    assert list(store.stamps(KEY)) == [(0, 0), (2, 5_000_000)]


@pytest.mark.parametrize(
    "run_id",
    ["", "..", "../../etc", "a/../../../b", "/etc/passwd", "A123456789", "a12345678", "a123456789\n", "a\0b"],
)
def test_what_is_no_run_id_never_becomes_a_path(tmp_path: Path, run_id: str) -> None:
    store = LogStore(tmp_path / "logs")
    key = LogKey(run_id=run_id, attempt=1, rank=0)
    for work in (
        lambda: store.write(key, 0, b"x", at_micros=0),
        lambda: store.read(key, 0, 1),
        lambda: store.length(key),
        lambda: store.remove_run(run_id),
    ):
        with pytest.raises(BadInput):
            work()
    assert list(tmp_path.iterdir()) == []
