"""From the cluster's stream of a container's output, each line with its time before it, to a member's file.

A stream may begin again from a mark, and be cut anywhere. What is in the file already is left out:

1. The stream from a mark's second on begins with the mark's first line: as many bytes as the mark says are
   known. A line without a time among them, or before, is the rest of one from an earlier second.
2. It begins with another line: the cluster has thrown the first one away, as it does with long logs. Then
   lines are known by their times. Or it is of another life of the container (`AnotherBeginning`).

A mark counts from the second before the newest one, not from the newest: a line printed a little earlier
may still come, and must be among those that the cluster sends from there on. Until there are three seconds a
mark counts from the very beginning, and all of it is asked for again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from muster.engine.kubernetes.spool import Mark, Spool, whole_seconds

HOLD = 1024 * 1024  #: bytes of a line that are kept until it ends, so that no other gets in between
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ")
_LONGEST = 36  #: bytes of it
NOT_THERE = b"unable to retrieve container logs"  #: a kubelet's words, in place of a log, as if it were one


@dataclass(kw_only=True)
class _Count:
    """Bytes from the first line of a second on."""

    first: str
    second: float
    whole: bool  #: from the very first line on, so that earlier seconds count too
    size: int = 0


class AnotherBeginning(Exception):
    """The stream does not begin as it did before."""


class NotThere(Exception):
    """The container was removed, and its log with it."""


class Copy:
    """Takes one stream. `mark`: how far the file is; `prefix`: goes before each line; `same`: a stream that
    does not begin as before is refused, with nothing written."""

    def __init__(
        self, spool: Spool, who: str, mark: Mark, prefix: bytes = b"", *, same: bool = False
    ) -> None:
        self._spool = spool
        self._who = who
        self._from = mark
        self._prefix = prefix
        self._same = same
        self._by_time = False  #: case 2
        self._counts: list[_Count] = []  #: of the newest second and the one before, the older first
        self._counting: list[_Count] = []  #: those that the line being read counts for
        self._last = ""
        self._clock = ("", 0.0)  #: the seconds of the newest line, as text and as a number
        self._is_open = False  #: in the middle of a line
        self._is_known = False  #: all of this line is in the file
        self._out = bytearray()
        self._safe = (0, mark)  #: how much of it are whole lines, and the mark of that place

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            rest = self._take(rest + chunk)
            self._write(whole_lines=len(self._out) - self._safe[0] < HOLD)
        self._write(whole_lines=False)  # what is in `rest` then is half a time, and comes again

    def _take(self, data: bytes) -> bytes:
        """Returns what cannot be read without more."""
        position = 0
        while position < len(data):
            if not self._is_open:
                found = _STAMP.match(data, position)
                if found is None and _may_be_more(data, position):
                    return data[position:]
                if found is None and data.startswith(NOT_THERE, position):
                    raise NotThere
                stamp = found[0] if found else b""  # without: the kubelet's own words, or see 1
                self._begin(stamp)
                position += len(stamp)
            end = data.find(b"\n", position) + 1
            self._continue(data[position : end or len(data)], ended=end > 0)
            position = end or len(data)
        return b""

    def _begin(self, stamp: bytes) -> None:
        self._is_open = True
        self._counting = []
        if not stamp:
            self._is_known = bool(self._from.first) and (not self._counts or self._left() > 0)
            return
        time = stamp[:-1].decode("ascii")
        if not self._counts and self._from.first:
            self._by_time = time != self._from.first
            if self._by_time and self._same:
                raise AnotherBeginning
        second = self._second(time)
        if not self._counts or second > self._counts[-1].second:
            whole = not self._counts and not self._from.since
            self._counts = [*self._counts[-1:], _Count(first=time, second=second, whole=whole)]
        self._counting = [count for count in self._counts if count.whole or second >= count.second]
        self._is_known = self._by_time and _moment(time) <= _moment(self._from.last)
        is_new = not self._is_known and not self._left()
        self._advance(len(stamp))
        self._last = time
        if is_new:
            self._out += self._prefix

    def _continue(self, data: bytes, *, ended: bool) -> None:
        known = min(self._left(), len(data)) if self._counting else 0
        self._advance(len(data))
        if not self._is_known:
            self._out += data[known:]
        if ended:
            self._is_open = False
            self._safe = (len(self._out), self._mark())

    def _left(self) -> int:
        """Bytes from here on that are in the file already, in case 1."""
        if self._by_time or not self._counts or self._counts[0].first != self._from.first:
            return 0
        return max(0, self._from.size - self._counts[0].size)

    def _advance(self, size: int) -> None:
        for count in self._counting:
            count.size += size

    def _mark(self) -> Mark:
        if not self._counts:
            return self._from
        oldest = self._counts[0]
        return Mark(first=oldest.first, size=oldest.size, last=self._last, whole=oldest.whole)

    def _write(self, *, whole_lines: bool) -> None:
        size, mark = self._safe if whole_lines else (len(self._out), self._mark())
        if size:
            self._spool.add(bytes(self._out[:size]), self._who, mark)
            del self._out[:size]
        self._safe = (0, mark)

    def _second(self, time: str) -> float:
        """Most lines are of the same second as the one before."""
        text = whole_seconds(time)
        if text != self._clock[0]:
            self._clock = (text, datetime.fromisoformat(text).timestamp())
        return self._clock[1]


def _may_be_more(data: bytes, position: int) -> bool:
    """It may be the beginning of a time."""
    return len(data) - position < _LONGEST and b"\n" not in data[position:]


def _moment(time: str) -> tuple[float, str]:
    digits = re.match(r"\d*", time.partition(".")[2])
    return datetime.fromisoformat(whole_seconds(time)).timestamp(), digits[0].ljust(9, "0") if digits else ""
