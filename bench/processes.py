"""What a benchmark starts, so that nothing of it outlives the benchmark."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from bench.harness import CannotMeasure

T = TypeVar("T")
_MARK = "MUSTER_BENCH_MARK"
_GRACE = 10.0


def until(look: Callable[[], T | None], *, seconds: float, what: str, every: float = 0.01) -> T:
    """Wait on a condition; what it returned when it held."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise CannotMeasure(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
    return found


def free_port() -> int:
    """A port of loopback that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Processes:
    """Processes in sessions of their own, so Ctrl-C reaches the benchmark alone, which then ends them.

    Some peers start daemons that leave their parent. All of them inherit a mark in the environment, and
    by it they are found.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = secrets.token_hex(8)
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, _MARK: self._mark, **(more or {})}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def spawn(
        self,
        name: str,
        words: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        talks: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start it; what it says goes to a log, or, if it `talks`, its stdin and stdout are pipes."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in words],
                env=self.env(env),
                cwd=cwd or self.folder,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def wait_for_words(
        self, name: str, process: subprocess.Popen[bytes], words: str, *, seconds: float = 60
    ) -> str:
        """The line of its log that has these words."""

        def look() -> str | None:
            text = self.log(name).read_text(errors="replace")
            found = [line for line in text.splitlines() if words in line]
            if not found and process.poll() is not None:
                raise CannotMeasure(f"{name} ended: {_last_words(text)}")
            return found[0] if found else None

        return until(look, seconds=seconds, what=f"{name} saying {words!r}", every=0.005)

    def stop(self) -> None:
        """The last started first; those who do not go are killed, and so is whatever they left."""
        while self._started:
            end(self._started.pop())
        for pid in self._marked():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self._marked(), seconds=_GRACE, what="the last processes to end")

    def _marked(self) -> list[int]:
        sign = f"{_MARK}={self._mark}".encode()
        return [pid for pid in _pids() if sign in _environment(pid)]


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and make it if it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "without a word"
