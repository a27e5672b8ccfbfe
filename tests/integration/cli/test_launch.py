"""Launching by typing, with a real server, a real agent and real processes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from installation import MUSTER, Installation, until
from muster.wire.runs import RunModel

if TYPE_CHECKING:
    from .conftest import Terminal


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(
        "import os, sys\n"
        "print('arguments', sys.argv[1:])\n"
        "print('config', os.environ['MUSTER_CONFIG'])\n"
        "if '--fail' in sys.argv:\n"
        "    raise ValueError('bad learning rate')\n"
    )
    return tmp_path


def test_a_followed_launch_shows_states_output_and_verdict(muster: Installation, code: Path) -> None:
    done = muster.muster("launch", ".", "-f", "--config", "lr=0.01", "--", "train.py", "--json", cwd=code)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["arguments ['--json']", 'config {"lr":0.01}']
    for said in ("○ queued", "● running", "✔ succeeded"):
        assert said in done.stderr


def test_a_failed_run_is_told_with_evidence_and_advice(muster: Installation, code: Path) -> None:
    done = muster.muster("launch", ".", "--follow", "--", "train.py", "--fail", cwd=code)
    assert done.returncode == 1
    assert "✘ failed  The program raised ValueError: bad learning rate (train.py:5)." in done.stderr
    assert "  │ ValueError: bad learning rate" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("→ ")


def test_several_nodes_are_told_apart(terminal: Terminal) -> None:
    words = ("--nodes", "2", "--cpus", "0.1", "--", "sh", "-c", "echo rank $RANK")
    out = terminal.out("launch", "-f", *words)
    assert sorted(out.splitlines()) == ["[0] rank 0", "[1] rank 1"]


def test_json_is_the_run_and_nothing_else(terminal: Terminal) -> None:
    launched = terminal.json("launch", "--name", "as-json", "--", "true")
    assert launched.keys() >= {"id", "name", "state", "queue", "project", "entity", "created_at"}
    followed = terminal.json("launch", "-f", "--", "sh", "-c", "echo noise; exit 3", status=1)
    assert followed["state"] == "failed"


def test_without_following_it_says_where_the_run_is(terminal: Terminal) -> None:
    out, err = terminal.type("launch", "--name", "elsewhere", "--", "true")
    assert out.startswith("○ queued  elsewhere  ")
    assert err.startswith("→ muster run logs ")


def test_a_dry_run_prints_the_manifest_and_starts_nothing(
    muster: Installation, terminal: Terminal, code: Path
) -> None:
    before = _newest(muster)
    out = terminal.out("launch", ".", "--dry-run", "--nodes", "2", "--", "train.py", "--x", cwd=code)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "engine: process # injected"
    assert {"- --x # launch", "gpus: 0 # variable gpus", "- sh # injected"} <= set(lines)
    preview = terminal.json("launch", ".", "--dry-run", "--", "train.py", cwd=code)
    assert preview.keys() >= {"manifest", "resources", "values", "queue"}
    assert preview["sources"]["/replicas/0/command/0"] == "injected"
    assert preview["sources"]["/replicas/0/command/1"] == "launch"
    assert _newest(muster) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--gpus", "1000000", "--", "true"], "gpus=1000000 is above the maximum"),
        (["--set", "colour=red", "--", "true"], 'has no variable "colour"'),
        (["-q", "lokal", "--", "true"], "There is no queue 'lokal'.\n→ Did you mean 'local'?"),
        (["-d", "python:3.12", "--", "true"], "it cannot run the image 'python:3.12'"),
        (["--env", "MUSTER_X=1", "--", "true"], "'MUSTER_X' cannot be set"),
        (["--name", "no spaces", "--", "true"], "'no spaces' is not a valid run name"),
    ],
)
def test_what_the_server_refuses_has_status_1(terminal: Terminal, arguments: list[str], told: str) -> None:
    assert told in terminal.refused("launch", *arguments, status=1)


def test_an_ignored_script_is_bad_usage(terminal: Terminal, code: Path) -> None:
    (code / ".musterignore").write_text("train.py\n")
    (code / "other.txt").write_text("")
    err = terminal.refused("launch", ".", "--", "train.py", cwd=code, status=2)
    assert "'train.py' is not among the files" in err


def test_ctrl_c_stops_following_and_not_the_run(muster: Installation, terminal: Terminal) -> None:
    # A shell that runs the tests in the background has SIGINT ignored, and what it starts inherits that.
    words = ["env", "--default-signal=INT", *MUSTER]
    words += ["launch", "-f", "--name", "goes-on", "--", "sh", "-c", "echo up; sleep 600"]
    following = subprocess.Popen(
        words, env=muster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "up\n"
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=30)
    assert following.returncode == 130
    assert "goes-on goes on" in err
    assert "muster run stop" in err
    run = _named(muster, "goes-on")
    assert run.state == "running"
    assert terminal.out("run", "stop", "--wait", run.id).startswith("■ stopped  goes-on")


def test_a_waiting_run_is_explained_while_it_is_followed(muster: Installation) -> None:
    muster.client().pause_queue("local")
    following = subprocess.Popen(
        [*MUSTER, "launch", "-f", "--", "true"], env=muster.env, stderr=subprocess.PIPE, text=True
    )
    try:
        assert following.stderr is not None
        said = until(lambda: _line_with(following, "the queue is paused"), what="an explanation")
        assert "It is number 1 in queue 'local'" in said
    finally:
        muster.client().resume_queue("local")
    assert following.wait(30) == 0
    following.stderr.close()


def test_on_a_terminal_there_is_a_bar_and_colour(muster: Installation, code: Path) -> None:
    terminal, end = pty.openpty()
    env = {**muster.env, "TERM": "xterm", "COLUMNS": "80"}
    env.pop("NO_COLOR", None)
    launching = subprocess.Popen(
        [*MUSTER, "launch", ".", "-f", "--", "train.py"], env=env, cwd=code, stdout=end, stderr=end, stdin=end
    )
    os.close(end)
    shown = _read_all(terminal)
    assert launching.wait(30) == 0
    assert "Reading code" in shown
    assert "\x1b[32m✔ succeeded" in shown


def _read_all(terminal: int) -> str:
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            os.close(terminal)
            return data.decode()
        data += piece


def _line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    return line if text in line else ""


def _newest(muster: Installation) -> str | None:
    page = muster.client().list_runs(limit=1)
    return page.items[0].id if page.items else None


def _named(muster: Installation, name: str) -> RunModel:
    (run,) = muster.client().list_runs(text=name).items
    return run
