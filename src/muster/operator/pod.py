"""A pod of a job as far as the operator is concerned: read once, and nothing else of it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.operator.spec import trainer_of

OWNER_LABEL = "tensorstack.dev/owner-name"
TYPE_LABEL = "tensorstack.dev/replica-type"
INDEX_LABEL = "tensorstack.dev/replica-index"
LIFE_LABEL = "muster.dev/replica-life"

SUCCEEDED, FAILED, RUNNING, PENDING = "Succeeded", "Failed", "Running", "Pending"


@dataclass(frozen=True, kw_only=True)
class ContainerState:
    name: str
    state: str  #: Waiting, Running or Terminated
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicaPod:
    uid: str
    name: str
    type: str
    index: int
    life: int  #: grows with every pod that stands in for another in this place
    phase: str = PENDING
    reason: str = ""  #: such as Evicted
    deleting: bool = False
    disrupted: bool = False  #: the cluster took it away, its program is not to blame
    containers: tuple[ContainerState, ...] = ()
    trainer: int = 0  #: which of them trains

    @property
    def over(self) -> bool:
        """Nothing of it runs any more."""
        return self.phase in (SUCCEEDED, FAILED)

    @property
    def exit_code(self) -> int | None:
        """Of the training; None while it runs, and where nobody knows."""
        return self.containers[self.trainer].exit_code if self.trainer < len(self.containers) else None

    @property
    def outcome(self) -> str | None:
        """Succeeded or Failed, once it has ended. Where others stand beside it, the training alone counts:
        a proxy that never ends does not keep a job from ending."""
        if self.over:
            return self.phase
        if len(self.containers) > 1 and self.exit_code is not None:
            return SUCCEEDED if self.exit_code == 0 else FAILED
        return None


def owner_of(item: Mapping[str, Any]) -> str | None:
    """The uid of the job whose object this is."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == "PyTorchTrainingJob":
            return str(owner["uid"])
    return None


def read_pod(item: Mapping[str, Any]) -> ReplicaPod | None:
    """None where the labels are not ours, or were changed into something else."""
    metadata, status = item["metadata"], item.get("status") or {}
    labels = metadata.get("labels") or {}
    numbers = [labels.get(name, "") for name in (INDEX_LABEL, LIFE_LABEL)]
    if TYPE_LABEL not in labels or not all(number.isdecimal() for number in numbers):
        return None
    containers = (item.get("spec") or {}).get("containers") or ()
    return ReplicaPod(
        uid=metadata["uid"],
        name=metadata["name"],
        type=labels[TYPE_LABEL],
        index=int(numbers[0]),
        life=int(numbers[1]),
        phase=status.get("phase", PENDING),
        reason=status.get("reason", ""),
        deleting="deletionTimestamp" in metadata,
        disrupted=_is_disrupted(status),
        containers=_containers(containers, status),
        trainer=trainer_of(containers),
    )


def _is_disrupted(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(one["type"] == "DisruptionTarget" and one["status"] == "True" for one in conditions)


def _containers(specs: Sequence[Mapping[str, Any]], status: Mapping[str, Any]) -> tuple[ContainerState, ...]:
    """In the order of the spec, whether the kubelet has spoken of them or not."""
    told = {one["name"]: one.get("state") or {} for one in status.get("containerStatuses") or ()}
    return tuple(_state(spec["name"], told.get(spec["name"], {})) for spec in specs)


def _state(name: str, state: Mapping[str, Any]) -> ContainerState:
    ended = state.get("terminated")
    if ended is not None:
        return ContainerState(name=name, state="Terminated", exit_code=ended.get("exitCode", 0))
    return ContainerState(name=name, state="Running" if "running" in state else "Waiting")
