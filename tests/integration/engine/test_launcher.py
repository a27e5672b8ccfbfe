"""The launcher script, in every shell there is here: places, processes, failures, signals, torchrun."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from muster.domain.training import Training
from muster.engine.launcher import launcher_env, launcher_path, launcher_text

SHELLS = [shell for shell in (("dash",), ("bash", "--posix"), ("busybox", "sh")) if shutil.which(shell[0])]
PLACE = "$NODE_RANK/$NNODES $NPROC_PER_NODE $MASTER_ADDR:$MASTER_PORT"
DEADLINE = 20.0


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


def environ(env: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **env}


def launch(shell: tuple[str, ...], *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, str(launcher_path()), *command],
        env=environ(env),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )


def test_the_text_is_the_script() -> None:
    assert launcher_text() == launcher_path().read_text()


def test_the_same_on_every_node_is_said_once() -> None:
    training = Training(nodes=2, procs_per_node="gpu", max_restarts=3, rdzv_timeout=60)
    assert launcher_env(training, command=("train.py",), gpus_per_node=8, python="/opt/python") == {
        "MUSTER_LAUNCHER": "torchrun",
        "MUSTER_MAX_RESTARTS": "3",
        "MUSTER_RDZV_TIMEOUT": "60",
        "MUSTER_PYTHON": "/opt/python",
        "NNODES": "2",
        "NPROC_PER_NODE": "8",
    }


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({}, "0/1 1 127.0.0.1:29500"),
        (
            {"NODE_RANK": "1", "NNODES": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "9"},
            "1/2 1 10.0.0.1:9",
        ),
        ({"JOB_COMPLETION_INDEX": "2", "NNODES": "3", "MASTER_ADDR": "10.0.0.1"}, "2/3 1 10.0.0.1:29500"),
        (
            {"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_MASTER_ADDR": "10.0.0.1", "PET_MASTER_PORT": "99"},
            "1/2 1 10.0.0.1:99",
        ),
        ({"VC_TASK_INDEX": "1", "NNODES": "2", "MASTER_ADDR": "10.0.0.1"}, "1/2 1 10.0.0.1:29500"),
        ({"SLURM_NODEID": "3", "SLURM_NNODES": "4", "MASTER_ADDR": "10.0.0.1"}, "3/4 1 10.0.0.1:29500"),
        ({"NODE_RANK": "0", "JOB_COMPLETION_INDEX": "5", "SLURM_NODEID": "7"}, "0/1 1 127.0.0.1:29500"),
    ],
)
def test_the_engines_variables_become_a_place(
    shell: tuple[str, ...], env: dict[str, str], place: str
) -> None:
    done = launch(shell, "sh", "-c", f'echo "{PLACE}"; env', **env)
    assert done.stdout.splitlines()[0] == place
    assert "PET_" not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"NNODES": "two"}, "NNODES=two is not a number"),
        ({"NNODES": "1:4"}, "NNODES=1:4 is not a number"),
        ({"NPROC_PER_NODE": "0"}, "NPROC_PER_NODE=0 is below 1"),
        ({"NODE_RANK": "2", "NNODES": "2", "MASTER_ADDR": "10.0.0.1"}, "NODE_RANK=2, but there are 2 nodes"),
        ({"NNODES": "2"}, "MASTER_ADDR is not set"),
        ({"MUSTER_LAUNCHER": "mpi"}, "MUSTER_LAUNCHER=mpi"),
    ],
)
def test_a_bad_setting_is_named(shell: tuple[str, ...], env: dict[str, str], says: str) -> None:
    done = launch(shell, "true", **env)
    assert done.returncode == 2
    assert says in done.stderr


def test_one_process_takes_the_launchers_place(shell: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*shell, str(launcher_path()), "sh", "-c", "echo $$ $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"],
        env=environ({"NODE_RANK": "1", "NNODES": "3", "MASTER_ADDR": "10.0.0.1"}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read().split() == [str(process.pid), "1", "0", "3", "1"]


def test_every_process_gets_its_rank_and_its_words(shell: tuple[str, ...]) -> None:
    done = launch(
        shell,
        "sh",
        "-c",
        'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $1|$2"',
        "sh",
        "a b",
        "*",
        NODE_RANK="1",
        NNODES="2",
        NPROC_PER_NODE="3",
        MASTER_ADDR="10.0.0.1",
    )
    assert sorted(done.stdout.splitlines()) == [f"{rank} {rank - 3} 6 3 a b|*" for rank in (3, 4, 5)]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("failure", "status"), [("exit 7", 7), ("kill -SEGV $$", 139), ("exec no-such-program", 127)]
)
def test_the_first_to_fail_ends_the_others_and_is_named(
    shell: tuple[str, ...], failure: str, status: int
) -> None:
    script = f'if [ "$LOCAL_RANK" = 1 ]; then {failure}; fi; exec sleep 60'
    began = time.monotonic()
    done = launch(
        shell, "sh", "-c", script, NODE_RANK="1", NNODES="2", NPROC_PER_NODE="3", MASTER_ADDR="10.0.0.1"
    )
    assert done.returncode == status
    assert re.findall("^muster: .*$", done.stderr, re.MULTILINE) == [
        f"muster: rank 4 (local 1) exited with {status}"
    ]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("to_group", [False, True], ids=["told alone", "told with its group"])
def test_being_stopped_every_process_is_asked_once(shell: tuple[str, ...], to_group: bool) -> None:
    script = 'trap "echo asked $RANK; exit 5" TERM; echo up; while :; do sleep 0.02; done'
    env = {"NPROC_PER_NODE": "3", **({"MUSTER_STOP": "group"} if to_group else {})}
    with subprocess.Popen(
        [*shell, str(launcher_path()), "sh", "-c", script],
        env=environ(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["up\n"] * 3
        if to_group:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        assert sorted(process.stdout.read().splitlines()) == ["asked 0", "asked 1", "asked 2"]
        assert process.wait(DEADLINE) == 143


def test_a_script_runs_with_the_python_that_is_there(shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python3", "other"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    path = str(tmp_path / "bin")
    binary = shutil.which(shell[0])
    assert binary is not None
    absolute = (binary, *shell[1:])
    assert launch(absolute, "a.py", "x", PATH=path).stdout == "python3 a.py x\n"
    assert launch(absolute, "a.py", PATH=path, MUSTER_PYTHON="other").stdout == "other a.py\n"
    missing = launch(absolute, "a.py", PATH=path, MUSTER_PYTHON="missing")
    assert (missing.returncode, missing.stderr) == (127, "muster: missing is not in this run's environment\n")


def test_without_torch_it_is_said_what_to_do(shell: tuple[str, ...], tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 1\necho "$@"\n')
    python.chmod(0o755)
    done = launch(shell, "a.py", MUSTER_LAUNCHER="torchrun", MUSTER_PYTHON=str(python))
    assert done.returncode == 127
    assert done.stderr == (
        "muster: torch is not installed in this run's environment: "
        "add it to requirements.txt, or use launcher: plain\n"
    )


MEET = "--rdzv-id=r1-2"
STATIC = (
    "--rdzv-backend=static --node-rank=1 --master-addr=10.0.0.1 --master-port=29500 --rdzv-conf=timeout=60"
)
C10D = (
    "--rdzv-backend=c10d --rdzv-endpoint=10.0.0.1:29500 --rdzv-conf=is_host=0,join_timeout=60,read_timeout=60"
)


@pytest.mark.parametrize(
    ("command", "env", "flags"),
    [
        (("a.py", "x"), {}, f"{MEET} --max-restarts=0 {STATIC} a.py x"),
        (("a.py",), {"MUSTER_MAX_RESTARTS": "3"}, f"{MEET} --max-restarts=3 {C10D} a.py"),
        (
            ("a.py",),
            {"MUSTER_MAX_RESTARTS": "3", "POD_IP": "10.0.0.7"},
            f"{MEET} --max-restarts=3 {C10D} --local-addr=10.0.0.7 a.py",
        ),
        (("python", "a.py"), {}, f"{MEET} --max-restarts=0 {STATIC} a.py"),
        (("-m", "pkg.train"), {}, f"{MEET} --max-restarts=0 {STATIC} -m pkg.train"),
        (("./train", "-v"), {}, f"{MEET} --max-restarts=0 {STATIC} --no-python ./train -v"),
        (
            ("a.py",),
            {"MUSTER_ERROR_DIR": "/errors"},
            f"{MEET} --max-restarts=0 --log-dir=/errors/torchrun {STATIC} a.py",
        ),
    ],
)
def test_torchrun_gets_every_flag_explicitly(
    shell: tuple[str, ...], tmp_path: Path, command: tuple[str, ...], env: dict[str, str], flags: str
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "$@"\n')
    python.chmod(0o755)
    place = {"NODE_RANK": "1", "NNODES": "2", "NPROC_PER_NODE": "4", "MASTER_ADDR": "10.0.0.1"}
    run = {"MUSTER_RUN_ID": "r1", "MUSTER_ATTEMPT": "2", "MUSTER_RDZV_TIMEOUT": "60"}
    done = launch(
        shell, *command, MUSTER_LAUNCHER="torchrun", MUSTER_PYTHON=str(python), **place, **run, **env
    )
    assert done.stdout == f"-m torch.distributed.run --nnodes=2 --nproc-per-node=4 {flags}\n"


ERROR = {"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "é\n" * 5000 + "boom"}}}
FAILING = """#!/bin/sh
case $1 in
  -c) case $2 in *find_spec*) exit 0 ;; *) exec {python} "$@" ;; esac ;;
