"""Real PyTorch, two nodes of two processes, through the whole of Muster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from installation import Installation, until
from muster.domain.run import RunState

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parents[3]
DDP = ROOT / "examples" / "ddp"
SHAPE = {"nodes": 2, "procs_per_node": 2}
SMALL = {"cpus": 0.5}


def copy_of_ddp(folder: Path, script: str) -> Path:
    """The example's requirements with another script: the same prepared environment serves it."""
    folder.mkdir()
    (folder / "requirements.txt").write_bytes((DDP / "requirements.txt").read_bytes())
    (folder / "train.py").write_text(script)
    return folder


def test_a_two_node_training_runs_to_success_and_its_loss_falls(shared: Installation) -> None:
    done = shared.muster(
        *("launch", str(DDP), "-q", "local", "--nodes", "2", "--procs-per-node", "2", "--cpus", "0.5"),
        *("--follow", "--", "train.py", "--epochs", "3"),
    )
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]
    (run,) = shared.client().list_runs().items
    result = json.loads((shared.data / "agent" / "outputs" / run.id / "result.json").read_text())
    assert result["world_size"] == 4


def test_the_rank_that_raised_first_is_the_cause(shared: Installation, tmp_path: Path) -> None:
    script = (
        "import os, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if dist.get_rank() == 3:\n"
        "    raise ValueError('no such learning rate')\n"
        "dist.barrier()\n"
    )
    run = shared.launch("train.py", path=copy_of_ddp(tmp_path / "code", script), training=SHAPE, values=SMALL)
    assert run.wait(180) is RunState.FAILED
    failure = run.why().failure
    assert failure is not None
    assert (failure.kind, failure.rank) == ("user_exception", 3)
    assert "ValueError: no such learning rate" in failure.summary
    assert "Traceback" in failure.evidence


def test_torchrun_restarts_all_members_inside_the_attempt(shared: Installation, tmp_path: Path) -> None:
    mark = tmp_path / "failed-once"
    script = (
        "import os, sys, pathlib, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "if dist.get_rank() == 1 and not mark.exists():\n"
        "    mark.touch()\n"
        "    sys.exit(9)\n"
        "one = torch.ones(1)\n"
        "dist.all_reduce(one)\n"
        "os.write(1, f'sum {int(one.item())}\\n'.encode())  # at once: ranks share a log\n"
        "dist.destroy_process_group()\n"
    )
    run = shared.launch(
        "train.py",
        path=copy_of_ddp(tmp_path / "code", script),
        training={**SHAPE, "max_restarts": 2},
        values=SMALL,
    )
    assert run.wait(240) is RunState.SUCCEEDED, run.why()
    assert run.model.attempt == 1
    # Nodes notice each other's restarts at different times, so a round may be run more than once.
    assert {line.partition("] ")[2] for line in run.logs() if "sum" in line} == {"sum 4"}


def test_stopping_a_training_leaves_no_process(shared: Installation, tmp_path: Path) -> None:
    script = (
        "import os, time, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "os.write(1, b'here\\n')  # at once: ranks share a log\n"
        "time.sleep(600)\n"
    )
    run = shared.launch("train.py", path=copy_of_ddp(tmp_path / "code", script), training=SHAPE, values=SMALL)
    until(lambda: sum("here" in line for line in run.logs()) == 4, seconds=120)
    run.stop()
    assert run.wait(60) is RunState.STOPPED
    marker = f"MUSTER_RUN_ID={run.id}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert marker not in entry.read_bytes().split(b"\0")
        except OSError:
            continue


def test_the_demo_runs_and_ends_with_the_runs_verdict(tmp_path: Path) -> None:
    """`make demo` where no terminal is attached."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    demo = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py"), "--data-dir", str(tmp_path / "demo")],
        env={**env, "MUSTER_LOCK_DIR": str(tmp_path / "locks")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert demo.returncode == 0, demo.stderr
    assert "epoch 3/3" in demo.stdout
    assert "The training succeeded. Muster is at http://127.0.0.1:" in demo.stdout


def test_the_demo_can_be_interrupted(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    # A shell that runs the tests in the background has SIGINT ignored, and what it starts inherits that.
    words = ["env", "--default-signal=INT", sys.executable, str(ROOT / "scripts" / "demo.py")]
    demo = subprocess.Popen(
        [*words, "--data-dir", str(tmp_path / "demo")],
        env={**env, "MUSTER_LOCK_DIR": str(tmp_path / "locks")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("$ muster launch"):
                break
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    assert demo.returncode == 130
