"""Resource use over time: fixed-size records appended to one file per replica, not a row a sample."""

from __future__ import annotations

import math
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from muster._failpoint import failpoint
from muster.domain.errors import BadInput
from muster.domain.names import is_id
from muster.store.disk import writing
from muster.store.logs import LogKey

#: Only ever added to, at the end: what is on disk keeps its meaning.
FIELDS = (
    "cpu",
    "memory",
    "gpu",
    "gpu_memory",
    "disk_read",
    "disk_write",
    "net_received",
    "net_sent",
    "disk_used",
)
_FIRST = 8  #: fields of records in files whose name does not say how many they have
_RECORD = struct.Struct("<d" + "d" * len(FIELDS))  # NaN: not known


@dataclass(frozen=True, kw_only=True)
class UsagePoint:
    at: float  #: Unix seconds
    values: tuple[float | None, ...]  #: in the order of FIELDS


class UsageStore:
    def __init__(self, root: Path) -> None:
        self._root = root

    def append(self, key: LogKey, points: list[UsagePoint]) -> None:
        """Add points newer than the newest here: a resend is harmless."""
        path = self._path(key)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        failpoint("usage.before")
        with writing("usage"):
            try:
                file = os.open(path, flags, 0o640)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = os.open(path, flags, 0o640)
            try:
                os.write(file, _records(points, newer_than=_newest(file)))
            finally:
                os.close(file)
        failpoint("usage.after")

    def read(self, key: LogKey, *, max_points: int) -> list[UsagePoint]:
        """The whole course, thinned evenly to at most `max_points`."""
        records = [record for width in range(_FIRST, len(FIELDS) + 1) for record in self._stored(key, width)]
        step = max(1, math.ceil(len(records) / max_points))
        thinned = records[::-1][::step][::-1]
        return [
            UsagePoint(at=at, values=tuple(None if math.isnan(value) else value for value in values))
            for at, *values in thinned
        ]

    def _stored(self, key: LogKey, width: int) -> list[tuple[float, ...]]:
        """What was written when there were so many fields, with those of today."""
        try:
            raw = self._path(key, width).read_bytes()
        except FileNotFoundError:
            return []
        record = struct.Struct("<d" + "d" * width)
        unknown = (math.nan,) * (len(FIELDS) - width)
        whole = raw[: len(raw) - len(raw) % record.size]
        return [(*values, *unknown) for values in record.iter_unpack(whole)]

    def run_ids(self) -> list[str]:
        """Runs whose usage is here."""
        return [folder.name for folder in self._root.glob("??/*") if is_id(folder.name)]

    def remove_run(self, run_id: str) -> None:
        shutil.rmtree(self._run_folder(run_id), ignore_errors=True)

    def _run_folder(self, run_id: str) -> Path:
        if not is_id(run_id):
            raise BadInput(f"{run_id[:80]!r} is not a run id.")
        return self._root / run_id[:2] / run_id

    def _path(self, key: LogKey, width: int = len(FIELDS)) -> Path:
        fields = f".{width}" if width != _FIRST else ""
        return self._run_folder(key.run_id) / f"{int(key.attempt)}-{int(key.rank)}{fields}"


def _newest(file: int) -> float:
    """When the newest record of the open file is of; one that a full disk cut short is taken off."""
    size = os.fstat(file).st_size
    if rest := size % _RECORD.size:
        os.ftruncate(file, size - rest)
    raw = os.pread(file, _RECORD.size, size - rest - _RECORD.size) if size >= _RECORD.size else b""
    return float(_RECORD.unpack(raw)[0]) if raw else 0.0


def _records(points: list[UsagePoint], *, newer_than: float) -> bytes:
    packed = b""
    for point in points:
        if newer_than < point.at < math.inf:
            numbers = (math.nan if value is None else float(value) for value in point.values)
            packed += _RECORD.pack(point.at, *numbers)
            newer_than = point.at
    return packed