esac
{work}
"""


def torchrun(tmp_path: Path, work: str) -> dict[str, str]:
    """The environment of a launcher whose torchrun does this work."""
    python = tmp_path / "python"
    python.write_text(FAILING.format(python=sys.executable, work=work))
    python.chmod(0o755)
    log = tmp_path / "termination-log"
    log.touch()
    return {
        "MUSTER_LAUNCHER": "torchrun",
        "MUSTER_PYTHON": str(python),
        "MUSTER_ERROR_DIR": str(tmp_path),
        "MUSTER_TERMINATION_LOG": str(log),
    }


@pytest.mark.parametrize("status", [0, 7])
def test_what_fits_of_the_root_cause_is_left_where_a_cluster_looks_for_it(
    shell: tuple[str, ...], tmp_path: Path, status: int
) -> None:
    (tmp_path / "cause").write_text(json.dumps(ERROR))
    work = f'cp {tmp_path}/cause "$TORCHELASTIC_ERROR_FILE"; echo out; exit {status}'
    done = launch(shell, "a.py", **torchrun(tmp_path, work))
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\n", "")
    told = (tmp_path / "termination-log").read_text()
    if status == 0:
        assert told == ""
        return
    assert 3000 < len(told) <= 4096
    assert json.loads(told)["message"]["extraInfo"]["py_callstack"].endswith("é\nboom")


def test_a_torchrun_that_is_waited_for_is_stopped_with_its_launcher(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    work = 'trap "echo asked; exit 5" TERM; echo up; while :; do sleep 0.02; done'
    with subprocess.Popen(
        [*shell, str(launcher_path()), "a.py"],
        env=environ(torchrun(tmp_path, work)),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.stdout.read() == "asked\n"
        assert process.wait(DEADLINE) == 5


def tools(tmp_path: Path, **scripts: str) -> str:
    """A PATH of these alone, and `sleep`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    for name in ("sleep", "cat", "echo"):
        (folder / name).symlink_to(shutil.which(name) or "")
    return str(folder)


