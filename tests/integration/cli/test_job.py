"""`muster job`, launches of jobs and `muster run rerun`, typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Terminal


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a name of its own, so that its job is the test's own."""
    folder = tmp_path / f"code{abs(hash(str(tmp_path))) % 10**9}"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import os, sys; print(*sys.argv[1:], os.environ['MUSTER_CONFIG'], sep=' ')\n"
    )
    return folder


def launched(terminal: Terminal, code: Path, *words: str) -> Any:
    return terminal.json(
        "launch", str(code), "-f", "--config", "lr=0.1", *words, "--", "train.py", "--epochs", "3"
    )


def test_a_launch_files_a_job_that_can_be_launched_again(terminal: Terminal, code: Path) -> None:
    name = f"job-{code.name}"
    run = launched(terminal, code)
    assert run["job"] == {"name": name, "version": 0}
    out = terminal.out("launch", "-j", f"{name}:latest", "-f", "--config", "lr=0.01", "--", "--epochs", "5")
    assert out == '--epochs 5 {"lr":0.01}\n'
    listed = terminal.json("run", "list", "--job", f"{name}:v0")["items"]
    assert [item["overridden"] for item in listed][1] == []
    assert listed[0]["overridden"] == [
        {"what": "arguments", "before": ["--epochs", "3"], "after": ["--epochs", "5"]},
        {"what": "config.lr", "before": 0.1, "after": 0.01},
    ]
    shown = terminal.out("run", "show", listed[0]["id"])
    assert f"{name}:v0" in shown
    assert "config.lr: 0.1 → 0.01" in shown


def test_a_run_is_launched_again(terminal: Terminal, code: Path) -> None:
    run = launched(terminal, code, "--cpus", "0.5", "--env", "A=1")
    again = terminal.json("run", "rerun", run["id"], "-f", "--config", "lr=1", "--name", "again")
    assert again["rerun_of"] == run["id"]
    assert (again["name"], again["job"], again["values"]["cpus"]) == ("again", run["job"], 0.5)
    assert again["command"] == run["command"]
    assert [change["what"] for change in again["overridden"]] == ["config.lr"]
    bare = terminal.json("run", "rerun", run["id"], "-f", "--")
    assert bare["command"] == ["train.py"]


def test_a_rerun_that_the_server_refuses_has_status_1(terminal: Terminal, code: Path) -> None:
    run = launched(terminal, code)
    err = terminal.refused("run", "rerun", run["id"], "--gpus", "100000", status=1)
    assert "above the maximum" in err


def test_jobs_are_made_named_and_deleted(terminal: Terminal) -> None:
    words = (
        "job",
        "create",
        "--name",
        "made",
        "-d",
        "acme/train:main",
        "--nodes",
        "2",
        "--",
        "train.py",
        "--x",
    )
    made = terminal.json(*words)
    assert (made["job"], made["version"], made["entrypoint"], made["arguments"]) == (
        "made",
        0,
        ["train.py"],
        ["--x"],
    )
    assert made["training"]["nodes"] == 2
    assert terminal.out(*words) == "Job made:v0 is there.\n"
    terminal.out("job", "create", "--name", "made", "-d", "acme/train:dev")
    assert terminal.out("job", "alias", "made:v0", "best") == "made:best is v0.\n"
    assert terminal.json("job", "show", "made:best")["image"] == "acme/train:main"
    assert "acme/train:dev" in terminal.out("job", "show", "made")
    assert terminal.json("job", "rename", "made", "renamed")["name"] == "renamed"
    assert [job["name"] for job in terminal.json("job", "list", "--text", "renamed")["items"]] == ["renamed"]
    assert terminal.json("job", "alias", "renamed", "best", "--remove")["aliases"] == {"latest": 1}
    assert "needs a yes" in terminal.refused("job", "delete", "renamed", status=2)
    assert terminal.out("job", "delete", "renamed", "--yes") == "Job renamed is deleted. Its runs stay.\n"
    assert "There is no job 'renamed'" in terminal.refused("job", "show", "renamed", status=1)


INPUTS = """
schema: {type: object, properties: {lr: {type: number, default: 0.5, maximum: 1}}, required: [lr]}
arguments: [lr]
"""


