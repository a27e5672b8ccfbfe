"""Signing in, keys, teams, the doctor, and what those without the right are told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from installation import MUSTER, Installation
from muster.wire.accounts import UserRequest

if TYPE_CHECKING:
    from .conftest import Terminal


@pytest.fixture(scope="module")
def bob(muster: Installation) -> str:
    """The key of a user without rights in other entities."""
    return muster.client().create_user(UserRequest(name="bob")).key


def test_sign_in_is_checked_and_kept(
    muster: Installation, terminal: Terminal, bob: str, tmp_path: Path
) -> None:
    home = {"HOME": str(tmp_path), "MUSTER_URL": "", "MUSTER_DATA_DIR": str(tmp_path)}
    shown = terminal.out("login", muster.url, "--key", "-", stdin=f"{bob}\n", env=home)
    assert "signed in as  bob" in shown
    kept = tmp_path / ".config" / "muster" / "config.toml"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() == f'url = "{muster.url}"\napi_key = "{bob}"\n'
    assert terminal.json("login", "--show", env=home)["name"] == "bob"
    err = terminal.refused("login", "--key", "mk-wrong", status=3, env=home)
    assert err.startswith("Error: ")
    assert bob in kept.read_text()


def test_a_key_is_asked_for_only_where_somebody_is(terminal: Terminal) -> None:
    assert "Give it on standard input: --key -" in terminal.refused("login", status=2)


def test_a_wrong_key_and_a_missing_right_are_status_3(
    muster: Installation, terminal: Terminal, bob: str
) -> None:
    assert "muster login" in terminal.refused("run", "list", status=3, env={"MUSTER_API_KEY": "mk-wrong"})
    owner = muster.client().get_me().name
    err = terminal.refused("queue", "list", "-e", owner, status=3, env={"MUSTER_API_KEY": bob})
    assert f"bob may not read in '{owner}'" in err


def test_keys_are_made_listed_and_revoked(terminal: Terminal) -> None:
    made = terminal.json("key", "create", "laptop", "--days", "7")
    assert len(made["key"]) >= 40
    agent = terminal.out("key", "create", "cluster", "--agent").strip()
    assert agent.isascii()
    listed = terminal.out("key", "list")
    assert made["id"] in listed
    assert made["key"] not in listed
    assert terminal.out("key", "revoke", made["id"]) == f"Key {made['id']} is revoked.\n"
    assert made["id"] not in terminal.out("key", "list")
    assert "There is no" in terminal.refused("key", "revoke", "nonsense", status=1)


def test_teams_have_members(terminal: Terminal, bob: str) -> None:
    assert terminal.json("entity", "create", "vision")["kind"] == "team"
    assert terminal.out("entity", "member", "add", "vision", "bob") == "bob is member of vision.\n"
    assert terminal.json("entity", "show", "vision")["members"]["bob"] == "member"
    assert "vision" in terminal.out("entity", "list", env={"MUSTER_API_KEY": bob})
    removed = terminal.json("entity", "member", "remove", "vision", "bob")
    assert "bob" not in removed["members"]
    audit = terminal.out("entity", "audit", "-e", "vision")
    assert "entity.create" in audit
    assert "already a" in terminal.refused("entity", "create", "vision", status=1)


def test_the_doctor_finds_what_is_there_and_what_is_not(terminal: Terminal) -> None:
    found = terminal.json("doctor")["items"]
    grades = {item["check"]: item["grade"] for item in found}
    assert set(grades) == {
        "config", "python", "uv", "git", "torch", "disk", "server", "sign-in", "agents", "queue",
    }  # fmt: skip
    assert [grades[name] for name in ("config", "server", "sign-in", "agents", "queue")] == ["ok"] * 5
    out = terminal.out("doctor", status=1, env={"MUSTER_URL": "http://127.0.0.1:9"})
    assert "✘ fail  server   No Muster server answers at http://127.0.0.1:9" in out
    assert "→ Start one here with `muster up`" in out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("muster run logs completed-b", "completed-by-tab"),
        ("muster run show ", "completed-by-tab's id"),
        ("muster launch -q lo", "local"),
    ],
)
def test_words_are_completed_from_the_server(muster: Installation, words: str, completed: str) -> None:
    runs = muster.client().list_runs(text="completed-by-tab").items
    run = runs[0] if runs else muster.launch("true", name="completed-by-tab").model
    shell = {"COMP_WORDS": words, "COMP_CWORD": "3", "_MUSTER_COMPLETE": "complete_bash"}
    done = subprocess.run([*MUSTER], env={**muster.env, **shell}, capture_output=True, text=True)
    assert completed.replace("completed-by-tab's id", run.id) in done.stdout.split()
    assert done.stderr == ""


def test_an_entity_is_limited_and_one_limit_at_a_time(terminal: Terminal) -> None:
    me = terminal.json("entity", "list")["items"][0]["name"]
    assert terminal.out("entity", "limit", me, "--runs", "900", "--gpus", "4") == (
        f"{me} may have 900 runs and 4 GPUs at once.\n"
    )
    assert terminal.json("entity", "limit", me, "--gpus", "none")["limits"] == {"runs": 900, "gpus": None}
    assert "limits   900 runs" in terminal.out("entity", "show", me)
    assert "900 runs" in terminal.out("entity", "list")
    assert terminal.out("entity", "limit", me, "--runs", "none") == f"{me} is not limited.\n"
    assert "nothing to limit" in terminal.refused("entity", "limit", me, status=2)
    assert "not a whole number" in terminal.refused("entity", "limit", me, "--runs", "-1", status=2)
