"""RQ: a Redis that flushes every write, and one worker a core that forks for each job."""

from __future__ import annotations

import os

from bench.machine import need_program, venv
from bench.peers.driven import Driven
from bench.processes import until


class Rq(Driven):
    name = "RQ"
    about = "Redis with appendfsync always; a worker a core, forking; output kept as the job's result"
    starts = 20
    burst = 500

    def start(self) -> None:
        redis = need_program("redis-server", "redis-server")
        path = self.folder / "redis.sock"
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        here = ["--port", "0", "--unixsocket", path, "--dir", self.folder]
        self.processes.spawn("redis", [redis, *here, *durable])
        until(path.is_socket, seconds=10, what="redis")
        pool = [venv("rq") / "rq", "worker-pool", "--url", f"unix://{path}", "-n", str(os.cpu_count() or 1)]
        self.processes.spawn("workers", pool)
        self.drive("rq", path, str(os.cpu_count() or 1))
