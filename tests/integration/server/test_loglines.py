"""Logs by lines: every line is where the map says, and what is looked for is found once a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from door import Door, open_door, replica
from muster.server import loglines
from muster.server.loglines import LogMap, Match, find_errors, find_text, map_log
from muster.store.logs import LogKey, LogStore

KEY = LogKey(run_id="abcdefghij", attempt=1, rank=0)


def store_with(folder: Path, *pieces: bytes) -> LogStore:
    """A log that was written piece by piece, one every two seconds."""
    logs = LogStore(folder)
    offset = 0
    for number, piece in enumerate(pieces):
        offset = logs.write(KEY, offset, piece, at_micros=2_000_000 * number)
    return logs


def lines_of(found: LogMap, data: bytes) -> list[bytes]:
    """As a reader of the map reads them: each span has the lines that begin in it."""
    if not found.offsets:
        return []
    ends = [*found.offsets[1:], found.length]
    numbers = [*found.firsts[1:], found.lines]
    lines: list[bytes] = []
    for start, end, first, last in zip(found.offsets, ends, found.firsts, numbers, strict=True):
        begins = [place for place in range(start, end) if place == 0 or data[place - 1 : place] == b"\n"]
        assert (len(lines), len(begins)) == (first, last - first)
        lines += [data[place:].split(b"\n", 1)[0] for place in begins]
    return lines


TEXTS = st.lists(st.sampled_from([b"a", b"\n", b"\n\n", b"line\n", b"\xc3\xbc", b"x" * 50]), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(pieces=st.lists(TEXTS.map(b"".join), max_size=6))
def test_every_line_is_in_the_span_it_begins_in(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loglines, "SPAN", 16)
        patch.setattr(loglines, "_PIECE", 7)
        logs = store_with(tmp_path_factory.mktemp("logs"), *pieces)
        data = b"".join(pieces)
        found = map_log(logs, KEY)
        expected = data.removesuffix(b"\n").split(b"\n") if data else []
        assert lines_of(found, data) == expected
        assert found.lines == len(expected)
        assert found.ended == (data == b"" or data.endswith(b"\n"))
    matches = set(find_text(logs, KEY, "LINE"))
    for number, line in enumerate(expected):
        offset = len(b"\n".join(expected[:number])) + (number > 0)
        assert (Match(line=number, offset=offset) in matches) == (b"line" in line)


def test_spans_know_when_they_were_written(tmp_path: Path) -> None:
    found = map_log(store_with(tmp_path, b"one\ntw", b"o\nthree\n", b"four\n"), KEY)
    assert found.offsets == [0, 6, 14]
    assert found.firsts == [0, 2, 3]
    assert found.times == [0.0, 2.0, 4.0]


def test_a_log_of_days_is_told_in_a_bounded_number_of_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loglines, "MOST_SPANS", 10)
    pieces = [b"step\n"] * 200
    found = map_log(store_with(tmp_path, *pieces), KEY)
    assert len(found.offsets) <= 11
    assert found.lines == 200


def test_a_line_is_found_once_however_often_the_text_is_in_it(tmp_path: Path) -> None:
    logs = store_with(tmp_path, b"Loss loss LOSS\nnothing\nthe loss\n\nloss")
    assert [match.line for match in find_text(logs, KEY, "loss")] == [0, 2, 4]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (b"ok\nTraceback (most recent call last):\n", 1),
        (b"0 errors so far\nValueError: no\n", 1),
        (b"\x1b[31mERROR\x1b[0m it broke\n", 0),
        (b"torch.cuda.OutOfMemoryError: CUDA out of memory\n", 0),
        (b"a\nb\nmain.c:3: error: expected ;\n", 2),
    ],
)
def test_the_first_error_is_found(tmp_path: Path, log: bytes, line: int) -> None:
    assert next(find_errors(store_with(tmp_path, log), KEY)).line == line


@pytest.mark.parametrize("log", [b"", b"no errors\n", b"error_rate=0.1\n", b"Terror\n"])
def test_a_quiet_log_has_no_error(tmp_path: Path, log: bytes) -> None:
    assert not list(find_errors(store_with(tmp_path, log), KEY))


def test_over_http_all_replicas_are_told_or_the_one_asked_for(tmp_path: Path) -> None:
    for door in open_door(tmp_path):
        run = door.launch(training={"nodes": 2})
        agent = door.agent()
        claim = agent.claim()
        agent.report(claim, replica("running", 0), replica("running", 1))
        agent.send_log(claim, 0, b"hello\nworld\n")
        agent.send_log(claim, 0, b"hello\nError: no\n", rank=1)

        def get(what: str, run_id: str = run["id"], door: Door = door, **asked: Any) -> list[dict[str, Any]]:
            items: list[dict[str, Any]] = door.call("GET", f"/runs/{run_id}/logs/{what}", **asked).json()[
                "items"
            ]
            return items

        assert [(item["rank"], item["lines"], item["length"]) for item in get("map")] == [
            (0, 2, 12),
            (1, 2, 16),
        ]
        assert [item["rank"] for item in get("map", rank=1)] == [1]
        assert get("find", text="WORLD") == [{"rank": 0, "line": 1, "offset": 6}]
        assert get("find") == [{"rank": 1, "line": 1, "offset": 6}]
        assert len(get("find", text="hello", limit=1)) == 2