LOOK_UPS = {
    "getent": 'echo x >>{seen}; [ "$(cat {seen})" = "x\nx" ]',
    "ping": 'echo x >>{seen}; [ "$(cat {seen})" = "x\nx" ] || echo "ping: bad address \'$5\'" >&2; exit 1',
}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell[0] != "busybox"])  # has its own ping
@pytest.mark.parametrize("tool", [*LOOK_UPS, None])
def test_the_name_of_rank_0_is_waited_for_with_what_the_image_has(
    shell: tuple[str, ...], tmp_path: Path, tool: str | None
) -> None:
    seen = tmp_path / "seen"
    scripts = {tool: LOOK_UPS[tool].format(seen=seen).replace("\\n", "\n")} if tool else {}
    binary = shutil.which(shell[0])
    assert binary is not None
    place = {"NODE_RANK": "1", "NNODES": "2", "MASTER_ADDR": "job-0.nodes"}
    done = launch((binary, *shell[1:]), "echo", "met", PATH=tools(tmp_path, **scripts), **place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "met\n", "")
    assert not tool or seen.read_text() == "x\nx\n"


@pytest.mark.skipif(not shutil.which("busybox"), reason="There is no busybox here.")
@pytest.mark.parametrize(("name", "status"), [(socket.gethostname(), 0), ("job-0.invalid", 1)])
def test_busybox_looks_names_up_with_its_ping(tmp_path: Path, name: str, status: int) -> None:
    place = {"NODE_RANK": "1", "NNODES": "2", "MASTER_ADDR": name, "MUSTER_RDZV_TIMEOUT": "1"}
    busybox = shutil.which("busybox") or ""
    assert launch((busybox, "sh"), "true", PATH=tools(tmp_path), **place).returncode == status


def test_a_name_that_never_comes_is_told_in_time(shell: tuple[str, ...], tmp_path: Path) -> None:
    binary = shutil.which(shell[0])
    assert binary is not None
    place = {"NODE_RANK": "1", "NNODES": "2", "MASTER_ADDR": "job-0.nodes", "MUSTER_RDZV_TIMEOUT": "1"}
    done = launch((binary, *shell[1:]), "true", PATH=tools(tmp_path, getent="exit 2"), **place)
    assert done.returncode == 1
    assert "the name of rank 0, job-0.nodes, cannot be looked up after 1 seconds" in done.stderr


