"""What a form for launches asks of the server: what would start, and which of its fields is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from door import Door, open_door

POD: dict[str, Any] = {"template": {"spec": {"containers": [{}]}}}
OPEN = {"name": "open", "resource": "kubernetes", "config": POD, "allow": ["workdir", "volumes"]}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


def test_a_rerun_is_previewed_with_its_changes_and_starts_nothing(door: Door) -> None:
    run = door.launch(command=["train.py", "--epochs", "3"], config={"lr": 1}, env={"SEED": "7"})
    asked = {"arguments": ["--epochs", "5"], "config": {"lr": 2}, "training": {"nodes": 2}}
    answer = door.call("POST", f"/runs/{run['id']}/rerun/preview", asked)
    assert answer.status_code == 200, answer.text
    manifest = str(answer.json()["manifest"])
    for word in ("--epochs", "'5'", "SEED"):
        assert word in manifest
    assert len(door.call("GET", "/runs").json()["items"]) == 1


def test_a_preview_of_a_rerun_refuses_what_a_rerun_would_refuse(door: Door) -> None:
    run = door.launch()
    asked = {"values": {"nonsense": 1}}
    for path in (f"/runs/{run['id']}/rerun", f"/runs/{run['id']}/rerun/preview"):
        answer = door.call("POST", path, asked)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad_variable"), path
    assert door.call("POST", "/runs/zzzzzzzzzz/rerun/preview", {}).status_code == 404


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        ({"training": {"nodes": 0}}, {"field": "training.nodes"}),
        ({"training": {"procs_per_node": 5000}}, {"field": "training.procs_per_node"}),
        ({"training": {"procs_per_node": "gpu"}}, {"field": "training.procs_per_node"}),
        ({"training": {"max_restarts": -1}}, {"field": "training.max_restarts"}),
        ({"training": {"rdzv_timeout": 0}}, {"field": "training.rdzv_timeout"}),
        ({"image": "acme/train:main"}, {"field": "image"}),
        ({"image": "no image", "queue": "open"}, {"field": "image"}),
        ({"volumes": ["data"], "queue": "open"}, {"field": "volumes"}),
        ({"volumes": ["data:/proc"], "queue": "open"}, {"field": "volumes"}),
        ({"env": {"MUSTER_X": "1"}}, {"field": "env", "name": "MUSTER_X"}),
        ({"git": {"url": "https://host/a.git", "ref": "-x"}}, {"field": "git.ref"}),
        ({"git": {"url": "https://host/a.git", "folder": "../x"}}, {"field": "git.folder"}),
        ({"name": "no name"}, {"what": "run"}),
        ({"project": "no name"}, {"what": "project"}),
    ],
)
def test_what_is_wrong_is_said_with_its_field(
    door: Door, asked: dict[str, Any], fact: dict[str, str]
) -> None:
    assert door.call("POST", "/queues", OPEN).status_code == 201
    answer = door.call("POST", "/launches/preview", {"command": ["true"], **asked})
    assert answer.status_code == 422, answer.text
    assert fact.items() <= answer.json()["facts"].items()
