"""The command of a replica that torchrun starts.

Underscores in options: every torchrun reads them. What the job adds comes last, and so has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.kubernetes.pods import asked_by
from muster.operator.job import TrainingJob
from muster.operator.spec import Slot, Torchrun

_MEETING = "$(MASTER_ADDR):$(MASTER_PORT)"


def command(job: TrainingJob, slot: Slot, config: Torchrun, container: Mapping[str, Any]) -> list[str]:
    options = {
        "nnodes": str(job.spec.size),
        "nproc_per_node": _processes(config, container),
        "max_restarts": str(config.max_restarts),
    }
    if config.backend == "static":
        options |= {
            "node_rank": str(slot.rank),
            "master_addr": "$(MASTER_ADDR)",
            "master_port": "$(MASTER_PORT)",
        }
    else:
        # A run after a pause meets anew: what is left of the one before may still be knocking.
        options |= {
            "rdzv_backend": config.backend,
            "rdzv_id": f"{job.uid}-{job.status.pauses}",
            "rdzv_endpoint": _MEETING,
        }
    if config.backend == "c10d":  # else torchrun guesses from host names who is to open the port
        options["rdzv_conf"] = f"is_host={int(slot.rank == 0)}"
    return ["torchrun", *(f"--{name}={value}" for name, value in options.items()), *config.extra]


def _processes(config: Torchrun, container: Mapping[str, Any]) -> str:
    """`gpu`: as many as it asks for; where it asks for none by that name, torchrun counts what it sees."""
    gpus = asked_by(container).gpus if config.processes == "gpu" else 0
    return str(gpus) if gpus else config.processes
