"""RQ: a Redis that flushes every write, and one worker a core that forks for each job."""

from __future__ import annotations

import os
from pathlib import Path

from bench.machine import need_program, venv
from bench.peers.driven import Driven
from bench.processes import until


class Rq(Driven):
    name = "RQ"
    about = "Redis with appendfsync always; a worker a core, forking; output kept as the job's result"
    starts = 10
    burst = 500

    def start(self) -> None:
        redis = need_program("redis-server", "redis-server")
        path = self.folder / "redis.sock"
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        here: list[str | Path] = ["--port", "0", "--unixsocket", path, "--dir", self.folder]
        self.processes.spawn("redis", [redis, *here, *durable])
        until(path.is_socket, seconds=10, what="redis")
        workers = str(os.cpu_count() or 1)
        pool = ["worker-pool", "--url", f"unix://{path}", "-n", workers]
        self.processes.spawn("workers", [venv("rq") / "rq", *pool])
        self.drive("rq", path, workers)
