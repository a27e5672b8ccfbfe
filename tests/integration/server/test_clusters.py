"""What agents see of their clusters: told, kept, and read by who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from door import Door, open_door

NODE = {"name": "gpu-1", "gpu": "Tesla-T4", "total": {"gpus": 4}, "free": {"gpus": 1}, "pods": 3}
CLAIM = {"namespace": "ml", "name": "data", "size": 2**30, "modes": ["ReadWriteMany"], "bound": True}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


def tell(door: Door, agent: Any, **seen: Any) -> Any:
    body = {"incarnation": agent.incarnation, "namespace": "ml", **seen}
    return door.call("POST", f"/agents/{agent.id}/cluster", body, key=agent.key)


def test_what_an_agent_sees_is_kept_until_it_sees_something_else(door: Door) -> None:
    agent = door.agent()
    assert door.call("GET", "/clusters").json()["items"] == []
    assert tell(door, agent, nodes=[NODE], claims=[CLAIM]).status_code == 204
    [seen] = door.call("GET", "/clusters").json()["items"]
    assert (seen["agent"], seen["namespace"], seen["queues"], seen["online"]) == ("a1", "ml", ["local"], True)
    assert seen["nodes"][0]["free"]["gpus"] == 1
    assert seen["claims"] == [CLAIM]
    assert tell(door, agent, nodes=None, claims=[]).status_code == 204
    [seen] = door.call("GET", "/clusters").json()["items"]
    assert (seen["nodes"], seen["claims"]) == (None, [])


def test_one_that_was_overtaken_is_not_believed(door: Door) -> None:
    agent = door.agent()
    agent.incarnation = "another-one"
    assert tell(door, agent, nodes=[NODE]).status_code == 409
    assert door.call("GET", "/clusters").json()["items"] == []


def test_a_cluster_is_seen_by_those_who_see_its_agent(door: Door) -> None:
    tell(door, door.agent(), nodes=[NODE])
    assert len(door.call("GET", "/clusters", key=door.user("vera", ann="viewer")).json()["items"]) == 1
    assert door.call("GET", "/clusters", key=door.user("eve")).json()["items"] == []


def test_no_more_is_taken_than_a_node_can_have(door: Door) -> None:
    agent = door.agent()
    assert tell(door, agent, nodes=[{**NODE, "free": {"gpus": 2**61}}]).status_code == 422
    assert tell(door, agent, nodes=[{**NODE, "free": {"gpus": -1}}]).status_code == 422
    assert tell(door, agent, claims=[{**CLAIM, "name": ""}]).status_code == 422


def test_what_was_seen_goes_with_its_agent(door: Door) -> None:
    agent = door.agent()
    tell(door, agent, nodes=[NODE])
    door.call("POST", f"/agents/{agent.id}/leave", {"incarnation": agent.incarnation}).raise_for_status()
    door.call("DELETE", "/agents/a1").raise_for_status()
    assert door.call("GET", "/clusters").json()["items"] == []
