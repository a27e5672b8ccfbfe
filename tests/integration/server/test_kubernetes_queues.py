"""Queues for a cluster through HTTP: every example is created, previewed and launched as it stands.

What each becomes, with the source of every value, is in `previews/`. To write these anew:
MUSTER_WRITE_PREVIEWS=1 pytest tests/integration/server/test_kubernetes_queues.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from door import Door, open_door
from muster.cli import yamlfile
from muster.cli.annotate import annotated
from muster.domain.template import find_variables
from muster.engine.launcher import launcher_text

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "queues").glob("*.yaml"))
PREVIEWS = Path(__file__).parent / "previews"
IMAGE = "acme/train:main"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


def create(door: Door, example: str) -> dict[str, Any]:
    """The queue of this example, under its name."""
    said = yamlfile.read_mapping(EXAMPLES[0].with_name(f"{example}.yaml"))
    config, variables = said.get("config", said), said.get("variables", {})
    asked = {"name": example, "resource": "kubernetes", "config": config, "variables": variables}
    answer = door.call("POST", "/queues", asked)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def run_id_in(manifest: Any) -> str:
    """The workload is the last object of a list."""
    item = manifest["items"][-1] if manifest["kind"] == "List" else manifest
    found: str = item["metadata"]["labels"]["muster.dev/run-id"]
    return found


def shown_as(preview: Any, golden: str) -> str:
    """The preview as a terminal shows it, which is this file."""
    text = annotated(preview["manifest"], preview["sources"])
    shown = text.replace(run_id_in(preview["manifest"]), "r123456789")
    file = PREVIEWS / f"{golden}.yaml"
    if os.environ.get("MUSTER_WRITE_PREVIEWS"):
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text("utf-8")
    return shown


@pytest.mark.parametrize("example", [path.stem for path in EXAMPLES])
def test_an_example_is_parsed_created_previewed_and_launched(door: Door, example: str) -> None:
    text = next(path for path in EXAMPLES if path.stem == example).read_text("utf-8")
    found = door.call("POST", "/queues/parse", {"text": text}).json()
    assert (found["resource"], found["usable"], found["errors"]) == ("kubernetes", True, [])
    queue = create(door, example)
    assert {one["name"] for one in found["variables"]} == set(queue["variables"])
    assert set(find_variables(queue["config"])) == set(queue["variables"])

    asked = {"queue": example, "name": "first", "image": IMAGE, "env": {"SEED": "7"}}
    answer = door.call("POST", "/launches/preview", asked)
    assert answer.status_code == 200, answer.text
    preview = answer.json()
    shown = shown_as(preview, example)

    launched = door.call("POST", "/launches", asked).json()
    assert (launched["state"], launched["image"]) == ("queued", IMAGE)
    assert launched["resources"] == preview["resources"]
    found = door.call("GET", f"/runs/{launched['id']}/manifest").json()
    text = yamlfile.dump(found["manifest"], width=yamlfile.UNFOLDED).replace(launched["id"], "r123456789")
    assert yamlfile.parse(text, name="launched") == yamlfile.parse(shown, name="previewed")
    assert not found["submitted"]


def test_the_number_of_workers_can_be_changed_at_launch_and_is_kept(door: Door) -> None:
    create(door, "volcano")
    path = "spec.tasks[name=worker].replicas"
    asked = {"queue": "volcano", "image": IMAGE, "overrides": {path: 3}}
    preview = door.call("POST", "/launches/preview", asked).json()
    run = door.call("POST", "/launches", asked).json()
    assert preview["manifest"]["spec"]["tasks"][1]["replicas"] == 3
    assert preview["sources"]["/spec/tasks/1/replicas"] == "override"
    assert preview["sources"]["/spec/tasks/0/replicas"] == "queue v1"
    assert (run["overrides"], run["nodes"]) == ({path: 3}, 4)
    assert door.call("GET", f"/runs/{run['id']}").json()["overrides"] == {path: 3}


def test_a_training_of_two_nodes_is_previewed_and_launched(door: Door) -> None:
    create(door, "training")
    shape = {"nodes": 2, "procs_per_node": "gpu", "shm": "4Gi"}
    asked = {"queue": "training", "image": IMAGE, "command": ["train.py"], "training": shape, "name": "first"}
    preview = door.call("POST", "/launches/preview", asked).json()
    *_, script = preview["manifest"]["items"]
    assert script["data"]["launcher.sh"] == launcher_text()
    script["data"]["launcher.sh"] = "…"  # it has tests of its own
    shown_as(preview, "training-of-two-nodes")
    run = door.call("POST", "/launches", asked).json()
    assert (run["nodes"], run["resources"]["gpus"]) == (2, 2)


OPEN: dict[str, Any] = {
    "name": "open",
    "resource": "kubernetes",
    "config": {"template": {"spec": {"containers": [{"image": "stock:1"}]}}},
    "allow": ["image", "resources", "workdir", "volumes"],
}
PLACES = {
    "values": {"gpus": "2", "memory": "8Gi"},
    "workdir": "/work",
    "volumes": ["data:/data:ro"],
    "image": IMAGE,
}


def test_a_launch_sets_of_pods_what_the_queue_allows_and_it_is_kept(door: Door) -> None:
    assert door.call("POST", "/queues", OPEN).status_code == 201
    asked = {"queue": "open", "command": ["a"], **PLACES}
    preview = door.call("POST", "/launches/preview", asked).json()
    pod = preview["manifest"]["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert (main["image"], main["workingDir"]) == (IMAGE, "/work")
    assert main["resources"] == {"limits": {"memory": "8Gi", "nvidia.com/gpu": 2}}
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data"}
    base = "/spec/template/spec"
    for place in (
        "containers/0/image",
        "containers/0/workingDir",
        "containers/0/resources/limits/memory",
        "containers/0/volumeMounts/0/readOnly",
        "volumes/0/persistentVolumeClaim/claimName",
    ):
        assert preview["sources"][f"{base}/{place}"] == "launch", place
    assert preview["sources"][f"{base}/volumes/1/name"] == "injected"
    run = door.call("POST", "/launches", asked).json()
    assert (run["resources"]["gpus"], run["resources"]["memory"]) == (2, 8 * 2**30)
    assert (run["workdir"], run["volumes"]) == ("/work", ["data:/data:ro"])
    assert run["values"] == {"gpus": 2, "memory": "8Gi"}
    changes = {"volumes": [], "values": {"gpus": 1}}
    again = door.call("POST", f"/runs/{run['id']}/rerun", changes).json()
    assert (again["workdir"], again["volumes"], again["resources"]["gpus"]) == ("/work", [], 1)
    assert {change["what"] for change in again["overridden"]} == {"values.gpus", "volumes"}


@pytest.mark.parametrize("what", ["resources", "workdir", "volumes", "image"])
def test_each_thing_a_queue_does_not_allow_is_refused(door: Door, what: str) -> None:
    door.call("POST", "/queues", {**OPEN, "allow": [word for word in OPEN["allow"] if word != what]})
    asked = {
        "queue": "open",
        **{key: value for key, value in PLACES.items() if key != "image" or what == key},
    }
    for path in ("/launches", "/launches/preview"):
        problem = door.call("POST", path, asked).json()
        assert problem["code"] == ("bad_input" if what == "image" else "bad_override"), problem
        words = {"image": "has its own image", "workdir": "a working directory"}
        assert words.get(what, what) in problem["detail"]
    assert door.call("GET", "/runs").json()["items"] == []


@pytest.mark.parametrize("config", [{}, {"spec": {"template": {"spec": {"containers": [{}]}}}}])
def test_a_queue_whose_pods_muster_does_not_write_takes_none_of_it(
    door: Door, config: dict[str, Any]
) -> None:
    resource = "kubernetes" if config else "process"
    door.call("POST", "/queues", {**OPEN, "resource": resource, "config": config})
    for asked in ({"workdir": "/a"}, {"volumes": ["a:/a"]}):
        problem = door.call("POST", "/launches", {"queue": "open", "command": ["a"], **asked}).json()
        assert problem["code"] == "bad_override"
    problem = door.call(
        "POST", "/launches", {"queue": "open", "command": ["a"], "values": {"gpus": 1}}
    ).json()
    assert problem["code"] == "bad_variable"


GIT = {"url": "https://example.org/code.git", "commit": "0" * 40}


def test_a_repository_is_refused_with_what_to_do_instead(door: Door) -> None:
    create(door, "job")
    for path in ("/launches", "/launches/preview"):
        asked = {"queue": "job", "image": IMAGE, "git": GIT, "command": ["train.py"]}
        problem = door.call("POST", path, asked).json()
        assert (problem["code"], "launch the folder" in problem["hint"]) == ("bad_input", True)


def test_a_folder_that_is_still_to_be_sent_is_previewed_with_what_brings_it(door: Door) -> None:
    create(door, "job")
    asked = {"queue": "job", "image": IMAGE, "source_name": "here", "command": ["train.py"]}
    pod = door.call("POST", "/launches/preview", asked).json()["manifest"]["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["image"] == IMAGE


def test_counts_of_pods_are_the_launchs_shape_and_no_override_where_muster_writes_them(door: Door) -> None:
    door.call("POST", "/queues", OPEN)
    asked = {"queue": "open", "overrides": {"spec.parallelism": 2}}
    assert "It opens nothing" in door.call("POST", "/launches", asked).json()["hint"]


def test_paths_start_at_the_workload_however_it_is_wrapped(door: Door) -> None:
    for example, path in (
        ("pytorchjob", "spec.pytorchReplicaSpecs.Worker.replicas"),
        ("job-with-service", "spec.parallelism"),
    ):
        create(door, example)
        asked = {"queue": example, "image": IMAGE, "overrides": {path: 1}}
        answer = door.call("POST", "/launches", asked)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ({"overrides": {"spec.template.spec.hostNetwork": True}}, "bad_override", "hostNetwork"),
        ({"overrides": {"spec.backoffLimit": 5}}, "bad_override", "does not let a launch change"),
        ({"overrides": {"spec..x": 5}}, "bad_override", "is not a path"),
        ({"image": None}, "bad_input", "names none"),
        ({"values": {"gpus": 5}}, "bad_variable", "above the maximum of 4"),
        ({"training": {"nodes": 2}}, "bad_training", "says itself how many pods"),
        ({"command": [" "]}, "bad_command", "no command"),
    ],
)
def test_what_the_queue_does_not_allow_is_refused_and_nothing_is_filed(
    door: Door, asked: dict[str, Any], code: str, told: str
) -> None:
    create(door, "gpu")
    for path in ("/launches", "/launches/preview"):
        problem = door.call("POST", path, {"queue": "gpu", "image": IMAGE, **asked}).json()
        assert problem["code"] == code
        assert told in problem["detail"]
    assert door.call("GET", "/runs").json()["items"] == []


@pytest.mark.parametrize(
    "config",
    [{}, {"image": "x"}, {"kind": "Service", "apiVersion": "v1"}, {"kind": "List", "items": []}],
)
def test_a_config_that_cannot_be_a_run_makes_no_queue(door: Door, config: dict[str, Any]) -> None:
    asked = {"name": "bad", "resource": "kubernetes", "config": config}
    assert door.call("POST", "/queues", asked).json()["code"] == "bad_template"
    assert door.call("GET", "/queues/bad").status_code == 404


def test_a_preview_of_processes_names_its_sources_too(door: Door) -> None:
    config = {
        "resources": {"gpus": "{{gpus}}"},
        "env": {"TAG": "a-${run_id}", "A": "queue"},
        "workdir": "sub",
    }
    variables = {"gpus": {"type": "integer", "default": 0}}
    door.call("POST", "/queues", {"name": "lab", "config": config, "variables": variables})
    asked = {"queue": "lab", "command": ["train.py", "--x"], "env": {"A": "b"}, "config": {"lr": 1}}
    sources = door.call("POST", "/launches/preview", asked).json()["sources"]
    wanted = {
        "/engine": "injected",
        "/stop_grace": "injected",
        "/replicas/0/command/0": "injected",
        "/replicas/0/command/1": "launch",
        "/replicas/0/resources/gpus": "variable gpus",
        "/replicas/0/resources/cpus": "injected",
        "/replicas/0/workdir": "queue v1",
        "/replicas/0/env/TAG": "queue v1, macro run_id",
        "/replicas/0/env/A": "launch",
        "/replicas/0/env/MUSTER_RUN_ID": "injected",
        "/replicas/0/env/MUSTER_CONFIG": "launch",
    }
    assert {place: sources[place] for place in wanted} == wanted
