"""Several servers on one PostgreSQL and one data directory: a request may go to any of them."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import pytest

from installation import MUSTER, Installation, until
from muster.client.settings import ClientSettings
from muster.client.sync import Client
from muster.domain.errors import NotSignedIn
from muster.domain.run import RunState
from muster.wire.accounts import KeyRequest
from muster.wire.runs import LaunchRequest
from postgres import empty_postgres
from servers import Server, start_agent


@dataclass
class Fleet:
    servers: list[Server]
    agent: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two servers, and an agent that knows only the first."""
    folder = tmp_path_factory.mktemp("several")
    base = Installation(folder, env={"MUSTER_DATABASE": empty_postgres()})
    key = base.muster("server", "init", "--user", "ann", check=True).stdout.strip()
    env = {**base.env, "MUSTER_API_KEY": key}
    servers = [Server(folder / f"server-{number}.log", env) for number in range(2)]
    agent = start_agent(servers[0], folder / "agent.log")
    with servers[0].client() as client:
        until(lambda: client.list_agents().items, what="the agent")
    yield Fleet(servers, agent)
    agent.terminate()
    agent.wait(30)
    for server in servers:
        if server.process.poll() is None:
            server.end()


def test_a_launch_at_one_server_wakes_the_agent_that_waits_at_another(fleet: Fleet) -> None:
    """By word from the database, not by the next poll."""
    _, there = fleet.servers
    with there.client() as client:
        took = []
        for _ in range(3):
            began = time.monotonic()
            run_id = client.launch(LaunchRequest(command=["true"], values={"cpus": 0.1})).id
            until(partial(over, client, run_id))
            assert client.get_run(run_id).state is RunState.SUCCEEDED
            took.append(time.monotonic() - began)
    assert min(took) < 4, "an agent polls every five seconds"


def over(client: Client, run_id: str) -> bool:
    return client.get_run(run_id).state.terminal


def test_a_log_is_followed_at_one_server_while_it_comes_in_at_another(fleet: Fleet) -> None:
    here, there = fleet.servers
    script = "for i in 1 2 3 4 5; do date +%s.%N; sleep 0.2; done"
    late: list[float] = []
    with here.client() as mine, there.client() as other:
        run = mine.launch(LaunchRequest(command=["sh", "-c", script], values={"cpus": 0.1}))
        for chunk in other.follow_logs(run.id):
            late += [time.time() - float(line) for line in chunk.text.split()]
    assert len(late) == 5
    assert min(late) < 0.5, "not only when the run had ended"


def test_a_revoked_key_is_refused_everywhere_at_once(fleet: Fleet) -> None:
    here, there = fleet.servers
    with here.client() as admin:
        made = admin.create_key(KeyRequest(label="spare"))
        spare = ClientSettings(url=there.url, api_key=made.key)
        with Client(settings=spare) as holder:
            holder.list_runs()
            admin.revoke_key(made.id)
            until(lambda: refused(holder), seconds=1.5, what="the other server to hear of it")


def refused(client: Client) -> bool:
    try:
        client.list_runs()
    except NotSignedIn:
        return True
    return False


def test_a_server_of_another_database_may_not_use_the_directory(fleet: Fleet) -> None:
    env = {**fleet.servers[0].env}
    del env["MUSTER_DATABASE"]
    said = subprocess.run([*MUSTER, "server", "--port", "0"], env=env, capture_output=True, text=True)
    assert said.returncode != 0
    assert "Another Muster server already uses" in said.stderr


def test_one_of_two_is_killed_and_nobody_waits_long(fleet: Fleet) -> None:
    """The agent's server must live: there is no balancer here. The drill has one."""
    here, there = fleet.servers
    spare = Server(there.log.with_name("spare.log"), there.env)
    answers: list[float] = []
    done = threading.Event()

    def ask() -> None:
        with here.client() as client:
            while not done.is_set():
                client.list_runs(limit=1)
                answers.append(time.monotonic())
                time.sleep(0.02)

    asking = threading.Thread(target=ask)
    asking.start()
    with here.client() as client:
        runs = [
            client.launch(LaunchRequest(command=["sleep", "0.2"], values={"cpus": 0.1})) for _ in range(6)
        ]
        spare.end(signal.SIGKILL)
        until(lambda: all(over(client, run.id) for run in runs), what="all runs to end")
        done.set()
        asking.join()
        assert {client.get_run(run.id).state for run in runs} == {RunState.SUCCEEDED}
    assert max(b - a for a, b in pairwise(answers)) < 2
