from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from installation import Installation


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Installation]:
    """A fresh installation, four fake GPUs in it, started."""
    installation = Installation(tmp_path, env={"MUSTER_FAKE_GPUS": "4"})
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for the tests of a module that do it no harm."""
    installation = Installation(tmp_path_factory.mktemp("muster"), env={"MUSTER_FAKE_GPUS": "4"})
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()
