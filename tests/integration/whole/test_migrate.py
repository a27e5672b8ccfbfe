"""From the embedded store to PostgreSQL, with everything, while runs go on."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from installation import Installation, text_of, until
from muster.domain.run import RunState
from muster.wire.runs import LaunchRequest
from postgres import empty_postgres
from servers import Server, start_agent


def test_an_installation_moves_whole_and_its_runs_go_on(tmp_path: Path) -> None:
    old = Installation(tmp_path)
    old.start()
    try:
        done = old.launch(["sh", "-c", "echo one; echo two"])
        done.wait()
        going_on = old.launch(
            ["sh", "-c", f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo ended"]
        )
        until(lambda: text_of(going_on))
        old.stop()
        target = empty_postgres()
        moved = old.muster("migrate", "sqlite-to-postgres", "--to", target, "--json", check=True)
        tables = json.loads(moved.stdout)["tables"]
        assert tables["runs"] == 2
        assert tables["events"] > 4

        refused = old.muster("up", "--port", "0")
        assert refused.returncode == 1
        assert "has moved to PostgreSQL" in refused.stderr

        env = {**old.env, "MUSTER_DATABASE": target, "MUSTER_API_KEY": old.key}
        server = Server(tmp_path / "server.log", env)
        agent = start_agent(server, tmp_path / "agent.log")
        with server.client() as client:
            assert client.read_log(done.id) == b"one\ntwo\n"
            assert client.get_run(done.id).state is RunState.SUCCEEDED
            (tmp_path / "go").touch()
            until(lambda: client.get_run(going_on.id).state.terminal, what="the run to end")
            ended = client.get_run(going_on.id)
            assert (ended.state, ended.attempt) == (RunState.SUCCEEDED, 1)
            assert client.read_log(going_on.id) == b"begun\nended\n"
            newest = client.launch(LaunchRequest(command=["true"]))
            assert [run.id for run in client.list_runs().items] == [newest.id, going_on.id, done.id]
        agent.terminate()
        agent.wait(30)
        server.end()

        old.env["MUSTER_DATABASE"] = target
        old.start()
        assert old.client().read_log(going_on.id) == b"begun\nended\n", "`muster up` goes on there too"
    finally:
        (tmp_path / "go").touch()
        old.destroy()


def test_muster_up_keeps_everything_where_it_is_told(tmp_path: Path) -> None:
    there = Installation(tmp_path, env={"MUSTER_DATABASE": empty_postgres()})
    there.start()
    try:
        ran = there.muster("launch", "--follow", "--", "echo", "hello", check=True)
        assert ran.stdout.splitlines()[0] == "hello"
        assert not (there.data / "muster.db").exists()
        second = there.muster("up", "--port", "0")
        assert "Another Muster server already uses" in second.stderr, "it has one local agent"
    finally:
        there.destroy()


def test_a_database_in_use_is_not_moved_into(tmp_path: Path) -> None:
    old = Installation(tmp_path)
    assert old.muster("server", "init", check=True).stdout
    target = empty_postgres()
    assert old.muster("migrate", "sqlite-to-postgres", "--to", target).returncode == 0
    other = Installation(tmp_path / "other")
    assert other.muster("server", "init", check=True).stdout
    said = other.muster("migrate", "sqlite-to-postgres", "--to", target)
    assert said.returncode == 1
    assert "in use by another installation" in said.stderr
    assert (other.data / "muster.db").exists()


def test_an_address_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    old = Installation(tmp_path)
    assert old.muster("server", "init", check=True).stdout
    for address, words in {
        "postgresql://nobody:secret@127.0.0.1:9/none": "PostgreSQL|refused",
        "mysql://host/db": "SQLite or PostgreSQL",
        "nonsense": "not the address of a database",
    }.items():
        said = old.muster("migrate", "sqlite-to-postgres", "--to", address)
        assert said.returncode == 1
        assert any(word in said.stderr for word in words.split("|")), said.stderr
        assert "secret" not in said.stderr
    assert (old.data / "muster.db").exists()


def test_a_move_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    old = Installation(tmp_path)
    assert old.muster("server", "init", check=True).stdout
    target = empty_postgres()
    with psycopg.connect(target, autocommit=True) as conn:
        conn.execute("CREATE TABLE members (id int)")  # in the way
    assert old.muster("migrate", "sqlite-to-postgres", "--to", target).returncode == 1
    with psycopg.connect(target) as conn:
        tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert tables == [("members",)]
    assert (old.data / "muster.db").exists()
