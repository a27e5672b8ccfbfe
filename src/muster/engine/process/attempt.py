"""One attempt on disk: what was meant, what is running, how it ended. Outlives the agent.

<root>/runs/<run id>.<attempt>/
  started        the intent, written before the first process is: what a later agent needs to know
  stop           why the members are being ended, written before the first signal
  told           the members have been told to end, written after the last signal
  r<rank>.log    the output, byte for byte, appended by the processes themselves
  r<rank>.exit   the command's exit status and whose it is, written by the shim
  r<rank>/       error.json and what else the launcher leaves about a failure; made only for a launcher

One directory and three files for a plain run, which are used again for others (see `spare`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster._failpoint import failpoint
from muster.domain.errors import BadName
from muster.domain.observation import AttemptKey
from muster.engine.process.spare import Spares

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
    path: str

    @classmethod
    def of(cls, root: Path, key: AttemptKey) -> AttemptDir:
        if not _RUN_ID.fullmatch(key.run_id):
            raise BadName(key.run_id, what="run id", rule="Use letters, digits, `.`, `_` and `-`.")
        return cls(f"{root}/runs/{key.run_id}.{key.attempt}")

    def replica(self, rank: int) -> str:
        """The name by which a replica's files and processes are known, and its directory if it has one."""
        return f"{self.path}/r{rank}"

    def log(self, rank: int) -> Path:
        return Path(f"{self.replica(rank)}.log")

    def error_file(self, rank: int) -> Path:
        return Path(f"{self.replica(rank)}/error.json")

    @classmethod
    def all_below(cls, root: Path) -> list[AttemptKey]:
        """Every attempt of which there is a directory."""
        # Not by `Path.glob`, which raises when another agent removes a directory meanwhile.
        try:
            names = sorted(os.listdir(f"{root}/runs"))
        except FileNotFoundError:
            return []
        return [key for name in names if (key := _key(name)) is not None]

    @classmethod
    def earlier(cls, root: Path, key: AttemptKey) -> list[AttemptKey]:
        """The earlier attempts of the same run of which there is a directory."""
        earlier = (replace(key, attempt=attempt) for attempt in range(1, key.attempt))
        return [other for other in earlier if os.path.isdir(cls.of(root, other).path)]

    def create(self, intent: Intent, spares: Spares, *, with_directories: bool) -> None:
        """Write the intent; anything older in the way goes. A launcher needs a directory a replica."""
        if os.path.exists(self.path):
            shutil.rmtree(self.path)
        if with_directories:
            for rank in range(len(intent.members)):
                os.makedirs(self.replica(rank))
        elif len(intent.members) > 1 or not spares.take(self.path):
            os.makedirs(self.path)
        members = [member.__dict__ for member in intent.members]
        failpoint("intent.before")
        self._write("started", {**intent.__dict__, "members": members})
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
        self._write("stop", stop.__dict__)
        failpoint("stop.after")

    def stop(self) -> Stop | None:
        found = self._read("stop")
        if found is None:
            return None
        return Stop(reason=found["reason"], rank=found["rank"], kill_at=found["kill_at"])

    def note_told(self) -> None:
        self._write("told", {})

    def told(self) -> bool:
        """Whether all members were told to end. Not part of `stop`, whose time says who ended before it."""
        return os.path.exists(f"{self.path}/told")

    def exit_status(self, rank: int) -> int | None:
        """As sh says it; None: the shim did not live to write it."""
        with contextlib.suppress(OSError), open(f"{self.replica(rank)}.exit", "rb", buffering=0) as file:
            status, _, whose = file.read(4096 + 16).partition(b" ")
            if whose == os.fsencode(f"{self.replica(rank)}\n"):
                return int(status)
        return None

    def ended_at(self, rank: int) -> datetime | None:
        with contextlib.suppress(OSError):
            return datetime.fromtimestamp(os.stat(f"{self.replica(rank)}.exit").st_mtime, UTC)
        return None

    def ended_before_stop(self, rank: int) -> bool:
        """Whether the member had written its status when the others were told to end."""
        with contextlib.suppress(OSError):
            stop = os.stat(f"{self.path}/stop").st_mtime_ns
            return os.stat(f"{self.replica(rank)}.exit").st_mtime_ns < stop
        return False

    def log_bytes(self, rank: int) -> int:
        with contextlib.suppress(OSError):
            return os.stat(f"{self.replica(rank)}.log").st_size
        return 0

    def remove(self) -> None:
        """A plain run leaves only files: then no walk through directories is needed."""
        try:
            for name in os.listdir(self.path):
                os.unlink(f"{self.path}/{name}")
            os.rmdir(self.path)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, json.dumps(content).encode())
        finally:
            os.close(fd)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(f"{self.path}/{name}", "rb") as file:
                found: dict[str, Any] = json.load(file)
        except (OSError, ValueError):  # a torn one is from a machine that went down: nothing was started
            return None
        return found


def _key(name: str) -> AttemptKey | None:
    """The attempt whose directory has this name; None: not of our making."""
    run_id, _, attempt = name.rpartition(".")
    if not attempt.isdecimal() or not _RUN_ID.fullmatch(run_id):
        return None
    return AttemptKey(run_id=run_id, attempt=int(attempt))
