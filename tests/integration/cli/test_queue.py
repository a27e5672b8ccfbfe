"""`muster queue`: from a file to a queue and back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from documents import BAD, HUGE, NAMES

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
        ("spec: {template: {}}\n", [], 1, "--resource kubernetes"),
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


# --- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "problem", "line", "column"), BAD, ids=NAMES)
def test_a_file_with_a_slip_or_a_trick_is_refused_where_it_is(
    terminal: Terminal, tmp_path: Path, text: str, problem: str, line: int, column: int
) -> None:
    file = tmp_path / "q.yaml"
    file.write_bytes(text.encode())
    told = terminal.refused("queue", "create", "tricky", "--config", str(file), status=2)
    assert f"q.yaml:{line}:{column}: {problem}" in told
    assert "→ " in told
    assert "There is no queue 'tricky'" in terminal.refused("queue", "show", "tricky", status=1)


def test_a_file_of_five_megabytes_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text(HUGE)
    told = terminal.refused("queue", "create", "huge", "--config", str(tmp_path / "q.yaml"), status=2)
    assert "is larger than 1 MiB: its limit is passed at line" in " ".join(told.split())


# --- parsing ---------------------------------------------------------------------------------------


def test_parsing_lists_what_a_file_holds(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("env:\n  A: '{{lr}} ${run_id}'\nresources: {gpus: '{{gpus}}'}\n")
    out, err = terminal.type("queue", "parse", "q.yaml", "--var", "lr:number:default=0.1", cwd=tmp_path)
    lines = [line.split() for line in out.splitlines()]
    assert ["lr", "number", "0.1", "2", "env.A"] in lines
    assert ["gpus", "(not", "declared)", "3", "resources.gpus"] in lines
    assert ["${run_id}", "2", "env.A"] in lines
    assert "--var gpus:integer" in err
    again = terminal.json(
        "queue", "parse", "q.yaml", "--var", "lr:number", "--var", "gpus:integer", cwd=tmp_path
    )
    assert again["usable"]


def test_parsing_fails_where_something_is_wrong(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("config: {env: {}}\nvariables:\n  a: {type: string}\n")
    _, err = terminal.type("queue", "parse", "q.yaml", status=1, cwd=tmp_path)
    assert 'Error: q.yaml:3:6: Variable "a" is declared, but the template never uses it.' in err


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("gpus:integer:default=9,max=4", "default 9 is above the maximum of 4"),
        ("gpus:integer:min=3,max=1", "minimum 3 is above the maximum of 1"),
        ("gpus:string:default=c,choices=a|b", "default c is not among the choices a, b"),
        ("gpus:integer:default=x", "default 'x' is not an integer"),
    ],
)
def test_a_variable_that_breaks_its_own_rule_is_refused(
    terminal: Terminal, tmp_path: Path, spec: str, told: str
) -> None:
    (tmp_path / "q.yaml").write_text("resources: {gpus: '{{gpus}}'}\n")
    words = ["queue", "create", "own-rule", "--config", str(tmp_path / "q.yaml"), "--var", spec]
    assert told in terminal.refused(*words, status=2)


def test_an_undeclared_variable_is_refused_with_the_option_that_declares_it(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "q.yaml").write_text("resources: {memory: '{{room}}'}\n")
    words = ["queue", "create", "roomy", "--config", str(tmp_path / "q.yaml")]
    assert "Declare it: --var room:quantity" in terminal.refused(*words, status=1)
    declared = "room:quantity:default=1Gi,min=1Gi,max=8Gi,choices=1Gi|8Gi,description=memory, for each"
    made = terminal.json(*words, "--var", declared)
    assert made["variables"]["room"] == {
        "type": "quantity",
        "default": "1Gi",
        "minimum": "1Gi",
        "maximum": "8Gi",
        "choices": ["1Gi", "8Gi"],
        "description": "memory, for each",
    }


# --- rules, versions, drain ------------------------------------------------------------------------


def test_rules_come_from_file_and_options_and_an_edit_keeps_the_rest(
    terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "q.yaml").write_text("config: {}\norder: fifo\nlimits: {runs: 8, user: {gpus: 1}}\n")
    words = ["queue", "create", "ruled", "--config", str(tmp_path / "q.yaml")]
    made = terminal.json(*words, "--no-priorities", "--limit", "gpus=4,user.gpus=2")
    assert (made["order"], made["priorities"]) == ("fifo", False)
    assert made["limits"] == {"runs": 8, "gpus": 4, "user": {"runs": None, "gpus": 2}}
    edited = terminal.json("queue", "edit", "ruled", "--limit", "runs=none", "--limit", "user.runs=3")
    assert edited["limits"] == {"runs": None, "gpus": 4, "user": {"runs": 3, "gpus": 2}}
    assert (edited["order"], edited["priorities"], edited["version"]) == ("fifo", False, 2)
    shown = terminal.out("queue", "show", "ruled")
    assert "limits      4 GPUs, each user 3 runs and 2 GPUs" in shown
    assert "order       first in, first out" in shown
    assert "priorities  off" in shown
    refused = terminal.refused("launch", "-q", "ruled", "--priority", "high", "--", "true", status=1)
    assert "has its priorities turned off" in refused
    editor = {"VISUAL": "", "EDITOR": "sed -i -e /fifo/d -e s/false/true/"}
    assert terminal.out("queue", "edit", "ruled", env=editor) == "Queue ruled changed (version 3).\n"
    left = terminal.json("queue", "show", "ruled")
    assert (left["order"], left["priorities"], left["limits"]["gpus"]) == ("share", True, 4)


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("config: {}\norder: lifo\n", [], "q.yaml:2:8: order: 'lifo' is not possible. "),
        ("config: {}\nlimits: {run: 1}\n", [], "q.yaml:2:9: limits has no key 'run'."),
        ("config: {}\nvariable: {}\n", [], "q.yaml:2:11: the queue has no key 'variable'."),
        ("config: {}\n", ["--limit", "cpus=3"], "--limit cpus=3: this is no limit."),
        ("config: {}\n", ["--limit", "runs=many"], "--limit runs many: this is not a whole number."),
        ("config: {}\n", ["--order", "lifo"], "lifo"),
    ],
)
def test_a_rule_that_cannot_be_is_bad_usage(
    terminal: Terminal, tmp_path: Path, text: str, options: list[str], told: str
) -> None:
    (tmp_path / "q.yaml").write_text(text)
    words = ["queue", "create", "unruly", "--config", str(tmp_path / "q.yaml"), *options]
    assert told.strip() in terminal.refused(*words, status=2)


def test_versions_are_typed(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("env: {A: one}\n")
    terminal.out("queue", "create", "aged", "--config", str(tmp_path / "q.yaml"))
    terminal.out("queue", "pause", "aged")
    run = terminal.json("launch", "-q", "aged", "--", "true")
    (tmp_path / "q.yaml").write_text("env: {A: two}\n")
    terminal.out("queue", "edit", "aged", "--config", str(tmp_path / "q.yaml"), "--limit", "runs=1")
    listed = terminal.out("queue", "versions", "aged").splitlines()
    assert [line.split()[0] for line in listed] == ["VERSION", "v2", "v1"]
    assert listed[1].endswith("config, limits")
    diff = terminal.out("queue", "show", "aged", "--diff", "v1", "v2")
    assert "-    A: one" in diff
    assert "+    A: two" in diff
    assert "    A: one" in terminal.out("queue", "show", "aged", "--version", "1")
    assert "aged (version 1; the newest is 2)" in terminal.out("run", "show", run["id"])
    assert "It keeps version 1 of the queue" in terminal.out("run", "why", run["id"])
    assert terminal.out("queue", "rollback", "aged", "v1") == "Queue aged is as v1 was (version 3).\n"
    assert terminal.out("queue", "rollback", "aged", "v3") == "Queue aged is as v3 already (version 3).\n"
    assert "There is no version 'v7'" in terminal.refused("queue", "rollback", "aged", "v7", status=1)
    assert "'old' is not a version" in terminal.refused("queue", "rollback", "aged", "old", status=2)
    terminal.out("run", "stop", run["id"])


def test_a_queue_is_drained_and_opened_again(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("env: {}\n")
    terminal.out("queue", "create", "drained", "--config", str(tmp_path / "q.yaml"))
    assert terminal.out("queue", "drain", "drained") == "Queue drained is draining (version 1).\n"
    assert "draining" in terminal.out("queue", "show", "drained")
    assert "draining" in terminal.out("queue", "list")
    refused = terminal.refused("launch", "-q", "drained", "--", "true", status=1)
    assert "takes no more launches" in refused
    assert terminal.json("queue", "resume", "drained")["draining_at"] is None
