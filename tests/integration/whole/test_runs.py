"""From launch to finish on one machine, through server, agent and engine, with real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from installation import Installation, text_of, until
from muster.client.sdk import Run
from muster.domain.errors import BadCommand, BadVariable, ImpossibleRequest, NotFound
from muster.domain.run import RunState


def _can_limit_memory() -> bool:
    return any(os.access(f"/sys/fs/cgroup{place}", os.W_OK) for place in ("", "/memory", "/unified"))


def test_a_run_goes_from_launch_to_success_and_keeps_all_of_it(shared: Installation) -> None:
    run = shared.launch("sh -c 'echo to stdout; echo to stderr >&2'")
    assert run.wait(30) is RunState.SUCCEEDED
    assert sorted(run.logs()) == ["to stderr", "to stdout"]
    moves = [event.data["to"] for event in run.events() if event.type == "state"]
    assert moves[0] == "queued"
    assert moves[-1] == "succeeded"
    assert "succeeded" in run.why().summary


def test_the_exit_code_and_the_last_words_are_the_reason(shared: Installation) -> None:
    run = shared.launch(["sh", "-c", "echo something is off; exit 3"])
    assert run.wait(30) is RunState.FAILED
    why = run.why()
    assert why.failure is not None
    assert (why.failure.kind, why.failure.exit_code) == ("nonzero_exit", 3)
    assert "something is off" in why.failure.evidence


def test_a_python_error_is_told_with_its_traceback(shared: Installation, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main():\n    raise ValueError('bad learning rate')\n\n\nmain()\n")
    run = shared.launch("train.py", path=tmp_path)
    assert run.wait(60) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert failure.kind == "user_exception"
    assert "ValueError: bad learning rate" in failure.summary
    assert "line 2, in main" in failure.evidence


def test_a_command_that_is_not_there_is_named(shared: Installation) -> None:
    run = shared.launch("no-such-program --fast")
    assert run.wait(30) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert failure.kind == "command_not_found"
    assert "no-such-program" in failure.summary


@pytest.mark.skipif(not _can_limit_memory(), reason="no cgroup can be made here")
def test_a_run_over_its_memory_is_said_to_be_so(shared: Installation) -> None:
    grow = "x = []\nwhile True: x.append(bytearray(10**7))"
    run = shared.launch([sys.executable, "-c", grow], values={"memory": "100Mi"})
    assert run.wait(60) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert failure.kind == "out_of_memory"
    assert "probably" not in failure.summary


def test_a_stopped_run_says_by_whom_and_leaves_no_process(shared: Installation, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"echo $$ > {mark}; sleep 600 & setsid sleep 600 & wait"
    run = shared.launch(["sh", "-c", script])
    pid = int(until(lambda: mark.read_text().strip() if mark.exists() else None))
    run.stop()
    assert run.wait(30) is RunState.STOPPED
    assert "stopped by" in run.why().summary
    assert not Path(f"/proc/{pid}").exists()
    assert _processes_with(f"MUSTER_RUN_ID={run.id}") == []


def test_a_waiting_run_is_stopped_at_once(shared: Installation) -> None:
    client = shared.client()
    client.pause_queue("local")
    try:
        run = shared.launch("true")
        assert "paused" in run.why().summary
        run.stop()
        assert run.state is RunState.STOPPED
        assert run.model.attempt == 0
    finally:
        client.resume_queue("local")


def test_the_environment_of_a_run_is_what_was_promised(shared: Installation) -> None:
    run = shared.launch(
        "env", config={"lr": 0.1}, env={"COLOUR": "blue ${workdir}"}, name="named", project="p1"
    )
    assert run.wait(30) is RunState.SUCCEEDED
    env = dict(line.split("=", 1) for line in run.logs() if "=" in line)
    assert env["MUSTER_RUN_ID"] == run.id
    assert env["MUSTER_RUN_NAME"] == "named"
    assert env["MUSTER_PROJECT"] == "p1"
    assert env["MUSTER_QUEUE"] == "local"
    assert env["MUSTER_ATTEMPT"] == "1"
    assert env["MUSTER_CONFIG"] == '{"lr":0.1}'
    assert env["MUSTER_ENTITY"] == run.model.entity
    assert Path(env["MUSTER_OUTPUT_DIR"]).name == run.id
    assert env["COLOUR"] == "blue ${workdir}"


def test_a_run_may_ask_about_itself_and_nothing_else(shared: Installation, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(
        "import os, urllib.request, urllib.error\n"
        "def ask(path):\n"
        "    request = urllib.request.Request(os.environ['MUSTER_URL'] + '/api/v1' + path,\n"
        "        headers={'Authorization': 'Bearer ' + os.environ['MUSTER_API_KEY']})\n"
        "    try:\n"
        "        return urllib.request.urlopen(request).status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        return error.code\n"
        "mine, other = os.environ['MUSTER_RUN_ID'], os.environ['OTHER']\n"
        "print(ask('/runs/' + mine), ask('/runs'), ask('/runs/' + other))\n"
    )
    other = shared.launch("true")
    run = shared.launch("ask.py", path=tmp_path, env={"OTHER": other.id})
    assert run.wait(60) is RunState.SUCCEEDED
    assert list(run.logs()) == ["200 403 404"]


def test_all_members_start_and_know_their_place(shared: Installation) -> None:
    run = shared.launch(
        ["sh", "-c", "echo $RANK of $WORLD_SIZE, $LOCAL_RANK on $NODE_RANK"],
        training={"nodes": 2, "procs_per_node": 2, "launcher": "plain"},
        values={"cpus": 0.1},
    )
    assert run.wait(30) is RunState.SUCCEEDED
    lines = sorted(line.partition("] ")[2] for line in run.logs())
    assert lines == ["0 of 4, 0 on 0", "1 of 4, 1 on 0", "2 of 4, 0 on 1", "3 of 4, 1 on 1"]
    replicas = shared.client().list_replicas(run.id).items
    assert [(replica.rank, replica.state, replica.exit_code) for replica in replicas] == [
        (0, "succeeded", 0),
        (1, "succeeded", 0),
    ]


def test_a_failed_member_ends_the_gang_and_is_the_cause(shared: Installation) -> None:
    script = 'if [ "$RANK" = 1 ]; then echo I broke; exit 7; fi; sleep 600'
    run = shared.launch(
        ["sh", "-c", script],
        training={"nodes": 2, "procs_per_node": 1, "launcher": "plain"},
        values={"cpus": 0.1},
    )
    assert run.wait(60) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert (failure.rank, failure.exit_code) == (1, 7)
    first, second = shared.client().list_replicas(run.id).items
    assert (first.state, second.state) == ("stopped", "failed")
    assert "rank 1" in first.reason


def test_gpus_are_whole_and_never_shared_and_a_wait_names_who_holds_them(shared: Installation) -> None:
    def one(name: str, gpus: int) -> Run:
        script = "echo $CUDA_VISIBLE_DEVICES; sleep 600"
        return shared.launch(["sh", "-c", script], values={"gpus": gpus, "cpus": 0}, name=name)

    holders = [one("first", 2), one("second", 1), one("third", 1)]
    for run in holders:
        until(lambda run=run: run.state is RunState.RUNNING)  # type: ignore[misc]
    waiting = one("fourth", 2)
    granted = [until(lambda run=run: text_of(run).strip()) for run in holders]  # type: ignore[misc]
    devices = [device for line in granted for device in line.split(",")]
    assert len(devices) == len(set(devices)) == 4
    until(lambda: waiting.why().holding)
    why = waiting.why()
    assert "2 GPUs" in why.summary
    assert {run.name for run in why.holding} >= {"first"}
    assert why.place == 1
    holders[0].stop()
    until(lambda: waiting.state is RunState.RUNNING)
    for run in (*holders, waiting):
        run.stop()
        run.wait(30)


@pytest.mark.parametrize(
    ("values", "error", "word"),
    [
        ({"gpus": 5}, BadVariable, "maximum of 4"),
        ({"memory": "lots"}, BadVariable, "memory"),
        ({"colour": "red"}, BadVariable, "colour"),
    ],
)
def test_a_value_that_breaks_the_rules_is_refused_at_launch(
    shared: Installation, values: dict[str, object], error: type[Exception], word: str
) -> None:
    before = len(shared.client().list_runs(limit=1000).items)
    with pytest.raises(error, match=word):
        shared.launch("true", values=values)
    assert len(shared.client().list_runs(limit=1000).items) == before


def test_more_than_the_machine_has_in_all_is_refused_at_launch(shared: Installation) -> None:
    with pytest.raises(ImpossibleRequest, match="6 GPUs"):
        shared.launch("true", values={"gpus": 3}, training={"nodes": 2})


def test_an_unknown_queue_and_a_missing_script_are_refused(shared: Installation, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Did you mean 'local'"):
        shared.launch("true", queue="locl")
    (tmp_path / "train.py").write_text("print(1)\n")
    with pytest.raises(BadCommand, match=r"Did you mean 'train\.py'"):
        shared.launch("tran.py", path=tmp_path)


def test_unchanged_code_is_not_uploaded_again_and_runs_do_not_share_files(
    shared: Installation, tmp_path: Path
) -> None:
    (tmp_path / "count.py").write_text(
        "from pathlib import Path\n"
        "mark = Path('mark')\n"
        "print('seen' if mark.exists() else 'fresh')\n"
        "mark.touch()\n"
    )
    first = shared.launch("count.py", path=tmp_path)
    second = shared.launch("count.py", path=tmp_path)
    assert first.model.snapshot == second.model.snapshot
    assert [first.wait(60), second.wait(60)] == [RunState.SUCCEEDED] * 2
    assert list(first.logs()) == list(second.logs()) == ["fresh"]


def test_requirements_become_an_environment_that_is_reused(shared: Installation, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("six==1.16.0\n")
    (tmp_path / "show.py").write_text("import six\nprint(six.__version__)\n")
    first = shared.launch("show.py", path=tmp_path)
    assert first.wait(120) is RunState.SUCCEEDED
    assert list(first.logs()) == ["1.16.0"]
    notes = [event.data["message"] for event in first.events() if event.type == "note"]
    assert any("Installed" in note for note in notes), notes
    second = shared.launch("show.py", path=tmp_path)
    assert second.wait(60) is RunState.SUCCEEDED
    assert not any("Installed" in event.data.get("message", "") for event in second.events())


def test_a_requirement_that_does_not_exist_fails_the_run_with_the_tools_words(
    shared: Installation, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("six==99.99\n")
    (tmp_path / "show.py").write_text("import six\n")
    run = shared.launch("show.py", path=tmp_path)
    assert run.wait(120) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert failure.kind == "environment_failed"
    assert "six" in failure.summary


def _processes_with(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_lines_with_odd_separators_are_followed_as_they_were_printed(shared: Installation) -> None:
    run = shared.launch(["printf", r"a\342\200\250b\302\205c\013d\nlast\n"])
    assert list(run.logs(follow=True)) == ["a\u2028b\x85c\x0bd", "last"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second account to try it with")
@pytest.mark.parametrize("trick", ["plain", "forwarded", "closed"])
def test_another_account_of_the_machine_is_not_signed_in(shared: Installation, trick: str) -> None:
    """Not by asking, not by naming somebody else's connection, not by closing before the look."""
    before = len(shared.client().list_runs(limit=1000).items)
    script = (
        "import encodings.idna, os, socket, sys\n"
        "os.setuid(65534)\n"
        'body = b\'{"command": ["true"], "queue": "local"}\'\n'
        f"port, other, trick = {shared.port}, int(sys.argv[1]), sys.argv[2]\n"
        "line = socket.create_connection(('127.0.0.1', port))\n"
        "extra = f'X-Forwarded-For: 127.0.0.1:{other}\\r\\n' if trick == 'forwarded' else ''\n"
        "head = (f'POST /api/v1/launches HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n{extra}'\n"
        "    f'Content-Type: application/json\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n')\n"
        "line.sendall(head.encode() + body)\n"
        "if trick == 'closed':\n"
        "    line.close()\n"
        "else:\n"
        "    print(line.recv(100).split(b' ')[1].decode())\n"
    )
    friend = socket.create_connection(("127.0.0.1", shared.port))
    with friend:
        words = [sys.executable, "-c", script, str(friend.getsockname()[1]), trick]
        said = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout.strip()
    assert said == ("" if trick == "closed" else "401")
    shared.client().get_me()  # whatever was sent before has been seen by now
    assert len(shared.client().list_runs(limit=1000).items) == before
