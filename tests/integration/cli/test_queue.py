"""`muster queue`: from a file to a queue and back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Terminal

CONFIG = "resources:\n  cpus: '{{cpus}}'\n"
WHOLE = """\
resource: process
variables:
  cpus: {type: number, default: 1}
config:
  resources: {cpus: "{{cpus}}"}
"""


def test_a_queue_lives_from_create_to_delete(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(CONFIG)
    file = str(tmp_path / "q.yaml")
    made = terminal.json(
        "queue", "create", "small", "--config", file, "--var", "cpus:number:default=1,min=0,max=2"
    )
    assert made["variables"]["cpus"] == {"type": "number", "default": 1, "minimum": 0, "maximum": 2}
    assert "small" in terminal.out("queue", "list")
    shown = terminal.out("queue", "show", "small")
    assert "cpus      number  1        0 … 2" in shown
    assert "    cpus: '{{cpus}}'" in shown
    assert terminal.json("queue", "pause", "small")["paused_at"] is not None
    assert terminal.out("queue", "resume", "small") == "Queue small is open (version 1).\n"
    assert terminal.json("queue", "edit", "small", "--var", "cpus:number:default=2")["version"] == 2
    assert "nobody is there to ask" in terminal.refused("queue", "delete", "small", status=2)
    assert terminal.out("queue", "delete", "small", "--yes") == "Queue small is deleted.\n"
    assert "There is no queue 'small'" in terminal.refused("queue", "show", "small", status=1)


def test_a_file_may_hold_the_whole_queue(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(
        json.dumps(
            {"config": {"env": {"A": "{{a}}"}}, "variables": {"a": {"type": "string", "default": "x"}}}
        )
    )
    made = terminal.json("queue", "create", "whole", "--config", str(tmp_path / "q.json"))
    assert (made["resource"], list(made["variables"])) == ("process", ["a"])


@pytest.mark.parametrize(
    ("text", "options", "status", "told"),
    [
        (CONFIG, [], 1, "uses {{cpus}}, which is not declared"),
        (CONFIG, ["--var", "cpus"], 2, '--var cpus: Variable "cpus" has no type.'),
        (CONFIG, ["--var", "cpus:int"], 2, "which is not one"),
        (CONFIG, ["--var", "cpus:number", "--var", "cpus:number"], 2, "declares 'cpus' twice"),
        (WHOLE, ["--var", "cpus:number"], 2, "both declare 'cpus'"),
        (WHOLE, ["--resource", "docker"], 2, "--resource docker and resource: process"),
        ("env: {}\n", ["--resource", "docker"], 1, "has no engine 'docker' yet"),
        ("env: {}\nenv: {}\n", [], 2, "q.yaml:2:1: the key 'env' is there twice."),
        ("variables: {}\n", [], 2, "has no key 'config'"),
        ("config: 3\n", [], 2, "config is not a mapping"),
        ("envs: {}\n", [], 1, "has no key 'envs'"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(
    terminal: Terminal, tmp_path: Path, text: str, options: list[str], status: int, told: str
) -> None:
    (tmp_path / "q.yaml").write_text(text)
    words = ["create", "bad", "--config", str(tmp_path / "q.yaml"), *options]
    assert told in terminal.refused("queue", *words, status=status)


def test_a_queue_is_edited_in_the_editor(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("env: {A: old}\n")
    terminal.out("queue", "create", "edited", "--config", str(tmp_path / "q.yaml"))
    place = {"VISUAL": ""}
    changed = terminal.out("queue", "edit", "edited", env={**place, "EDITOR": "sed -i s/old/new/"})
    assert changed == "Queue edited changed (version 2).\n"
    same = terminal.out("queue", "edit", "edited", env={**place, "EDITOR": "true"})
    assert same == "Queue edited is as it was (version 2).\n"
    refused = terminal.refused(
        "queue", "edit", "edited", status=1, env={**place, "VISUAL": "sed -i s/env/envs/"}
    )
    told = re.search(r"Your text is kept: muster queue edit edited --config (\S+)", refused)
    assert told is not None
    assert "envs:" in Path(told[1]).read_text()
    Path(told[1]).unlink()
    missing = terminal.refused("queue", "edit", "edited", status=2, env={"VISUAL": "/no/such/editor"})
    assert "cannot be started" in missing
    assert terminal.json("queue", "show", "edited")["config"] == {"env": {"A": "new"}}