def test_what_the_folder_says_of_its_job_is_filed_and_holds(terminal: Terminal, code: Path) -> None:
    name = f"own-{code.name}"
    (code / "muster.yaml").write_text(
        f"name: {name}\nentrypoint: [train.py]\ninputs: {INPUTS.replace(chr(10), chr(10) + '  ')}"
    )
    made = terminal.json("job", "create", str(code), "--", "--epochs", "3")
    assert (made["job"], made["entrypoint"], made["arguments"]) == (name, ["train.py"], ["--epochs", "3"])
    assert terminal.json("launch", str(code), "-f")["job"] == {"name": name, "version": 0}
    assert terminal.out("launch", "-j", name, "-f") == '--epochs 3 --lr=0.5 {"lr":0.5}\n'
    assert "lr=2 is above the maximum of 1" in terminal.refused(
        "launch", "-j", name, "--config", "lr=2", status=1
    )
    rerun = terminal.json("run", "list", "--job", name)["items"][0]["id"]
    assert terminal.out("run", "rerun", rerun, "-f") == '--epochs 3 --lr=0.5 {"lr":0.5}\n'
    group = terminal.json("launch", "-j", name, "--grid", "lr=0.1,0.2", "-f")["id"]
    runs = terminal.json("run", "list", "--group", group)["items"]
    assert sorted(run["command"][-1] for run in runs) == ["--lr=0.1", "--lr=0.2"]
    assert {run["job"]["name"] for run in runs} == {name}
    assert "lr=2 is above" in terminal.refused("launch", "-j", name, "--grid", "lr=0.1,2", status=1)


def test_inputs_are_declared_with_a_file(terminal: Terminal, tmp_path: Path) -> None:
    words = ("job", "create", "--name", "declared", "-d", "acme/train:main", "--inputs")
    (tmp_path / "inputs.yaml").write_text(INPUTS)
    made = terminal.json(*words, str(tmp_path / "inputs.yaml"), "--", "train.py")
    assert made["inputs"]["arguments"] == {"lr": "--lr"}
    (tmp_path / "schema.json").write_text(json.dumps(made["inputs"]["schema"]))
    assert terminal.json(*words, str(tmp_path / "schema.json"))["inputs"] == {
        "schema": made["inputs"]["schema"]
    }
    (tmp_path / "muster.yaml").write_text("name: x\ninputs: " + json.dumps(made["inputs"]))
    again = terminal.json(*words, str(tmp_path / "muster.yaml"), "--", "train.py")
    assert (again["job"], again["version"]) == ("declared", 0)
    (tmp_path / "other.yaml").write_text("shema: {}\n")
    assert "declares no inputs" in terminal.refused(*words, str(tmp_path / "other.yaml"), status=2)
    shown = terminal.out("job", "show", "declared:v0")
    assert "inputs      lr" in shown
    told = terminal.refused(*words, str(tmp_path / "inputs.yaml"), "--config", "lr=2", status=1)
    assert "lr=2 is above the maximum of 1" in told
    (tmp_path / "bad.yaml").write_text("schema: {type: object, properties: {lr: {default: x, type: number}}}")
    told = terminal.refused(*words, str(tmp_path / "bad.yaml"), status=2)
    assert "bad.yaml" in told
    assert "default" in told


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["launch", "-q", "local"], 1, "There is no command to run"),
        (["launch", "-j", "no-such-job"], 1, "There is no job 'no-such-job'"),
        (["launch", "-j", "a/b/c"], 1, "'a/b/c' is not a valid job name"),
        (["launch", "-u", "ext::sh -c x", "--", "a.py"], 2, "not the address of a git repository"),
        (["launch", "-u", "git://127.0.0.1:9/x", "--", "a.py"], 1, "only https, ssh are allowed"),
        (["job", "create", "--name", "x"], 2, "A job needs a source"),
        (["job", "create", "--name", "x", "."], 2, "There is no command to run"),
        (["job", "alias", "x:v0", "latest"], 1, "There is no job 'x'"),
        (["job", "show", "x:"], 2, "'x:' is not a valid job name"),
    ],
)
def test_what_cannot_be_is_refused(terminal: Terminal, words: list[str], status: int, told: str) -> None:
    assert told in terminal.refused(*words, status=status)


def test_a_dry_run_of_a_job_shows_what_it_would_start(terminal: Terminal, code: Path) -> None:
    launched(terminal, code)
    preview = terminal.json("launch", "-j", f"job-{code.name}", "--dry-run", "--", "--epochs", "9")
    assert '"--epochs", "9"' in json.dumps(preview["manifest"])


def test_a_dry_run_of_a_rerun_shows_what_it_would_start(terminal: Terminal, code: Path) -> None:
    run = launched(terminal, code)
    preview = terminal.json("run", "rerun", run["id"], "--dry-run", "--", "--epochs", "9")
    assert '"--epochs", "9"' in json.dumps(preview["manifest"])
    assert len(terminal.json("run", "list", "--job", f"job-{code.name}")["items"]) == 1
