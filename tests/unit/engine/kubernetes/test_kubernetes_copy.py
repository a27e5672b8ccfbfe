"""What a container printed is in the file once, wherever the cluster's stream was cut and gone on with."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.kubernetes import copy
from muster.engine.kubernetes.copy import Copy
from muster.engine.kubernetes.spool import Mark, Spool

NOON = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp())
SECOND = 10**9


@dataclass(frozen=True)
class Entry:
    """A line of the runtime's own file; long lines are several, each with its time."""

    at: int  #: nanoseconds after noon
    text: bytes
    partial: bool = False


def stamp(at: int) -> str:
    seconds, rest = divmod(at, SECOND)
    return f"{datetime.fromtimestamp(NOON + seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def stream(entries: Sequence[Entry], since: str = "") -> bytes:
    """As the kubelet sends it: a time only where a line begins, also if that beginning is not sent."""
    start = int(datetime.fromisoformat(since).timestamp() - NOON) * SECOND if since else None
    sent, begins = b"", True
    for entry in entries:
        if start is None or entry.at >= start:
            sent += (f"{stamp(entry.at)} ".encode() if begins else b"") + entry.text
            sent += b"" if entry.partial else b"\n"
        begins = not entry.partial
    return sent


def content(entries: Sequence[Entry]) -> bytes:
    return b"".join(entry.text + (b"" if entry.partial else b"\n") for entry in entries)


def pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        yield data[start:end]


class Cut(Exception):
    """The connection broke."""


