"""Whoever is killed when: runs are found again, logs go on without gap or repeat."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from installation import MUSTER, Installation, until
from muster.domain.run import RunState

COUNT = 'i=0; while [ ! -e {mark} ]; do echo "line $i"; i=$((i+1)); sleep 0.01; done; echo "all $i"'


class Counting:
    """A run that prints numbered lines until it is let go."""

    def __init__(self, muster: Installation) -> None:
        self._mark = muster.data / "let-go"
        self.run = muster.launch(["sh", "-c", COUNT.format(mark=self._mark)])
        self.see_more()

    def see_more(self) -> None:
        """Wait for more lines than there are now."""
        before = len(list(self.run.logs()))
        until(lambda: len(list(self.run.logs())) > before + 5, what="more lines")

    def assert_whole(self) -> None:
        """More lines come; then it ends, and not one is missing or there twice."""
        self.see_more()
        self._mark.touch()
        assert self.run.wait(60) is RunState.SUCCEEDED
        *lines, last = self.run.logs()
        assert lines == [f"line {number}" for number in range(len(lines))]
        assert last == f"all {len(lines)}"
        assert self.run.model.attempt == 1

    def leases(self) -> list[str]:
        return [str(event.data["what"]) for event in self.run.events() if event.type == "lease"]


def test_a_killed_agent_is_replaced_and_its_runs_go_on(muster: Installation) -> None:
    counting = Counting(muster)
    muster.kill_agent()
    counting.assert_whole()
    assert counting.leases() == ["started again", "taken over"]


def test_a_killed_server_comes_back_and_nothing_is_missed(muster: Installation) -> None:
    counting = Counting(muster)
    muster.kill_server()
    muster.start()
    counting.assert_whole()


def test_a_run_that_ends_while_all_is_down_is_found_ended(muster: Installation, tmp_path: Path) -> None:
    mark = tmp_path / "done"
    run = muster.launch(["sh", "-c", f"echo begin; sleep 1; echo end; touch {mark}; exit 5"])
    until(lambda: run.state is RunState.RUNNING)
    muster.kill_server()
    muster.kill_agent()
    until(mark.exists)
    muster.start()
    assert run.wait(60) is RunState.FAILED
    assert list(run.logs()) == ["begin", "end"]
    failure = run.why().failure
    assert failure is not None
    assert failure.exit_code == 5


def test_ctrl_c_leaves_runs_running_and_the_next_start_finds_them(muster: Installation) -> None:
    counting = Counting(muster)
    assert muster.stop(signal.SIGINT) == 0
    muster.start()
    counting.assert_whole()


def test_stop_runs_stops_them_with_it(tmp_path: Path) -> None:
    muster = Installation(tmp_path)
    muster.start("--stop-runs")
    try:
        run = muster.launch("sleep 600")
        until(lambda: run.state is RunState.RUNNING)
        pid = int(muster.client().list_replicas(run.id).items[0].handle)
        assert muster.stop() == 0
        assert not Path(f"/proc/{pid}").exists()
        muster.start()
        assert run.state is RunState.STOPPED
    finally:
        muster.destroy()


def test_an_agent_frozen_past_its_lease_changes_nothing_when_it_wakes(muster: Installation) -> None:
    counting = Counting(muster)
    (frozen,) = muster.agent_pids()
    os.kill(frozen, signal.SIGSTOP)
    # A second agent of the same machine, under another name: it sees the same processes.
    second = subprocess.Popen(
        [*MUSTER, "agent", "--name", "second", "--queue", "local", "--data-dir", str(muster.data)],
        env={**muster.env, "MUSTER_API_KEY": muster.key},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: counting.leases() == ["silent", "taken over"], seconds=40)
        os.kill(frozen, signal.SIGCONT)
        counting.assert_whole()
    finally:
        os.kill(frozen, signal.SIGCONT)
        second.terminate()
        second.wait(20)


def test_a_revoked_key_is_told_and_the_run_it_launched_goes_on(muster: Installation, tmp_path: Path) -> None:
    import json

    go = tmp_path / "go"
    script = f"echo on; until [ -e {go} ]; do sleep 0.1; done; echo off"
    made = json.loads(muster.muster("key", "create", "laptop", "--json", check=True).stdout)
    env = {**muster.env, "MUSTER_API_KEY": made["key"], "PYTHONUNBUFFERED": "1"}
    follower = subprocess.Popen(
        [*MUSTER, "launch", "-q", "local", "--follow", "--", "sh", "-c", script],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "on\n"
    muster.muster("key", "revoke", made["id"], check=True)
    _, said = follower.communicate(timeout=30)
    assert follower.returncode == 3
    assert "revoked" in said
    assert "Traceback" not in said
    go.touch()
    (run,) = muster.client().list_runs().items
    until(lambda: muster.client().get_run(run.id).state is RunState.SUCCEEDED)


def test_a_taken_port_and_a_taken_data_directory_are_named(muster: Installation) -> None:
    again = muster.muster("up", "--port", str(muster.port), "--data-dir", str(muster.data / "other"))
    assert again.returncode == 1
    assert f"127.0.0.1:{muster.port}" in again.stderr
    assert "--port" in again.stderr
    same = muster.muster("up", "--port", "0")
    assert same.returncode == 1
    assert "Another Muster server already uses" in same.stderr


def test_limits_that_the_owner_set_survive_a_restart(muster: Installation) -> None:
    assert muster.client().get_queue("local").variables["gpus"]["maximum"] == 4
    muster.muster("queue", "edit", "local", "--var", "gpus:integer:default=0,min=0,max=2", check=True)
    muster.stop()
    muster.start()
    assert muster.client().get_queue("local").variables["gpus"]["maximum"] == 2


def test_it_is_ready_within_two_seconds(tmp_path: Path) -> None:
    """Measured on a shared machine, so with room; the benchmark has the exact figure."""
    muster = Installation(tmp_path)
    muster.start()
    muster.stop()
    started = time.monotonic()
    muster.start()
    took = time.monotonic() - started
    muster.destroy()
    assert took < 8, took
