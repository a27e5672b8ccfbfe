"""`muster launch --grid`, `muster run compare`, and what `--group` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Terminal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import sys\nsys.exit('--seed=2' in sys.argv)\n")
    (tmp_path / "muster.yaml").write_text(
        "entrypoint: [train.py]\n"
        "inputs:\n"
        "  schema: {type: object, properties: {seed: {type: integer, maximum: 9}, lr: {default: 0.1}}}\n"
        "  arguments: [seed]\n"
    )
    return tmp_path


def test_a_grid_is_followed_to_its_end_and_compared(terminal: Terminal, folder: Path) -> None:
    out, err = terminal.type(
        "launch", str(folder), "--name", "fit", "--grid", "seed=1..2", "--follow", status=1
    )
    assert out == ""
    assert "fit-1 … fit-2" in err
    assert "1 ✔ succeeded, 1 ✘ failed" in err
    group = terminal.json("run", "list", "--limit", "1")["items"][0]["group"]
    table = terminal.out("run", "compare", "--group", group).splitlines()
    assert table[0].split() == ["NAME", "STATE", "TOOK", "seed", "FAILURE"]
    assert [line.split()[0] for line in table[1:]] == ["fit-1", "fit-2"]
    compared = terminal.json("run", "compare", "--group", group)
    assert compared["inputs"] == ["seed"]
    assert [(item["state"], item["inputs"]) for item in compared["items"]] == [
        ("succeeded", {"seed": 1}),
        ("failed", {"seed": 2}),
    ]
    listed = terminal.json("run", "list", "--group", group, "--state", "failed")
    assert [run["name"] for run in listed["items"]] == ["fit-2"]
    named = terminal.json("run", "compare", *(item["id"] for item in compared["items"]), "--all-inputs")
    assert {"seed", "lr"} <= set(named["inputs"])


def test_a_group_is_stopped_in_one_go(terminal: Terminal) -> None:
    made = terminal.json("launch", "--grid", "x=1..6", "--", "sleep", "600")
    assert len({run["group"] for run in made["items"]} | {made["id"]}) == 1
    done = terminal.json("run", "stop", "--group", made["id"], "--wait")
    assert done["asked"] == 6
    assert done["group"]["states"] == {"stopped": 6}
    assert "Asked 0 runs of 6 to stop" in terminal.out("run", "stop", "--group", made["id"])


def test_options_go_behind_the_entrypoint_and_a_file_brings_inputs(terminal: Terminal, folder: Path) -> None:
    config = folder / "mine.json"
    config.write_text(json.dumps({"seed": 3, "opt": {"a": 1, "b": 2}}))
    words = ("--config-file", str(config), "--config", "opt.b=5", "--", "--fast")
    run = terminal.json("launch", str(folder), *words)
    assert run["command"] == ["train.py", "--fast", "--seed=3"]
    assert run["config"] == {"seed": 3, "lr": 0.1, "opt": {"a": 1, "b": 5}}


def test_a_dry_run_of_a_grid_shows_its_first_run(terminal: Terminal, folder: Path) -> None:
    shown, said = terminal.type("launch", str(folder), "--grid", "seed=4,5", "--dry-run")
    assert "--seed=4" in shown
    assert "the first of 2 runs" in said


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["launch", "--grid", "lr", "--", "true"], 2, "not NAME=VALUES"),
        (["launch", "--grid", "lr=1..9999", "--", "true"], 2, "at most 5,000"),
        (["launch", "--grid", "lr=1,2", "--config", "lr=1", "--", "true"], 1, "is given to all"),
        (["launch", "--config-file", "nowhere.yaml", "--", "true"], 2, "nowhere.yaml cannot be read"),
        (["run", "compare"], 2, "Say which runs"),
        (["run", "compare", "a", "--group", "b"], 2, "Say which runs"),
        (["run", "compare", "--group", "nosuchgrp1"], 1, "no group 'nosuchgrp1'"),
        (["run", "stop"], 2, "Say which runs"),
        (["run", "stop", "--group", "nosuchgrp1"], 1, "no group 'nosuchgrp1'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_is_said(terminal: Terminal, words: list[str], status: int, said: str) -> None:
    assert said in terminal.refused(*words, status=status)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("entrypont: [x]\n", "Did you mean 'entrypoint'?"),
        ("entrypoint: train.py\n", "not a list of words"),
        ("inputs: {schema: {type: objekt}}\n", "inputs.schema.type: 'objekt' is not a type"),
        ("a: 1\na: 2\n", "muster.yaml:2:1"),
        ("- a\n", "is not a mapping"),
        ("name: [x]\n", "name is not text"),
    ],
)
def test_a_muster_yaml_that_cannot_be_used_is_refused_before_anything_is_sent(
    terminal: Terminal, folder: Path, text: str, said: str
) -> None:
    (folder / "muster.yaml").write_text(text)
    assert said in terminal.refused("launch", str(folder), "--", "train.py", status=2)
