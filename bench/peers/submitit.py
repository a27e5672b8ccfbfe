"""submitit's LocalExecutor: a Python process for each job, pickles and logs in a shared folder."""

from __future__ import annotations

from bench.peers.driven import Driven


class Submitit(Driven):
    name = "submitit"
    about = "LocalExecutor; files in a folder, not flushed; a burst starts all jobs at once"
    starts = 5
    burst = 20

    def start(self) -> None:
        self.drive("submitit", self.folder / "jobs")
