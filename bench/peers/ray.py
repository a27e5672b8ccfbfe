"""Ray Jobs: a head node with its dashboard, jobs submitted over HTTP."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.machine import venv
from bench.peers.driven import Driven
from bench.processes import free_port


class Ray(Driven):
    name = "Ray Jobs"
    about = "one head node; jobs and their state in memory, not durable"
    starts = 3
    burst = 6

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # Below the folder, the names of Ray's sockets would be longer than Linux allows.
        self._short = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))

    def start(self) -> None:
        dashboard = free_port()
        words = ["start", "--head", "--block", "--disable-usage-stats", "--temp-dir", self._short]
        words += ["--node-ip-address", "127.0.0.1", "--port", str(free_port())]
        words += ["--include-dashboard", "true", "--dashboard-host", "127.0.0.1"]
        words += ["--dashboard-port", str(dashboard)]
        self.processes.spawn("head", [venv("ray") / "ray", *words])
        self.drive("ray", f"http://127.0.0.1:{dashboard}")