def read(
    spool: Spool, sent: bytes, cuts: Sequence[int] = (), *, breaks: bool = False, prefix: bytes = b""
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces(sent, cuts):
            yield piece
        if breaks:
            raise Cut

    with suppress(Cut, StopIteration):  # it waits for nothing but the chunks, so it needs no event loop
        Copy(spool, "main", spool.marks.get("main", Mark()), prefix).run(chunks()).send(None)


@st.composite
def outputs(draw: st.DrawFn) -> list[Entry]:
    """Lines in the order they were written: nearly that of their times, many in one second, some long."""
    at = 0
    entries: list[Entry] = []
    for text in draw(st.lists(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b" ")))):
        at += draw(st.sampled_from([0, 0, 1, 1000, SECOND // 3, SECOND, 5 * SECOND]))
        early = draw(st.sampled_from([0, 0, 0, 1, 1000, SECOND // 4]))
        long = draw(st.integers(0, 7)) == 0
        entries.append(Entry(at - early, text, partial=long))
    if entries and entries[-1].partial and draw(st.booleans()):
        entries.append(Entry(at, b"end"))
    return entries


CUTS = st.lists(st.integers(0, 2000), max_size=6)


@settings(deadline=None)  # it writes files
@given(outputs(), st.lists(st.tuples(st.integers(0, 2000), CUTS, st.booleans()), max_size=5), CUTS)
def test_any_chunks_and_any_cuts_give_the_very_bytes(
    entries: list[Entry], attempts: list[tuple[int, list[int], bool]], cuts: list[int]
) -> None:
    for number in range(1, len(entries)):  # a line that follows another's beginning is never earlier
        if entries[number - 1].partial and entries[number].at < entries[number - 1].at:
            entries[number] = Entry(entries[number - 1].at, entries[number].text, entries[number].partial)
    with TemporaryDirectory() as folder:
        spool = Spool.open(Path(folder) / "0.log")
        for end, places, breaks in attempts:
            sent = stream(entries, spool.marks.get("main", Mark()).since)
            read(spool, sent[: end % (len(sent) + 1)], places, breaks=breaks)
            assert content(entries).startswith(spool.path.read_bytes())
            length, mark = spool.mark_at(spool.length) or (0, "")  # another agent goes on with it
            spool = Spool.open(spool.path, length=length, mark=mark)
        read(spool, stream(entries, spool.marks.get("main", Mark()).since), cuts)
        assert spool.path.read_bytes() == content(entries)


@settings(deadline=None)  # it writes files
@given(outputs(), st.integers(0, 3000), CUTS)
def test_it_can_be_gone_on_from_every_place_that_was_marked(
    entries: list[Entry], offset: int, cuts: list[int]
) -> None:
    entries = [Entry(entry.at, entry.text) for entry in entries]
    with TemporaryDirectory() as folder:
        spool = Spool.open(Path(folder) / "0.log")
        read(spool, stream(entries), cuts)
        length, mark = spool.mark_at(offset) or (0, "")
        assert length <= offset
        other = Spool.open(Path(folder) / "1.log", length=length, mark=mark)
        read(other, stream(entries, other.marks.get("main", Mark()).since), cuts)
        assert other.path.read_bytes()[length:] == content(entries)[length:]


def test_a_line_of_an_earlier_second_that_comes_late_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    """stdout and stderr are stamped by two threads of the runtime, and written in another order."""
    early, late = Entry(SECOND - 1, b"stdout"), Entry(SECOND + 1, b"stderr")
    before, after = [Entry(0, b"begin"), late], [early, Entry(SECOND + 2, b"end")]
    spool = Spool.open(tmp_path / "0.log")
    read(spool, stream(before), breaks=True)
    read(spool, stream([*before, *after], spool.marks["main"].since))
    assert spool.path.read_bytes() == b"begin\nstderr\nstdout\nend\n"


def test_so_is_the_rest_of_a_long_line_whose_beginning_came_late(tmp_path: Path) -> None:
    """The cluster sends the rest without a time, in the middle of lines that it sends again."""
    lines = [Entry(6 * SECOND, b"one"), Entry(11 * SECOND, b"two")]
    late = [Entry(11 * SECOND - 1, b"thr", partial=True), Entry(16 * SECOND, b"ee")]
    entries = [*lines, *late, Entry(16 * SECOND + 1, b"four")]
    spool = Spool.open(tmp_path / "0.log")
    for _ in range(2):
        read(spool, stream(entries, spool.marks.get("main", Mark()).since))
        assert spool.path.read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_so_is_one_that_claims_to_be_older_than_the_very_first(tmp_path: Path) -> None:
    entries = [Entry(SECOND, b"stderr"), Entry(SECOND - 1, b"stdout"), Entry(SECOND + 1, b"end")]
    for known in (1, 2):
        spool = Spool.open(tmp_path / f"{known}.log")
        read(spool, stream(entries[:known]), breaks=True)
        read(spool, stream(entries, spool.marks["main"].since))
        assert spool.path.read_bytes() == content(entries)


def test_a_mark_of_an_earlier_version_is_gone_on_from(tmp_path: Path) -> None:
    entries = [Entry(0, b"one"), Entry(SECOND, b"two")]
    old = {"main": [stamp(0), len(stream(entries[:1])), stamp(0)]}
    spool = Spool.open(tmp_path / "0.log", length=4, mark=json.dumps(old))
    read(spool, stream(entries, spool.marks["main"].since))
    assert spool.path.read_bytes() == b"\0\0\0\0two\n"


def test_what_the_cluster_threw_away_is_not_waited_for(tmp_path: Path) -> None:
    """The kubelet begins a new file when one is full, and sends only from that."""
    old = [Entry(0, b"one"), Entry(1, b"two"), Entry(2, b"three")]
    spool = Spool.open(tmp_path / "0.log")
    read(spool, stream(old[:2]), breaks=True)
    read(spool, stream([*old[1:], Entry(3, b"four")], spool.marks["main"].since))
    assert spool.path.read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_other_containers_have_their_name_before_each_line(tmp_path: Path) -> None:
    entries = [Entry(0, b"one"), Entry(1, b"two" * 20), Entry(2, b"three")]
    sent = stream(entries)
    for cut in range(len(sent)):
        spool = Spool.open(tmp_path / f"{cut}.log")
        read(spool, sent[:cut], prefix=b"[side] ")
        read(spool, sent, prefix=b"[side] ")
        assert spool.path.read_bytes() == b"[side] one\n[side] " + b"two" * 20 + b"\n[side] three\n"


def test_no_line_is_written_before_its_end_unless_it_is_very_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "HOLD", 100)
    spool = Spool.open(tmp_path / "0.log")
    sent = stream([Entry(0, b"short"), Entry(1, b"x" * 90)])
    read(spool, sent[:-1], [len(sent) - 20], breaks=True)
    assert spool.path.read_bytes() == b"short\n"
    read(spool, stream([Entry(0, b"short"), Entry(1, b"x" * 900)])[:-1], [500], breaks=True)
    assert spool.path.read_bytes() == b"short\n" + b"x" * 900


def test_the_kubelets_own_words_are_kept(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "0.log")
    read(spool, stream([Entry(0, b"one")]) + b"rpc error: no such container\n")
    assert spool.path.read_bytes() == b"one\nrpc error: no such container\n"


@pytest.mark.parametrize("mark", ["", "{}", "nonsense", "[]", '{"main": 1}', '{"main": ["a", "b", "c"]}'])
def test_a_mark_that_is_none_begins_at_the_beginning(tmp_path: Path, mark: str) -> None:
    spool = Spool.open(tmp_path / "0.log", mark=mark)
    read(spool, stream([Entry(0, b"one")], spool.marks.get("main", Mark()).since))
    assert spool.path.read_bytes() == b"one\n"
