from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from cluster import binaries, packages
from cluster.cluster import Cluster
from cluster.errors import CannotBeHad
from cluster.room import Room

_HERE = Path(__file__).parent
_numbers = count(1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of this folder. Where no cluster can be had, one of them says so for all."""
    ours = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in ours:
        item.add_marker(pytest.mark.cluster)
    if not ours:
        return
    try:
        packages.require()
        binaries.find()
        Room.open().close()
    except CannotBeHad as why:
        _skip(ours, f"no cluster on this machine, which {len(ours)} tests need: {why}", config, items)
        return
    training = [item for item in ours if item.get_closest_marker("training")]
    try:
        binaries.find(binaries.TRAINING)
    except CannotBeHad as why:
        if training:
            _skip(training, f"no controllers for {len(training)} tests of training: {why}", config, items)


def _skip(those: list[pytest.Item], reason: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    """One of them says why; the others go silently."""
    # One that is neither slow nor with PyTorch nor for training is asked for by every command.
    spokesman = min(those, key=_how_special)
    spokesman.add_marker(pytest.mark.skip(reason=reason))
    silent = [item for item in those if item is not spokesman]
    config.hook.pytest_deselected(items=silent)
    items[:] = [item for item in items if item not in silent]


def _how_special(item: pytest.Item) -> int:
    return sum(item.get_closest_marker(name) is not None for name in ("slow", "torch", "training"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One for all tests. Each works in a namespace of its own, and starts again what it stops."""
    with Cluster.up() as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh one. Its end is not waited for, but its pods hold no GPU any more when the next test begins."""
    yield from _fresh(cluster)


@pytest.fixture
def second(cluster: Cluster) -> Iterator[str]:
    """Another one."""
    yield from _fresh(cluster)


def _fresh(cluster: Cluster) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    cluster.api.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    cluster.api.delete(f"/api/v1/namespaces/{name}").raise_for_status()
    cluster.api.delete(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0").raise_for_status()
