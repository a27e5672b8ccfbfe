"""Lines in a log of bytes: where they begin, and which of them have a text in them.

A reader of a million lines reads a few thousand bytes of them. So that it can go to any line at once, the
log is cut into spans, at most `SPAN` bytes each and a new one wherever a moment is known; of each span is
told how many lines begin before it. A line belongs to the span in which it begins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from muster.store.logs import LogKey, LogStore

SPAN = 64 * 1024
MOST_SPANS = 20_000  #: of moments; a log that was written for days is told more coarsely
_PIECE = 1024 * 1024
#: What a line looks like from which somebody looking for the trouble wants to read on.
_ERROR = re.compile(
    rb"Traceback \(most recent call last\)|\b[A-Za-z_.]*(?:Error|Exception)\b\s*[:(]"
    rb"|(?:\b|(?<=m))(?:ERROR|FATAL|CRITICAL|PANIC)\b"  # an escape sequence for a colour ends with m
    rb"|\b(?:error|fatal|panic): |[Ss]egmentation fault|[Oo]ut of memory"
)


_Places = Callable[[bytes], Iterator[int]]  #: where in some whole lines is what is looked for


@dataclass(frozen=True, kw_only=True)
class LogMap:
    """The spans of one replica's log, in order."""

    length: int  #: bytes
    lines: int
    ended: bool  #: the last line has its end, or there is none
    offsets: Sequence[int]  #: where each span begins
    firsts: Sequence[int]  #: lines that begin before it
    times: Sequence[float | None]  #: Unix seconds: the span was written no earlier


@dataclass(frozen=True, kw_only=True)
class Match:
    line: int  #: counted from 0
    offset: int  #: where the line begins


def map_log(logs: LogStore, key: LogKey) -> LogMap:
    length = logs.length(key)
    stamps = list(logs.stamps(key))
    offsets = _cuts(length, [offset for offset, _ in stamps])
    # The line that begins at a cut is the one after the newline right before it.
    counts = _newlines(logs, key, [max(0, offset - 1) for offset in offsets], max(0, length - 1))
    starts = [offset for offset, _ in stamps]
    times = (bisect_right(starts, offset) - 1 for offset in offsets)
    return LogMap(
        length=length,
        lines=counts[-1] + 1 if length else 0,
        ended=length == 0 or logs.read(key, length - 1, 1) == b"\n",
        offsets=offsets,
        firsts=[0 if offset == 0 else count + 1 for offset, count in zip(offsets, counts, strict=False)],
        times=[stamps[place][1] / 1_000_000 if place >= 0 else None for place in times],
    )


def _cuts(length: int, moments: Sequence[int]) -> list[int]:
    least = length // MOST_SPANS
    cuts = [0] if length else []
    for moment in [*moments, length]:
        while cuts and cuts[-1] + SPAN < min(moment, length):
            cuts.append(cuts[-1] + SPAN)
        if cuts and cuts[-1] + least < moment < length:
            cuts.append(moment)
    return cuts


def _newlines(logs: LogStore, key: LogKey, places: Sequence[int], end: int) -> list[int]:
    """How many newlines there are before each of these places, and before the end."""
    counts, count, position, data = [], 0, 0, b""
    start = 0  # of `data`
    for place in [*places, end]:
        while position < place:
            if position >= start + len(data):
                start, data = position, logs.read(key, position, _PIECE)
                if not data:
                    break
            upto = min(place, start + len(data))
            count += data.count(b"\n", position - start, upto - start)
            position = upto
        counts.append(count)
    return counts


def find_text(logs: LogStore, key: LogKey, text: str) -> Iterator[Match]:
    """The lines that have this text in them, whatever the case of its ASCII letters."""
    wanted = text.encode().lower()

    def places(data: bytes) -> Iterator[int]:
        lowered, at = data.lower(), 0
        while (at := lowered.find(wanted, at)) >= 0:
            yield at
            end = lowered.find(b"\n", at)
            if end < 0:
                return
            at = end + 1

    return _matches(logs, key, places)


def find_errors(logs: LogStore, key: LogKey) -> Iterator[Match]:
    """The lines that look like an error."""
    return _matches(logs, key, lambda data: (found.start() for found in _ERROR.finditer(data)))


def _matches(logs: LogStore, key: LogKey, places: _Places) -> Iterator[Match]:
    line, seen = 0, -1
    for start, data in _whole_lines(logs, key):
        counted = 0
        for place in places(data):
            line += data.count(b"\n", counted, place)
            counted = place
            if line > seen:
                seen = line
                yield Match(line=line, offset=start + data.rfind(b"\n", 0, place) + 1)
        line += data.count(b"\n", counted)


def _whole_lines(logs: LogStore, key: LogKey) -> Iterator[tuple[int, bytes]]:
    """The log in pieces that end with a line, each with where it begins."""
    position, rest = 0, b""
    while piece := logs.read(key, position, _PIECE):
        data = rest + piece
        start = position - len(rest)
        position += len(piece)
        end = data.rfind(b"\n") + 1 or len(data)  # a line longer than a piece is looked at in parts
        yield start, data[:end]
        rest = data[end:]
    if rest:
        yield position - len(rest), rest
