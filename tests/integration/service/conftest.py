"""The services on a real store, once on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from world import READY, World, open_world


@pytest.fixture(scope="module", params=sorted(READY))
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = open_world(READY[request.param](tmp_path_factory.mktemp("world")))
    yield world
    world.close()


@pytest.fixture
def world(house: World) -> World:
    house.begin_anew().queue()
    return house
