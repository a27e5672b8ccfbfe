"""Muster as a user has it: `muster up`, and launches through the SDK's client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.processes import until
from installation import Installation
from muster.client.sdk import Run
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest, RunModel

_PAGE = 1000
_BATCH = 5000


class Muster:
    name = "Muster"
    about = "muster up, its defaults; SQLite, every commit flushed to the disk"
    starts = 50
    burst = 5000

    def __init__(self, folder: Path) -> None:
        self._installation = Installation(folder)
        self._last: RunModel | None = None
        self._submitted = 0
        self._rounds = 0

    def __enter__(self) -> Self:
        try:
            self._installation.start()
            self._wait_for_agent()
        except BaseException:
            self._installation.destroy()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._installation.destroy()

    @property
    def _project(self) -> str:
        """One for each burst, so that its runs can be told from earlier ones."""
        return f"bench-{self._rounds}"

    def submit(self, command: Sequence[str], times: int) -> int:
        client = self._installation.client()
        request = LaunchRequest(command=list(command), project=self._project)
        began = time.monotonic_ns()
        if times == 1:
            self._last = client.launch(request)
        else:
            for done in range(0, times, _BATCH):
                self._last = client.launch_batch([request] * min(_BATCH, times - done)).items[-1]
        self._submitted += times
        return began

    def finish(self) -> None:
        client = self._installation.client()
        if self._last is not None:  # a held request; asking again and again would slow down what is measured
            Run(client, self._last).wait(timeout=600)

        def idle() -> bool:
            queue = client.get_queue("local")
            return queue.waiting == queue.running == 0

        until(idle, seconds=60, what="the last runs of Muster to end", every=0.02)
        succeeded, cursor = 0, None
        while True:
            page = client.list_runs(
                project=self._project, state=[RunState.SUCCEEDED], limit=_PAGE, cursor=cursor
            )
            succeeded, cursor = succeeded + len(page.items), page.next
            if cursor is None:
                break
        if succeeded != self._submitted:
            raise RuntimeError(f"{succeeded} of {self._submitted} runs succeeded")
        self._submitted, self._rounds = 0, self._rounds + 1

    def _wait_for_agent(self) -> None:
        client = self._installation.client()
        until(lambda: client.get_queue("local").agents_online == 1, seconds=30, what="Muster's agent")
