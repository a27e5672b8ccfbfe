"""What a PyTorchTrainingJob asks for, read from its object; and what of it this operator does not do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

GROUP, VERSION, KIND, PLURAL = "batch.tensorstack.dev", "v1beta1", "PyTorchTrainingJob", "pytorchtrainingjobs"
API_VERSION = f"{GROUP}/{VERSION}"

#: Exit codes after which `ExitCode` starts a replica again: interrupted, killed, asked for, told to end.
RETRYABLE = frozenset({130, 137, 138, 143})
BACKOFF_LIMIT = 3
TRAINER = "python"  #: the name of the container that trains, where there is one of this name


class RestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class CleanUp(StrEnum):
    """What becomes of the pods of a job that has ended."""

    NONE = "None"
    ALL = "All"
    UNFINISHED = "Unfinished"


@dataclass(frozen=True, kw_only=True)
class Torchrun:
    max_restarts: int = 0
    processes: str = "1"  #: a number, or "gpu": as many as the replica has GPUs
    backend: str = "c10d"
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resume:
    """How replicas of one type are started after a pause, where that differs."""

    skip_inits: bool = False
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Volcano:
    queue: str = ""
    priority_class: str = ""
    min_available: int | None = None  #: None: all


@dataclass(frozen=True, kw_only=True)
class ReplicaSpec:
    type: str
    replicas: int
    policy: RestartPolicy
    template: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The place of one replica. Pods come and go in it, one at a time."""

    type: str
    index: int  #: among those of its type
    rank: int  #: among all
    policy: RestartPolicy

    def __str__(self) -> str:
        return f"{self.type}-{self.index}"


@dataclass(frozen=True, kw_only=True)
class Spec:
    replicas: tuple[ReplicaSpec, ...]
    torchrun: Torchrun | None = None  #: None: the template's own command is run
    deadline: int | None = None  #: seconds
    backoff_limit: int = BACKOFF_LIMIT
    clean_up: CleanUp = CleanUp.UNFINISHED
    paused: bool = False
    resume: Mapping[str, Resume] | None = None  #: by type
    volcano: Volcano | None = None
    refusals: tuple[str, ...] = ()  #: what is asked for and not done here

    @property
    def slots(self) -> tuple[Slot, ...]:
        """In the order of their ranks: the first is the master."""
        return tuple(self._slots())

    def _slots(self) -> Iterator[Slot]:
        rank = 0
        for spec in self.replicas:
            for index in range(spec.replicas):
                yield Slot(type=spec.type, index=index, rank=rank, policy=spec.policy)
                rank += 1

    @property
    def size(self) -> int:
        return sum(spec.replicas for spec in self.replicas)


def read_spec(spec: Mapping[str, Any]) -> Spec:
    policy = spec.get("runPolicy") or {}
    pause = _mode(spec, "pause")
    return Spec(
        replicas=tuple(_replica(item) for item in spec["replicaSpecs"]),
        torchrun=_torchrun(spec.get("torchrunConfig") or {}),
        deadline=policy.get("activeDeadlineSeconds"),
        backoff_limit=policy.get("backoffLimit", BACKOFF_LIMIT),
        clean_up=CleanUp(policy.get("cleanUpPolicy", CleanUp.UNFINISHED)),
        paused=pause.get("enabled", False),
        resume={item["type"]: _resume(item) for item in pause.get("resumeSpecs") or ()},
        volcano=_volcano((spec.get("scheduler") or {}).get("volcanoScheduler")),
        refusals=tuple(_refusals(spec)),
    )


def trainer_of(containers: Sequence[Mapping[str, Any]]) -> int:
    """Which container trains: the one with the agreed name, else the first."""
    return next((place for place, one in enumerate(containers) if one.get("name") == TRAINER), 0)


def _refusals(spec: Mapping[str, Any]) -> Iterator[str]:
    """The schema refuses the same when a job is made; this is for jobs that were there before it."""
    if _mode(spec, "debug").get("enabled"):
        yield "runMode.debug is not supported yet: leave it out, or set runMode.debug.enabled to false."
    if (spec.get("elastic") or {}).get("enabled"):
        yield "elastic is not supported yet: leave it out, or set elastic.enabled to false."
    if spec.get("tensorboardSpec") is not None:
        yield "tensorboardSpec is not supported yet: leave it out, and start a TensorBoard beside the job."
    if (spec.get("scheduler") or {}).get("t9kScheduler") is not None:
        yield (
            "scheduler.t9kScheduler is not there on this cluster: leave it out, "
            "or use scheduler.volcanoScheduler where Volcano is installed."
        )


def _mode(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (spec.get("runMode") or {}).get(name) or {}
    return found


def _replica(item: Mapping[str, Any]) -> ReplicaSpec:
    return ReplicaSpec(
        type=item["type"],
        replicas=item.get("replicas", 1),
        policy=RestartPolicy(item.get("restartPolicy", RestartPolicy.NEVER)),
        template=item["template"],
    )


def _torchrun(given: Mapping[str, Any]) -> Torchrun | None:
    if not given.get("enabled"):
        return None
    return Torchrun(
        max_restarts=given.get("maxRestarts", 0),
        processes=given.get("procPerNode", "1"),
        backend=given.get("rdzvBackend", "c10d"),
        extra=tuple(given.get("extraOptions") or ()),
    )


def _resume(item: Mapping[str, Any]) -> Resume:
    return Resume(
        skip_inits=item.get("skipInitContainer", False),
        command=tuple(item.get("command") or ()),
        args=tuple(item.get("args") or ()),
    )


def _volcano(given: Mapping[str, Any] | None) -> Volcano | None:
    if given is None:
        return None
    return Volcano(
        queue=given.get("queue", ""),
        priority_class=given.get("priorityClassName", ""),
        min_available=given.get("minAvailable"),
    )
