"""Finding the cause near the processes: the ends of the logs, the launchers' error files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muster.domain.failure import EndedMember, classify
from muster.domain.observation import AttemptKey, Failure, Replica
from muster.engine.port import Engine

TAIL = 256 * 1024
ERROR_FILE = 64 * 1024


def find_cause(engine: Engine, key: AttemptKey, ended: Mapping[int, Replica]) -> Failure:
    members = [
        EndedMember(
            replica=replica,
            log_tail=_tail(engine.log_path(key, rank), TAIL),
            error_file=_first(engine.error_files(key, rank)),
        )
        for rank, replica in sorted(ended.items())
    ]
    return classify(members)


def _first(files: list[Path]) -> str:
    """The oldest: who failed first wrote first."""
    there = [file for file in files if file.exists()]
    if not there:
        return ""
    return _tail(min(there, key=lambda file: file.stat().st_mtime_ns), ERROR_FILE)


def _tail(path: Path, size: int) -> str:
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - size))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
