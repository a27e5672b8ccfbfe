"""Ray Jobs: a head node with its dashboard, jobs submitted over HTTP."""

from __future__ import annotations

import shutil
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

    def start(self) -> None:
        port, dashboard = free_port(), free_port()
        # Sockets below the usual folder would have longer names than Linux allows.
        self._short = Path(tempfile.mkdtemp(prefix="ray-"))
        words = ["start", "--head", "--block", "--node-ip-address", "127.0.0.1", "--port", str(port)]
        words += ["--include-dashboard", "true", "--dashboard-host", "127.0.0.1"]
        words += ["--dashboard-port", str(dashboard), "--disable-usage-stats", "--temp-dir", str(self._short)]
        self.processes.spawn("head", [venv("ray") / "ray", *words])
        self.drive("ray", f"http://127.0.0.1:{dashboard}")

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        shutil.rmtree(self._short, ignore_errors=True)
