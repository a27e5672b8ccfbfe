"""Logs on disk: one raw byte stream per replica and attempt, kept in segments named by offset.

Bytes are written where they belong in the stream, so that sending them twice is harmless, and never
with a gap before them: every segment but the newest is full, and so the size of one that is not full
tells the length of the whole stream. The files alone are asked, at every write: several servers may
share them. Beside the segments, a sparse index says when which offset was reached.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster._failpoint import failpoint
from muster.domain.errors import BadInput
from muster.domain.names import is_id
from muster.store.disk import writing

SEGMENT = 8 * 1024 * 1024
MAX_OFFSET = 2**62  #: no log is that long
_STAMP = struct.Struct("<QQ")  # offset, microseconds since 1970
_STAMP_EVERY = 1_000_000  # µs: at most one stamp a second
_REMEMBERED = 10_000  #: streams whose newest stamp is known without a look


@dataclass(frozen=True, kw_only=True)
class LogKey:
    run_id: str
    attempt: int
    rank: int


class LogStore:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamped: dict[str, int] = {}  #: folder → µs of its newest stamp; saves looks, decides nothing

    def length(self, key: LogKey) -> int:
        """How many bytes of the stream are here."""
        return _length(self._folder(key))

    def mark(self, key: LogKey) -> tuple[int, str | None]:
        """The writer's own note of how far it was, and the length that the stream had then."""
        try:
            offset, _, text = Path(self._folder(key), "mark").read_text("utf-8").partition(" ")
            return (int(offset), text[:-1]) if text.endswith("\n") else (0, None)
        except (FileNotFoundError, ValueError):
            return 0, None

    def write(
        self,
        key: LogKey,
        offset: int,
        data: bytes | memoryview,
        *,
        at_micros: int,
        mark: str | None = None,
    ) -> int:
        """Put `data` at `offset`; returns the stream's length. What is here already is left alone,
        what would leave a gap is not taken: the caller sends again from the length returned.
        `mark` is kept with the bytes if the stream ends with them."""
        folder = self._folder(key)
        with writing("logs"):
            segment, length = _end_near(folder, offset)
            try:
                if offset > length or offset + len(data) <= length:
                    return length
                failpoint("log.before")
                self._stamp(folder, length, at_micros, new=length == 0)
                length = _append(folder, segment, length, memoryview(data)[length - offset :])
                failpoint("log.after")
                if mark is not None:
                    _write_mark(folder, length, mark)
                return length
            finally:
                if segment is not None:
                    os.close(segment)

    def read(self, key: LogKey, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; fewer at the end of what is here."""
        folder = self._folder(key)
        parts: list[bytes] = []
        while limit > 0 and offset <= MAX_OFFSET:
            start = offset - offset % SEGMENT
            try:
                segment = os.open(_segment(folder, start), os.O_RDONLY)
            except FileNotFoundError:
                break
            try:
                part = os.pread(segment, min(limit, start + SEGMENT - offset), offset - start)
            finally:
                os.close(segment)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            limit -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stamps(self, key: LogKey) -> Iterator[tuple[int, int]]:
        """(offset, microseconds since 1970): bytes from there on came no earlier than that."""
        try:
            raw = Path(self._folder(key), "times").read_bytes()
        except FileNotFoundError:
            return
        whole = len(raw) - len(raw) % _STAMP.size
        yield from _STAMP.iter_unpack(raw[:whole])

    def run_ids(self) -> list[str]:
        """Runs of which there are logs."""
        return [folder.name for folder in self._root.glob("??/*") if is_id(folder.name)]

    def remove_run(self, run_id: str) -> None:
        shutil.rmtree(self._run_folder(run_id), ignore_errors=True)

    def _stamp(self, folder: str, offset: int, at_micros: int, *, new: bool) -> None:
        known = None if new else self._stamped.get(folder)
        if known is not None and at_micros < known + _STAMP_EVERY:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        try:
            times = os.open(f"{folder}/times", flags, 0o640)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            times = os.open(f"{folder}/times", flags, 0o640)
        try:
            newest = _newest_stamp(times)
            if newest is None or at_micros >= newest + _STAMP_EVERY:
                os.write(times, _STAMP.pack(offset, at_micros))
                newest = at_micros
        finally:
            os.close(times)
        if len(self._stamped) >= _REMEMBERED:
            self._stamped.clear()
        self._stamped[folder] = newest

    def _run_folder(self, run_id: str) -> str:
        if not is_id(run_id):
            raise BadInput(f"{run_id[:80]!r} is not a run id.")
        return f"{self._root}/{run_id[:2]}/{run_id}"

    def _folder(self, key: LogKey) -> str:
        return f"{self._run_folder(key.run_id)}/{int(key.attempt)}/{int(key.rank)}"


def _write_mark(folder: str, length: int, mark: str) -> None:
    """Whole or not at all: one that was cut short has no line end, and counts as none."""
    temporary = f"{folder}/mark.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{length} {mark}\n")
    os.replace(temporary, f"{folder}/mark")


def _segment(folder: str, start: int) -> str:
    return f"{folder}/{start:020d}"


def _length(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            segments = [entry for entry in entries if entry.name.isdigit()]
    except FileNotFoundError:
        return 0
    if not segments:
        return 0
    newest = max(segments, key=lambda entry: entry.name)
    return int(newest.name) + newest.stat().st_size


def _end_near(folder: str, offset: int) -> tuple[int | None, int]:
    """The stream's length, and the segment in which `offset` lies, open, if the stream ends in it.

    Bytes mostly come where the stream ends: then one open file tells all, and no folder is listed.
    """
    if offset > MAX_OFFSET:
        return None, _length(folder)
    start = offset - offset % SEGMENT
    try:
        segment = os.open(_segment(folder, start), os.O_WRONLY)
    except FileNotFoundError:
        return None, _length(folder) if start else 0
    size = os.fstat(segment).st_size
    if size < SEGMENT:
        return segment, start + size
    os.close(segment)
    return None, _length(folder)


def _append(folder: str, segment: int | None, position: int, data: memoryview) -> int:
    """Write `data` at the stream's end; `segment` is the file it ends in, if that is open already."""
    while data:
        start = position - position % SEGMENT
        room = start + SEGMENT - position
        chunk, data = data[:room], data[room:]
        if segment is not None:
            _pwrite_all(segment, chunk, position - start)
            segment = None
        else:
            # Only a new segment is created: in one that went away, these bytes would follow a hole.
            create = os.O_CREAT if position == start else 0
            opened = os.open(_segment(folder, start), os.O_WRONLY | create, 0o640)
            try:
                _pwrite_all(opened, chunk, position - start)
            finally:
                os.close(opened)
        position += len(chunk)
    return position


def _pwrite_all(descriptor: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, position)
        data, position = data[written:], position + written


def _newest_stamp(times: int) -> int | None:
    """Of the open index; a stamp that a full disk cut short is taken off its end."""
    size = os.fstat(times).st_size
    if rest := size % _STAMP.size:
        os.ftruncate(times, size - rest)
    raw = os.pread(times, _STAMP.size, size - rest - _STAMP.size) if size >= _STAMP.size else b""
    return _STAMP.unpack(raw)[1] if raw else None
