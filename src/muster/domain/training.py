"""The portable shape of a distributed run: how many nodes, how many processes on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from muster.domain.errors import BadTraining, UnknownKey

MAX_NODES = 4096
MAX_PROCS = 1024


class Launcher(StrEnum):
    AUTO = "auto"  #: torchrun for a `.py` file, else plain
    TORCHRUN = "torchrun"
    PLAIN = "plain"  #: the command once per process, told its place by RANK and WORLD_SIZE


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a job says about its members; the same block for every engine."""

    nodes: int = 1
    procs_per_node: int | Literal["gpu"] = 1  #: "gpu": one process for each GPU of the node
    launcher: Launcher = Launcher.AUTO
    max_restarts: int = 0  #: torchrun's own, inside one attempt
    rdzv_timeout: int = 600  #: seconds to wait for all members to meet
    shm: str | None = None  #: size of /dev/shm where the engine can set it

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MAX_NODES:
            raise BadTraining(
                f"nodes={self.nodes} is not possible.",
                hint=f"Use 1 … {MAX_NODES}.",
                facts={"field": "training.nodes"},
            )
        if self.procs_per_node != "gpu" and not 1 <= self.procs_per_node <= MAX_PROCS:
            raise BadTraining(
                f"procs_per_node={self.procs_per_node} is not possible.",
                hint=f"Use 1 … {MAX_PROCS}, or `gpu` for one process a GPU.",
                facts={"field": "training.procs_per_node"},
            )
        if self.max_restarts < 0 or self.rdzv_timeout < 1:
            wrong = "max_restarts" if self.max_restarts < 0 else "rdzv_timeout"
            raise BadTraining(
                "max_restarts must be 0 or more and rdzv_timeout at least 1 second.",
                facts={"field": f"training.{wrong}"},
            )

    def processes(self, *, gpus_per_node: int) -> int:
        """How many processes one node starts."""
        if self.procs_per_node != "gpu":
            return self.procs_per_node
        if gpus_per_node < 1:
            raise BadTraining(
                "procs_per_node=gpu needs GPUs, and this run asks for none.",
                hint="Ask for some with --gpus N, or give --procs-per-node a number.",
                facts={"field": "training.procs_per_node"},
            )
        return gpus_per_node

    def launcher_for(self, command: Sequence[str]) -> Literal[Launcher.TORCHRUN, Launcher.PLAIN]:
        """Which launcher starts this command."""
        if self.launcher is Launcher.AUTO:
            is_script = bool(command) and command[0].endswith(".py")
            return Launcher.TORCHRUN if is_script else Launcher.PLAIN
        return Launcher.TORCHRUN if self.launcher is Launcher.TORCHRUN else Launcher.PLAIN


def checked_shape(data: object, *, where: str) -> Mapping[str, Any]:
    """The fields of a training that a file gives, if they make one. The others stay open: a launch may
    give them, and over these too."""
    if not isinstance(data, Mapping):
        raise BadTraining(
            f"{where} is not a mapping.", hint="Write `training: {nodes: 2, procs_per_node: 4}`."
        )
    known = [item.name for item in fields(Training)]
    for name, value in data.items():
        if name not in known:
            raise UnknownKey(str(name), where=where, known=known)
        is_text = isinstance(value, str)
        is_count = isinstance(value, int) and not isinstance(value, bool)
        allowed = {
            "launcher": (value in list(Launcher), f"one of {', '.join(Launcher)}"),
            "shm": (is_text, "a size, such as 8Gi"),
            "procs_per_node": (is_count or value == "gpu", "a whole number, or `gpu`"),
        }
        right, wanted = allowed.get(name, (is_count, "a whole number"))
        if not right:
            facts = {"field": f"training.{name}"}
            raise BadTraining(f"{where}: {name}={value!r} is not {wanted}.", hint="Change it.", facts=facts)
    Training(**data)
    return dict(data)
