"""Inputs on their way from a folder and a launch to a real program: environment, arguments, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import muster
from installation import Installation
from muster.domain.errors import BadCommand, BadInputValue, BadManagedFile
from muster.domain.run import RunState

PROGRAM = """\
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "config": json.loads(os.environ["MUSTER_CONFIG"])}))
for path in ("conf/train.yaml", "conf/train.toml"):
    print(open(path).read(), end="")
"""
JOB = """\
entrypoint: [train.py, --fast]
inputs:
  schema:
    type: object
    properties:
      lr: {type: number, default: 0.1, maximum: 1}
      optimizer:
        type: object
        properties: {name: {type: string, default: adam}}
  arguments: [lr]
  files:
    conf/train.yaml: [optimizer]
    conf/train.toml: true
"""
YAML = "# which one\noptimizer:\n  name: sgd # as ever\n"
TOML = "lr = 1 # rate\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "train.py": PROGRAM,
        "muster.yaml": JOB,
        "conf/train.yaml": YAML,
        "conf/train.toml": TOML,
    }.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "code"


def launched(shared: Installation, folder: Path, **asked: Any) -> muster.Run:
    return muster.launch(folder, client=shared.client(), **asked)


def test_inputs_reach_the_program_in_every_way_the_job_says(shared: Installation, folder: Path) -> None:
    run = launched(shared, folder, config={"optimizer": {"momentum": 0.9}})
    assert run.wait(60) is RunState.SUCCEEDED, run.why()
    first, *files = run.logs()
    config = {"lr": 0.1, "optimizer": {"momentum": 0.9, "name": "adam"}}
    assert json.loads(first) == {"arguments": ["--fast", "--lr=0.1"], "config": config}
    assert files == [
        "# which one",
        "optimizer:",
        "  name: adam # as ever",
        "  momentum: 0.9",
        "lr = 0.1 # rate",
        "",
        "[optimizer]",
        "momentum = 0.9",
        'name = "adam"',
    ]
    assert run.model.command == ["train.py", "--fast", "--lr=0.1"]
    assert run.model.input_arguments == ["--lr=0.1"]


def test_neither_the_folder_nor_another_run_of_the_same_code_is_touched(
    shared: Installation, folder: Path
) -> None:
    for name in ("one", "two"):
        run = launched(shared, folder, config={"optimizer": {name: 1}})
        assert run.wait(60) is RunState.SUCCEEDED
        assert ("  one: 1" in list(run.logs())) == (name == "one")
    assert (folder / "conf/train.yaml").read_text() == YAML


def test_a_launch_that_breaks_a_rule_is_refused(shared: Installation, folder: Path) -> None:
    with pytest.raises(BadInputValue, match="lr=2 is above the maximum of 1") as refused:
        launched(shared, folder, config={"lr": 2})
    assert refused.value.facts["rule"] == "maximum"


def test_a_managed_file_that_is_not_in_the_code_is_named_at_the_launch(
    shared: Installation, folder: Path
) -> None:
    (folder / "conf/train.toml").rename(folder / "conf/trian.toml")
    with pytest.raises(BadManagedFile, match="Did you mean"):
        launched(shared, folder)


def test_a_managed_file_that_cannot_be_read_is_why_the_run_failed(shared: Installation, folder: Path) -> None:
    (folder / "conf/train.yaml").write_text("optimizer: [\n")
    run = launched(shared, folder)
    assert run.wait(60) is RunState.FAILED
    assert "conf/train.yaml:2:1: the file cannot be read" in run.why().summary


def test_a_folder_that_names_no_entrypoint_needs_a_command(shared: Installation, folder: Path) -> None:
    (folder / "muster.yaml").unlink()
    with pytest.raises(BadCommand):
        launched(shared, folder)


def test_a_grid_is_waited_for_and_stopped_as_one(shared: Installation, folder: Path) -> None:
    group = muster.launch_grid(folder, grid={"lr": [0.1, 0.2], "seed": range(2)}, client=shared.client())
    assert group.wait(60) == {RunState.SUCCEEDED: 4}
    assert [run.model.config["lr"] for run in group.runs] == [0.1, 0.1, 0.2, 0.2]
    assert {run.model.group for run in group.runs} == {group.id}
    long = muster.launch_grid(command="sleep 600", grid={"x": [1, 2, 3]}, client=shared.client())
    assert long.stop() == 3
    assert long.wait(30) == {RunState.STOPPED: 3}
    assert long.states == {RunState.STOPPED: 3}
