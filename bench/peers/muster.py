"""Muster itself, launched on through the SDK's client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from bench.installed import muster_up
from bench.processes import until
from muster.client.sdk import Run
from muster.client.sync import Client
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest

_PAGE = 1000
_BATCH = 5000
_AT_ONCE = 32
_CPUS = 0.01  #: what a run that does nothing asks for


class Muster:
    name = "Muster"
    about = f"muster up --max-jobs {_AT_ONCE}; SQLite, every commit flushed to the disk"
    starts = 30
    burst = 5000

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._submitted: list[Run] = []
        self._bursts = 0

    def __enter__(self) -> Self:
        self._client: Client = self._stack.enter_context(
            muster_up(self._folder, "--max-jobs", f"{_AT_ONCE}")
        ).client()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @property
    def _project(self) -> str:
        """One for each burst, so that its runs can be told from earlier ones."""
        return f"burst-{self._bursts}"

    def submit(self, command: Sequence[str], times: int) -> int:
        request = LaunchRequest(command=list(command), project=self._project, values={"cpus": _CPUS})
        began = time.monotonic_ns()
        if times == 1:
            made = [self._client.launch(request)]
        else:
            made = []
            for done in range(0, times, _BATCH):
                made += self._client.launch_batch([request] * min(_BATCH, times - done)).items
        self._submitted = [Run(self._client, model) for model in made]
        return began

    def finish(self) -> None:
        self._submitted[-1].wait(timeout=600)  # a held request: asking all the time would slow the runs

        def idle() -> bool:
            queue = self._client.get_queue("local")
            return queue.waiting == queue.running == 0

        until(idle, seconds=60, what="the last runs of Muster to end", every=0.02)
        succeeded = self._count_succeeded()
        if succeeded != len(self._submitted):
            raise RuntimeError(f"{succeeded} of {len(self._submitted)} runs succeeded")
        self._bursts += 1

    def _count_succeeded(self) -> int:
        count, cursor = 0, None
        while True:
            page = self._client.list_runs(
                project=self._project, state=[RunState.SUCCEEDED], limit=_PAGE, cursor=cursor
            )
            count, cursor = count + len(page.items), page.next
            if cursor is None:
                return count
