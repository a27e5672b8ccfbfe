"""Logs on disk: one raw byte stream per replica and attempt, kept in segments named by offset.

Bytes are written where they belong in the stream, so that sending them twice is harmless, and never
with a gap before them, so that a segment's size is always the length of what is whole. Beside the
segments, a sparse index says when which offset was reached.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.domain.errors import BadInput
from muster.domain.names import is_id

SEGMENT = 8 * 1024 * 1024
_STAMP = struct.Struct("<QQ")  # offset, microseconds since 1970
_STAMP_EVERY = 1_000_000  # µs: at most one stamp a second


@dataclass(frozen=True, kw_only=True)
class LogKey:
    run_id: str
    attempt: int
    rank: int


class LogStore:
    def __init__(self, root: Path) -> None:
        self._root = root

    def length(self, key: LogKey) -> int:
        """How many bytes of the stream are here."""
        last = self._last_segment(self._folder(key))
        return 0 if last is None else last[0] + last[1]

    def write(self, key: LogKey, offset: int, data: bytes | memoryview, *, at_micros: int) -> int:
        """Put `data` at `offset`; returns the stream's length. What is here already is left alone,
        what would leave a gap is not taken: the caller sends again from the length returned."""
        folder = self._folder(key)
        length = self.length(key)
        if offset > length or offset + len(data) <= length:
            return length
        view = memoryview(data)[length - offset :]
        folder.mkdir(parents=True, exist_ok=True)
        self._stamp(folder, length, at_micros)
        position = length
        while view:
            start = position - position % SEGMENT
            room = start + SEGMENT - position
            chunk, view = view[:room], view[room:]
            descriptor = os.open(folder / f"{start:020d}", os.O_WRONLY | os.O_CREAT, 0o640)
            try:
                _pwrite_all(descriptor, chunk, position - start)
            finally:
                os.close(descriptor)
            position += len(chunk)
        return position

    def read(self, key: LogKey, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; fewer at the end of what is here."""
        folder = self._folder(key)
        parts: list[bytes] = []
        while limit > 0:
            start = offset - offset % SEGMENT
            try:
                with (folder / f"{start:020d}").open("rb", buffering=0) as segment:
                    part = os.pread(segment.fileno(), min(limit, start + SEGMENT - offset), offset - start)
            except FileNotFoundError:
                break
            if not part:
                break
            parts.append(part)
            offset += len(part)
            limit -= len(part)
        return b"".join(parts)

    def stamps(self, key: LogKey) -> Iterator[tuple[int, int]]:
        """(offset, microseconds since 1970): bytes from there on came no earlier than that."""
        try:
            raw = (self._folder(key) / "times").read_bytes()
        except FileNotFoundError:
            return
        whole = len(raw) - len(raw) % _STAMP.size
        yield from _STAMP.iter_unpack(raw[:whole])

    def run_ids(self) -> list[str]:
        """Runs of which there are logs."""
        return [folder.name for folder in self._root.glob("??/*") if is_id(folder.name)]

    def remove_run(self, run_id: str) -> None:
        shutil.rmtree(self._run_folder(run_id), ignore_errors=True)

    def _stamp(self, folder: Path, offset: int, at_micros: int) -> None:
        index = folder / "times"
        with index.open("ab") as times:
            size = times.tell()
            if size >= _STAMP.size:
                with index.open("rb") as kept:
                    kept.seek(size - size % _STAMP.size - _STAMP.size)
                    _, newest = _STAMP.unpack(kept.read(_STAMP.size))
                if at_micros < newest + _STAMP_EVERY:
                    return
            times.truncate(size - size % _STAMP.size)  # a stamp cut short by a full disk
            times.write(_STAMP.pack(offset, at_micros))

    def _last_segment(self, folder: Path) -> tuple[int, int] | None:
        try:
            with os.scandir(folder) as entries:
                segments = [entry for entry in entries if entry.name.isdigit()]
        except FileNotFoundError:
            return None
        if not segments:
            return None
        newest = max(segments, key=lambda entry: entry.name)
        return int(newest.name), newest.stat().st_size

    def _run_folder(self, run_id: str) -> Path:
        if not is_id(run_id):
            raise BadInput(f"{run_id[:80]!r} is not a run id.")
        return self._root / run_id[:2] / run_id

    def _folder(self, key: LogKey) -> Path:
        return self._run_folder(key.run_id) / f"{int(key.attempt)}" / f"{int(key.rank)}"


def _pwrite_all(descriptor: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, position)
        data, position = data[written:], position + written
