"""`muster run`: each verb once, in text and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from installation import MUSTER, Installation
from muster.wire.runs import RunModel

if TYPE_CHECKING:
    from .conftest import Terminal


@pytest.fixture(scope="module")
def ended(muster: Installation) -> RunModel:
    """A run that printed three lines and succeeded."""
    run = muster.launch(["sh", "-c", "echo one; echo two; printf three"], name="three-lines")
    run.wait(30)
    return run.model


def test_runs_are_listed_newest_first(terminal: Terminal, ended: RunModel) -> None:
    text = terminal.out(
        "run", "list", "--mine", "-q", "local", "--state", "succeeded", "--text", "three-lines"
    )
    title, row = text.splitlines()
    assert title.split() == ["ID", "NAME", "STATE", "QUEUE", "PROJECT", "AUTHOR", "CREATED", "TOOK"]
    assert row.startswith(f"{ended.id}  three-lines  ✔ succeeded  local")
    page = terminal.json("run", "list", "--limit", "1")
    assert (len(page["items"]), page.keys()) == (1, {"items", "next"})


def test_pages_are_put_together(muster: Installation, terminal: Terminal, ended: RunModel) -> None:
    muster.launch("true").wait(30)
    first = terminal.json("run", "list", "--limit", "1")
    everything = terminal.json("run", "list", "--all")
    assert first["next"] is not None
    assert everything["next"] is None
    assert len(everything["items"]) >= 2


@pytest.mark.parametrize("word", ["three-lines", "three-l"])
def test_a_run_is_found_by_name_or_its_beginning(terminal: Terminal, ended: RunModel, word: str) -> None:
    assert terminal.json("run", "show", word)["id"] == ended.id


def test_a_run_is_found_by_the_beginning_of_its_id(terminal: Terminal, ended: RunModel) -> None:
    text = terminal.out("run", "show", ended.id[:9])
    assert text.startswith(f"three-lines  {ended.id}\n")
    assert "state     ✔ succeeded after" in text
    assert "command   sh -c" in text


def test_a_name_that_may_be_several_runs_is_bad_usage(muster: Installation, terminal: Terminal) -> None:
    runs = [muster.launch("true", name="twins").model for _ in range(2)]
    err = terminal.refused("run", "show", "twins", status=2)
    assert "'twins' may be any of these runs:" in err
    assert all(run.id in err for run in runs)


def test_no_such_run_has_status_1(terminal: Terminal) -> None:
    err = terminal.refused("run", "show", "nonsense", status=1)
    assert err == "Error: There is no run 'nonsense'.\n→ `muster run list` shows what there is.\n"


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], "one\ntwo\nthree\n"),
        (["--follow"], "one\ntwo\nthree\n"),
        (["--tail", "2"], "two\nthree\n"),
        (["--tail", "1", "-f"], "three\n"),
        (["--rank", "0", "--attempt", "1"], "one\ntwo\nthree\n"),
        (["--attempt", "2"], ""),
    ],
)
def test_logs_are_what_was_printed(
    terminal: Terminal, ended: RunModel, options: list[str], printed: str
) -> None:
    assert terminal.out("run", "logs", ended.id, *options) == printed


def test_logs_as_json_are_chunks(terminal: Terminal, ended: RunModel) -> None:
    (chunk,) = terminal.json("run", "logs", ended.id)["items"]
    assert chunk == {"rank": 0, "attempt": 1, "offset": 0, "text": "one\ntwo\nthree"}
    lines = terminal.out("run", "logs", ended.id, "-f", "--json").splitlines()
    assert "".join(json.loads(line)["text"] for line in lines) == chunk["text"]


def test_events_are_told_in_order(terminal: Terminal, ended: RunModel) -> None:
    lines = terminal.out("run", "events", ended.id).splitlines()
    assert "○ queued" in lines[0]
    assert "✔ succeeded" in lines[-1]
    assert [event["seq"] for event in terminal.json("run", "events", ended.id)["items"]][:2] == [1, 2]
    followed = terminal.out("run", "events", ended.id, "-f", "--json").splitlines()
    assert len(followed) == len(lines)
    assert json.loads(followed[-1])["data"]["to"] == "succeeded"


def test_the_rest_of_what_is_kept(terminal: Terminal, ended: RunModel) -> None:
    assert terminal.out("run", "why", ended.id).startswith("✔ succeeded  It succeeded")
    assert "summary" in terminal.json("run", "why", ended.id)
    assert "✔ succeeded" in terminal.out("run", "replicas", ended.id)
    assert terminal.out("run", "manifest", ended.id).startswith("engine: process\n")
    assert terminal.json("run", "manifest", ended.id)["submitted"] is True
    assert terminal.json("run", "usage", ended.id).keys() == {"items", "next"}


def test_waiting_ends_with_the_verdict_or_the_time(
    muster: Installation, terminal: Terminal, ended: RunModel
) -> None:
    assert "✔ succeeded  three-lines" in terminal.out("run", "wait", ended.id)
    failing = muster.launch("false").model
    terminal.type("run", "wait", failing.id, status=1)
    sleeping = muster.launch("sleep 600").model
    late = terminal.refused("run", "wait", sleeping.id, "--timeout", "0.1", status=1)
    assert "has not ended after 0.1 s" in late
    (stopped,) = terminal.json("run", "stop", sleeping.id, "--wait")["items"]
    assert stopped["state"] == "stopped"


def test_deleting_wants_a_yes_and_says_what_is_lost(muster: Installation, terminal: Terminal) -> None:
    run = muster.launch("true", name="unwanted")
    run.wait(30)
    refused = terminal.refused("run", "delete", run.id, status=2)
    assert refused == "Error: This needs a yes, and nobody is there to ask.\n→ Say it with --yes.\n"
    assert terminal.out("run", "delete", run.id, "-y") == "Deleted 1 run.\n"
    assert "There is no run" in terminal.refused("run", "delete", run.id, "-y", status=1)


def test_a_reader_that_goes_away_is_no_drama(muster: Installation, ended: RunModel) -> None:
    words = [*MUSTER, "run", "logs", ended.id, "-f"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, env=muster.env, stdout=writer, stderr=subprocess.PIPE, timeout=30)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
