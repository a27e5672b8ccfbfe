"""One attempt on disk: what was meant, what is running, how it ended. Outlives the agent.

<root>/runs/<run id>/<attempt>/
  started        the intent, written before the first process is: what a later agent needs to know
  stop           why the members are being ended, written before the first signal
  r<rank>/log    the output, byte for byte, appended by the processes themselves
  r<rank>/pid    the shim's own stat line, written by the shim
  r<rank>/exit   the command's exit status, written by the shim
  r<rank>/error.json, first_failure   what the launcher leaves about a failure
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster._failpoint import failpoint
from muster.domain.errors import BadName
from muster.domain.observation import AttemptKey
from muster.engine.process.proc import Process, parse_stat

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Member:
    """What one replica was given."""

    devices: tuple[str, ...] = ()
    memory: int = 0
    cgroup: str = ""  #: empty: it has none


@dataclass(frozen=True, kw_only=True)
class Intent:
    """An attempt as it was started."""

    epoch: int
    boot: str
    at: float  #: Unix seconds
    stop_grace: float
    port: int | None  #: where the members meet
    members: tuple[Member, ...]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """Why and how the members are being ended."""

    reason: str
    rank: int | None  #: the member whose failure ends the others; None: somebody asked
    kill_at: float  #: Unix seconds after which SIGKILL follows SIGTERM


@dataclass(frozen=True)
class AttemptDir:
    path: Path

    @classmethod
    def of(cls, root: Path, key: AttemptKey) -> AttemptDir:
        if not _RUN_ID.fullmatch(key.run_id):
            raise BadName(key.run_id, what="run id", rule="Use letters, digits, `.`, `_` and `-`.")
        return cls(root / "runs" / key.run_id / str(key.attempt))

    def replica(self, rank: int) -> str:
        return f"{self.path}/r{rank}"

    def log(self, rank: int) -> Path:
        return self.path / f"r{rank}" / "log"

    def error_file(self, rank: int) -> Path:
        return self.path / f"r{rank}" / "error.json"

    @classmethod
    def all_below(cls, root: Path) -> list[AttemptKey]:
        """Every attempt of which there is a directory."""
        return [key for run_id in _names(root / "runs") for key in _keys(root / "runs" / run_id)]

    @classmethod
    def runs_without_any(cls, root: Path) -> list[str]:
        """Runs whose last attempt was removed by an agent that died before it removed the run's directory."""
        runs = root / "runs"
        return [name for name in _names(runs) if _RUN_ID.fullmatch(name) and not _names(runs / name)]

    @classmethod
    def remove_run(cls, root: Path, run_id: str) -> None:
        with contextlib.suppress(OSError):  # an attempt is there
            os.rmdir(root / "runs" / run_id)

    @classmethod
    def earlier(cls, root: Path, key: AttemptKey) -> list[AttemptKey]:
        """The earlier attempts of the same run of which there is a directory."""
        if key.attempt == 1:
            return []
        return [other for other in _keys(root / "runs" / key.run_id) if other.attempt < key.attempt]

    def create(self, intent: Intent) -> None:
        """Make the directories and write the intent; anything older in the way goes."""
        try:
            os.makedirs(self.path)
        except FileExistsError:
            shutil.rmtree(self.path)
            os.makedirs(self.path)
        for rank in range(len(intent.members)):
            os.mkdir(self.replica(rank))
        failpoint("intent.before")
        self._write("started", asdict(intent))
        failpoint("intent.after")

    def intent(self) -> Intent | None:
        """None: nothing was ever started here."""
        found = self._read("started")
        if found is None:
            return None
        members = tuple(
            Member(devices=tuple(member["devices"]), memory=member["memory"], cgroup=member["cgroup"])
            for member in found["members"]
        )
        return Intent(
            epoch=found["epoch"],
            boot=found["boot"],
            at=found["at"],
            stop_grace=found["stop_grace"],
            port=found["port"],
            members=members,
        )

    def write_stop(self, stop: Stop) -> None:
        failpoint("stop.before")
        self._write("stop", asdict(stop))
        failpoint("stop.after")

    def stop(self) -> Stop | None:
        found = self._read("stop")
        if found is None:
            return None
        return Stop(reason=found["reason"], rank=found["rank"], kill_at=found["kill_at"])

    def shim(self, rank: int) -> Process | None:
        """The shim as it wrote itself down; None: it was never seen to run."""
        with contextlib.suppress(OSError), open(f"{self.replica(rank)}/pid", "rb", buffering=0) as file:
            return parse_stat(file.read(2048))
        return None

    def exit_status(self, rank: int) -> int | None:
        """As sh says it; None: the shim did not live to write it."""
        with contextlib.suppress(OSError), open(f"{self.replica(rank)}/exit", "rb", buffering=0) as file:
            content = file.read(16)
            return int(content) if content.endswith(b"\n") else None
        return None

    def ended_at(self, rank: int) -> datetime | None:
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(os.stat(f"{self.replica(rank)}/exit").st_mtime, UTC)
        return None

    def ended_before_stop(self, rank: int) -> bool:
        """Whether the member had written its status when the others were told to end."""
        with contextlib.suppress(OSError):
            stop = os.stat(self.path / "stop").st_mtime_ns
            return os.stat(f"{self.replica(rank)}/exit").st_mtime_ns < stop
        return False

    def log_bytes(self, rank: int) -> int:
        with contextlib.suppress(OSError):
            return os.stat(f"{self.replica(rank)}/log").st_size
        return 0

    def error_files(self, rank: int) -> list[Path]:
        """Where the launcher left the root cause, if it did."""
        return sorted(Path(self.replica(rank)).glob("error*.json"))

    def remove(self) -> None:
        failpoint("remove.before")
        shutil.rmtree(self.path, ignore_errors=True)
        failpoint("remove.after")
        self.remove_run(self.path.parent.parent.parent, self.path.parent.name)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        fd = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, json.dumps(content).encode())
        finally:
            os.close(fd)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):  # a torn one is from a machine that went down: nothing was started
            return None
        return found


def _keys(folder: Path) -> list[AttemptKey]:
    """The attempts in the directory of a run."""
    if not _RUN_ID.fullmatch(folder.name):
        return []
    return [AttemptKey(run_id=folder.name, attempt=int(name)) for name in _names(folder) if name.isdigit()]


def _names(folder: Path) -> list[str]:
    """What is in it. Not by `Path.glob`, which raises when another agent removes a directory meanwhile."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
