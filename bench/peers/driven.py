"""A peer that is driven from Python: its client lives in an interpreter with only that peer installed.

The driver (`bench/drivers/with_NAME.py`) reads one order a line and answers each with the time at which
it began, so that the way to the driver is not counted.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.harness import CannotMeasure
from bench.machine import venv
from bench.peers.port import Service

DRIVERS = Path(__file__).resolve().parent.parent / "drivers"


class Driven(Service):
    """What the peers with a Python client share. `start` has to end with `drive`."""

    _driver: subprocess.Popen[bytes] | None = None

    def drive(self, peer: str, *arguments: str | Path, env: dict[str, str] | None = None) -> None:
        """Start the driver; returns when it is ready for orders."""
        script = DRIVERS / f"with_{peer}.py"
        self._driver = self.processes.spawn(
            "driver", [venv(peer) / "python", "-u", script, *arguments], env=env, talks=True
        )
        self._answer()

    def submit(self, command: Sequence[str], times: int) -> int:
        return self._order(do="submit", command=list(command), times=times)

    def finish(self) -> None:
        self._order(do="finish")

    def _order(self, **order: object) -> int:
        assert self._driver is not None
        assert self._driver.stdin is not None
        self._driver.stdin.write(json.dumps(order).encode() + b"\n")
        self._driver.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self._driver is not None
        assert self._driver.stdout is not None
        line = self._driver.stdout.readline()
        if not line:
            self._driver.wait()
            said = self.processes.log("driver").read_text(errors="replace").strip().splitlines()
            raise CannotMeasure(f"the driver ended: {said[-1] if said else 'without a word'}")
        began: int = json.loads(line)["began"]
        return began
