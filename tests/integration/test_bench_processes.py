"""The benchmarks leave no process behind, and see when one has started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness import CannotMeasure
from bench.knock import Knocker
from bench.processes import Processes, until

# Leaves its parent and its session, ignores what asks it to end, and then tells its process id.
_DAEMON = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""


def _alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_daemon_that_left_its_parent_is_ended_too(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with Processes(tmp_path / "logs") as processes:
        processes.spawn("daemon", [sys.executable, "-c", _DAEMON, told])
        until(lambda: told.exists() and told.stat().st_size, seconds=20, what="the daemon")
        pid = int(told.read_text())
        assert _alive(pid)
    assert not _alive(pid)


def test_one_that_ends_before_it_is_ready_is_told_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        process = processes.spawn("broken", ["sh", "-c", "echo no such thing; exit 3"])
        with pytest.raises(CannotMeasure, match="no such thing"):
            processes.wait_for_words("broken", process, "ready")


def test_a_process_is_heard_when_it_starts(tmp_path: Path) -> None:
    with Knocker(tmp_path) as knocker:
        subprocess.run(knocker.command, check=True)
        knocker.wait(seconds=5)
        with pytest.raises(CannotMeasure):
            knocker.wait(seconds=0.01)
    assert os.listdir(tmp_path) == []
