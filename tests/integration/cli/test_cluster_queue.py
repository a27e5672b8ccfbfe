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


def test_python_launches_the_same(made: Installation) -> None:
    client = made.client()
    run = sdk.launch(image="acme/train:main", queue="volcano", overrides={WORKERS: 2}, client=client)
    assert run.state == "queued"
    assert client.get_run(run.id).overrides == {WORKERS: 2}
    with pytest.raises(BadOverride):
        sdk.launch(image="acme/train:main", queue="volcano", overrides={"kind": "Pod"}, client=client)
