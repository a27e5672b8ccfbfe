"""The floor: a process started directly, one after another."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self


class ForkExec:
    name = "fork+exec"
    about = "subprocess.Popen, one after another; keeps nothing"
    starts = 30
    burst = 1000

    def __init__(self, folder: Path) -> None:
        self._last: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.finish()

    def submit(self, command: Sequence[str], times: int) -> int:
        began = time.monotonic_ns()
        for _ in range(times):
            self.finish()
            self._last = subprocess.Popen(command)
        return began

    def finish(self) -> None:
        if self._last is not None and self._last.wait() != 0:
            raise RuntimeError(f"{self._last.args!r} failed")
