"""Named places where a test may have the process killed: before and after every commit and every call
that leaves it. Without `MUSTER_FAILPOINT` they cost a comparison.

`MUSTER_FAILPOINT=name` kills the process with SIGKILL when it comes to `name`; `name@3` the third time.
`MUSTER_FAILPOINT_ONCE=FILE` leaves a mark there, and lets a process pass, uncounted, that finds the mark:
so a restarted one does not die at the same place again, and a test chooses when the counting begins.
"""

from __future__ import annotations

import os
import signal
from itertools import count
from pathlib import Path

_name, _, _number = os.environ.get("MUSTER_FAILPOINT", "").partition("@")
_mark = os.environ.get("MUSTER_FAILPOINT_ONCE", "")
_hits = count(1)


def failpoint(name: str) -> None:
    """Here a test may kill the process."""
    if _name and name == _name:
        _die()


def _die() -> None:
    if _mark and os.path.exists(_mark):
        return
    if next(_hits) < int(_number or 1):
        return
    if _mark:
        try:
            Path(_mark).touch(exist_ok=False)
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
