"""A queue for a cluster from the command line and from Python: images, overrides, previews."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import muster as sdk
from installation import Installation
from muster.domain.errors import BadOverride

if TYPE_CHECKING:
    from .conftest import Terminal

VOLCANO = Path(__file__).parents[3] / "examples" / "queues" / "volcano.yaml"
WORKERS = "spec.tasks[name=worker].replicas"
IMAGE = ("-q", "volcano", "-d", "acme/train:main")


@pytest.fixture(scope="module")
def made(muster: Installation) -> Installation:
    done = muster.muster("queue", "create", "volcano", "--resource", "kubernetes", "--config", str(VOLCANO))
    assert done.returncode == 0, done.stderr
    return muster


def test_an_image_is_launched_with_an_override_that_the_run_shows(
    made: Installation, terminal: Terminal
) -> None:
    run = terminal.json("launch", *IMAGE, "--override", f"{WORKERS}=3", "--name", "wide")
    assert (run["overrides"], run["image"], run["command"]) == ({WORKERS: 3}, "acme/train:main", [])
    assert "spec.tasks[name=worker].replicas=3" in terminal.out("run", "show", run["id"])
    manifest = terminal.json("run", "manifest", run["id"])["manifest"]
    assert manifest["spec"]["tasks"][1]["replicas"] == 3


def test_a_dry_run_says_where_each_value_came_from(made: Installation, terminal: Terminal) -> None:
    out = terminal.out("launch", *IMAGE, "--dry-run", "--override", f"{WORKERS}=3", "--", "train.py")
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {
        "replicas: 3 # override",
        "replicas: 1 # queue v1",
        "image: acme/train:main # macro image_uri",
        "- train.py # launch",
        "ttlSecondsAfterFinished: 86400 # injected",
    } <= lines


def test_what_is_not_open_is_refused(made: Installation, terminal: Terminal) -> None:
    told = terminal.refused("launch", *IMAGE, "--override", "spec.queue=other", status=1)
    assert 'Queue "volcano" does not let a launch change spec.queue.' in told
    assert "→ It opens spec.minAvailable, spec.tasks[*].replicas." in told


OPEN = """
allow: [image, resources, workdir, volumes]
config: {template: {spec: {containers: [{image: "stock:1"}]}}}
"""


@pytest.fixture(scope="module")
def opened(muster: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    file = tmp_path_factory.mktemp("queue") / "open.yaml"
    file.write_text(OPEN)
    done = muster.muster("queue", "create", "open", "--resource", "kubernetes", "--config", str(file))
    assert done.returncode == 0, done.stderr
    return muster


def test_a_launch_and_a_rerun_set_what_the_queue_allows(opened: Installation, terminal: Terminal) -> None:
    places = ("--workdir", "/work", "--volume", "data:/data:ro", "--volume", "cache:/cache")
    run = terminal.json("launch", "-q", "open", *places, "--gpus", "2", "--memory", "8Gi", "--", "train.py")
    assert (run["workdir"], run["volumes"]) == ("/work", ["data:/data:ro", "cache:/cache"])
    assert run["resources"]["gpus"] == 2
    shown = " ".join(terminal.out("run", "show", run["id"]).split())
    assert "starts in /work" in shown
    assert "volumes data:/data:ro cache:/cache" in shown
    again = terminal.json("run", "rerun", run["id"], "--volume", "data:/other", "--gpus", "1")
    assert (again["workdir"], again["volumes"], again["resources"]["gpus"]) == ("/work", ["data:/other"], 1)
    told = terminal.refused("launch", "-q", "open", "--volume", "data", "--", "a", status=2)
    assert "--volume: 'data' is not a volume: it has no path" in told


def test_python_sets_what_the_queue_allows(opened: Installation) -> None:
    client = opened.client()
    run = sdk.launch(
        command="train.py",
        queue="open",
        image="acme/train:main",
        values={"cpus": 4},
        workdir="/work",
        volumes=["data:/data"],
        training={"nodes": 2, "shm": "1Gi"},
        client=client,
    )
    found = client.get_run(run.id)
    assert (found.workdir, found.volumes, found.image) == ("/work", ["data:/data"], "acme/train:main")
    assert (found.nodes, found.resources.millicpus) == (2, 8000)
    again = run.rerun(volumes=[], workdir="/else")
    assert (again.model.volumes, again.model.workdir) == ([], "/else")
    with pytest.raises(BadOverride):
        sdk.launch(command="a", queue="local", volumes=["a:/a"], client=client)


def test_python_launches_the_same(made: Installation) -> None:
    client = made.client()
    run = sdk.launch(image="acme/train:main", queue="volcano", overrides={WORKERS: 2}, client=client)
    assert run.state == "queued"
    assert client.get_run(run.id).overrides == {WORKERS: 2}
    with pytest.raises(BadOverride):
        sdk.launch(image="acme/train:main", queue="volcano", overrides={"kind": "Pod"}, client=client)
