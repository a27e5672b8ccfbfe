"""The launcher every replica of a training run starts with, and the variables that steer it.

The script itself is `launcher.sh` beside this file; what it reads and does is said at its top.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from muster.domain.training import Training


def launcher_path() -> Path:
    """Where the script is on this machine."""
    return Path(__file__).with_name("launcher.sh")


def launcher_text() -> str:
    """The script itself, for engines that carry it elsewhere (a ConfigMap, a batch script)."""
    return resources.files("muster.engine").joinpath("launcher.sh").read_text("utf-8")


def launcher_env(
    training: Training, *, command: Sequence[str], gpus_per_node: int, python: str | None = None
) -> dict[str, str]:
    """What the launcher needs to know that is the same on every node.

    The engine adds what only it knows, by these names or by its own that the launcher maps:
    NODE_RANK, MASTER_ADDR, MASTER_PORT; and, if it wants them, MUSTER_RUN_ID, MUSTER_ATTEMPT
    (the rendezvous id), MUSTER_ERROR_DIR (where the root cause is left) and MUSTER_STOP.
    """
    env = {
        "MUSTER_LAUNCHER": training.launcher_for(command).value,
        "MUSTER_MAX_RESTARTS": str(training.max_restarts),
        "MUSTER_RDZV_TIMEOUT": str(training.rdzv_timeout),
        "NNODES": str(training.nodes),
        "NPROC_PER_NODE": str(training.processes(gpus_per_node=gpus_per_node)),
    }
    if python is not None:
        env["MUSTER_PYTHON"] = python
    return env
