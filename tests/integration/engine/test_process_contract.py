"""The process engine does what every engine must."""

from __future__ import annotations

import os
from pathlib import Path

from integration.engine.contract import HostContract
from muster.engine.port import Engine, Rendered, Work
from muster.engine.process.engine import ProcessEngine
from muster.engine.process.render import render


class TestProcessEngine(HostContract):
    def make(self, directory: Path) -> Engine:
        return ProcessEngine(directory / "engine", lock_dir=directory / "locks", environ=os.environ)

    def render(self, work: Work) -> Rendered:
        return render(work)
