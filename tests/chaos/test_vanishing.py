"""Several agents share one directory: what one lists, another removes at the same moment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.agent.prepare import HostPreparer
from muster.client.api import AsyncClient
from muster.client.settings import ClientSettings
from muster.engine.process.attempt import AttemptDir

LOOKS = 2000


@pytest.fixture(params=["runs", "work"])
def churned(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A directory in which attempts come and go."""
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            for run in range(20):
                os.makedirs(tmp_path / request.param / place(request.param, run))
            for run in range(20):
                os.removedirs(tmp_path / request.param / place(request.param, run))
            os.makedirs(tmp_path, exist_ok=True)

    thread = threading.Thread(target=churn)
    thread.start()
    yield request.param, tmp_path
    over.set()
    thread.join()


def place(kind: str, run: int) -> str:
    """Where the engine and the agent keep what belongs to one attempt."""
    return f"run{run}.1" if kind == "runs" else f"run{run}/1"


def test_listing_what_vanishes_meanwhile_is_no_error(churned: tuple[str, Path]) -> None:
    name, root = churned
    looks: dict[str, Callable[[], object]] = {
        "runs": lambda: AttemptDir.all_below(root),
        "work": HostPreparer(root, AsyncClient(settings=ClientSettings(url="http://127.0.0.1:1"))).empty,
    }
    for _ in range(LOOKS):
        looks[name]()
