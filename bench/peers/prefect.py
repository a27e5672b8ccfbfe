"""Prefect 3: a server on SQLite, a work pool of processes, one worker with its default intervals."""

from __future__ import annotations

from bench.machine import venv
from bench.peers.driven import DRIVERS, Driven
from bench.processes import free_port


class Prefect(Driven):
    name = "Prefect"
    about = "process pool, SQLite, its defaults: the worker asks every 10 s"
    starts = 1
    burst = 3

    def start(self) -> None:
        port = free_port()
        home = self.folder / "home"
        env = {
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        prefect = venv("prefect") / "prefect"
        server = ["server", "start", "--host", "127.0.0.1", "--port", str(port)]
        self.processes.spawn("server", [prefect, *server], env=env)
        self.drive("prefect", DRIVERS, env=env)
        worker = self.processes.spawn(
            "worker", [prefect, "worker", "start", "--pool", "bench", "--type", "process"], env=env
        )
        self.processes.wait_for_words("worker", worker, "started!", seconds=90)
