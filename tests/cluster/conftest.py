from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from cluster import binaries, packages
from cluster.cluster import Cluster
from cluster.errors import CannotBeHad

_HERE = Path(__file__).parent
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def machine() -> None:
    """Has all that a cluster needs. Where it has not, this one place skips every test, in one line."""
    try:
        packages.require()
        binaries.find()
    except CannotBeHad as reason:
        pytest.skip(f"no cluster on this machine: {reason}")


@pytest.fixture(scope="session")
def cluster(machine: None) -> Iterator[Cluster]:
    """One for all tests. Each works in a namespace of its own, and starts again what it stops."""
    with Cluster.up() as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh one. Its end is not waited for: what is in it goes while other tests run."""
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