# with PyTorch itself

SCRIPT = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
place = f"{dist.get_rank()} {os.environ['NODE_RANK_SEEN']} {int(total.item())} {restart}"
os.write(1, f"{place}\\n".encode())  # at once: two ranks share this log
if "fail" in sys.argv and dist.get_rank() == 1 and restart == 0:
    time.sleep(1)  # lets gloo's thread let go of the tensor: a process that ends before that may abort
    raise ValueError("boom")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def torch_python() -> str:
    python = os.environ.get("MUSTER_TEST_TORCH_PYTHON")
    assert python, "Set MUSTER_TEST_TORCH_PYTHON to a Python that has PyTorch."
    return python


def train(tmp_path: Path, python: str, *words: str, nodes: int, restarts: int = 0) -> tuple[list[int], str]:
    """Run the script on nodes of one process each; their statuses and all they said."""
    (tmp_path / "train.py").write_text(SCRIPT)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    members = []
    for node in range(nodes):
        errors = tmp_path / f"errors{node}"
        errors.mkdir()
        env = environ(
            {
                "NODE_RANK": str(node),
                "NODE_RANK_SEEN": str(node),
                "NNODES": str(nodes),
                "NPROC_PER_NODE": "2" if nodes == 1 else "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "MUSTER_LAUNCHER": "torchrun",
                "MUSTER_PYTHON": python,
                "MUSTER_MAX_RESTARTS": str(restarts),
                "MUSTER_RDZV_TIMEOUT": "120",
                "MUSTER_ERROR_DIR": str(errors),
                "OMP_NUM_THREADS": "1",
                "HOME": os.environ.get("HOME", "/"),
            }
        )
        log = (tmp_path / f"log{node}").open("wb")
        command = ["sh", str(launcher_path()), "train.py", *words]
        members.append(subprocess.Popen(command, env=env, cwd=tmp_path, stdout=log, stderr=log))
        log.close()
    statuses = [member.wait(180) for member in members]
    return statuses, "".join((tmp_path / f"log{node}").read_text() for node in range(nodes))


def places(said: str) -> list[str]:
    return sorted(re.findall(r"^\d+ \d+ \d+ \d+$", said, re.MULTILINE))


@pytest.mark.torch
@pytest.mark.slow
def test_nodes_meet_and_ranks_follow_nodes(tmp_path: Path, torch_python: str) -> None:
    statuses, said = train(tmp_path, torch_python, nodes=2)
    assert statuses == [0, 0], said
    assert places(said) == ["0 0 2 0", "1 1 2 0"]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_failed_workers_are_restarted_on_all_nodes(tmp_path: Path, torch_python: str, nodes: int) -> None:
    statuses, said = train(tmp_path, torch_python, "fail", nodes=nodes, restarts=1)
    assert statuses == [0] * nodes, said
    met = [place.split() for place in places(said)]
    assert sorted(rank for rank, _, total, _ in met if total == "2") == ["0", "0", "1", "1"]


@pytest.mark.torch
@pytest.mark.slow
def test_the_root_cause_is_in_the_log(tmp_path: Path, torch_python: str) -> None:
    statuses, said = train(tmp_path, torch_python, "fail", nodes=1)
    assert statuses == [1]
    assert "ValueError: boom" in said
    cause = said[said.index("Root Cause (first observed failure):") :]
    assert re.search(r"rank +: 1 \(local_rank: 1\)", cause)
    assert re.search(r"exitcode +: 1 ", cause)


RECORDED = """
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("boom")

main()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_recorded_root_cause_is_in_the_termination_log(tmp_path: Path, torch_python: str) -> None:
    (tmp_path / "train.py").write_text(RECORDED)
    log = tmp_path / "termination-log"
    log.touch()
    env = {
        "NPROC_PER_NODE": "2",
        "MUSTER_LAUNCHER": "torchrun",
        "MUSTER_PYTHON": torch_python,
        "MUSTER_ERROR_DIR": str(tmp_path),
        "MUSTER_TERMINATION_LOG": str(log),
        "OMP_NUM_THREADS": "1",
    }
    command = ["sh", str(launcher_path()), str(tmp_path / "train.py")]
    done = subprocess.run(
        command, env=environ(env), cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 1, done.stderr
    stack = json.loads(log.read_text())["message"]["extraInfo"]["py_callstack"]
    assert stack.rstrip().endswith("ValueError: boom")
