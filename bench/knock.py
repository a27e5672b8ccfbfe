"""When a process is there: its first act is to knock at a named pipe, whose reader looks at the clock.

A file's time is too coarse for this, and a process that prints the time must first start another that
knows it. `echo` into a pipe is built into the shell, and the same words serve every contender.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.harness import CannotMeasure


class Knocker:
    """A pipe to knock at. Open at both ends, so nobody who knocks has to wait."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "knock"
        os.mkfifo(self.path)
        self._pipe = os.open(self.path, os.O_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._pipe)
        self.path.unlink()

    @property
    def command(self) -> Sequence[str]:
        return ("sh", "-c", 'echo >"$0"', str(self.path))

    def wait(self, *, seconds: float) -> int:
        """The next knock: nanoseconds of the monotonic clock."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        at = time.monotonic_ns()
        if not ready:
            raise CannotMeasure(f"nothing started within {seconds:.0f} s")
        os.read(self._pipe, 1)
        return at
