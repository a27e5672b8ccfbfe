from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from world import World, new_sqlite, open_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A store of its own, with the user `ann` and her queue `gpu`."""
    made = open_world(new_sqlite(tmp_path))
    made.queue()
    yield made
    made.close()
