"""What a job's status says, as it is documented, and what the operator must remember between two looks.

`tasks[].replicas[].restarts` and `pauses` are its memory: a restart is written here before it is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from muster.operator.pod import ContainerState


class Phase(StrEnum):
    NEW = ""
    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


CREATING, DELETED, UNKNOWN = "Creating", "Deleted", "Unknown"
#: Phases of a replica, as `aggregate` names them.
AGGREGATE = ("Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted")


@dataclass(frozen=True, kw_only=True)
class Replica:
    """What is known of one place."""

    name: str  #: of its pod, or of the one to come
    uid: str = ""  #: empty until the pod has been seen, and once what a pause deleted is gone
    phase: str = CREATING
    restarts: int = 0
    containers: tuple[ContainerState, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Task:
    type: str
    replicas: tuple[Replica, ...]

    @property
    def restarts(self) -> int:
        return sum(one.restarts for one in self.replicas)


@dataclass(frozen=True, kw_only=True)
class Condition:
    type: str
    status: bool
    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Status:
    phase: Phase = Phase.NEW
    conditions: tuple[Condition, ...] = ()
    tasks: tuple[Task, ...] = ()
    pauses: int = 0
    generation: int = 0  #: of the spec that this speaks of
    started: datetime | None = None  #: or resumed; the deadline counts from here
    ended: datetime | None = None

    @property
    def finished(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def backoff_count(self) -> int:
        return sum(task.restarts for task in self.tasks)

    def replica(self, type_: str, index: int) -> Replica | None:
        for task in self.tasks:
            if task.type == type_ and index < len(task.replicas):
                return task.replicas[index]
        return None

    def condition(self, type_: str) -> Condition | None:
        return next((one for one in self.conditions if one.type == type_), None)

    def saying(self, type_: str, holds: bool, reason: str, message: str, now: datetime) -> Status:
        """With this condition; its time changes only when it turns."""
        before = self.condition(type_)
        since = before.since if before is not None and before.status == holds else now
        said = Condition(type=type_, status=holds, reason=reason, message=message, since=since)
        if before is None:
            return replace(self, conditions=(*self.conditions, said))
        return replace(self, conditions=tuple(said if one.type == type_ else one for one in self.conditions))


def read_status(given: Mapping[str, Any]) -> Status:
    return Status(
        phase=Phase(given.get("phase", "")),
        conditions=tuple(_read_condition(item) for item in given.get("conditions") or ()),
        tasks=tuple(
            Task(type=item["type"], replicas=tuple(_read_replica(one) for one in item.get("replicas") or ()))
            for item in given.get("tasks") or ()
        ),
        pauses=given.get("pauses", 0),
        generation=given.get("observedGeneration", 0),
        started=_read_time(given.get("startTime")),
        ended=_read_time(given.get("completionTime")),
    )


def write_status(status: Status) -> dict[str, Any]:
    """As a merge patch has it: what is None is taken away."""
    return {
        "phase": status.phase.value,
        "conditions": [
            {
                "type": one.type,
                "status": str(one.status),
                "reason": one.reason,
                "message": one.message,
                "lastTransitionTime": _time(one.since),
            }
            for one in status.conditions
        ],
        "tasks": [
            {
                "type": task.type,
                "restartCount": task.restarts,
                "replicas": [_write_replica(one) for one in task.replicas],
            }
            for task in status.tasks
        ],
        "aggregate": aggregate(status.tasks),
        "backoffCount": status.backoff_count,
        "pauses": status.pauses,
        "observedGeneration": status.generation,
        "startTime": _time(status.started),
        "completionTime": _time(status.ended),
    }


def aggregate(tasks: Sequence[Task]) -> dict[str, int]:
    found = Counter(one.phase for task in tasks for one in task.replicas)
    return {phase.lower(): found[phase] for phase in AGGREGATE}


def _read_condition(item: Mapping[str, Any]) -> Condition:
    return Condition(
        type=item["type"],
        status=item["status"] == "True",
        reason=item.get("reason", ""),
        message=item.get("message", ""),
        since=datetime.fromisoformat(item["lastTransitionTime"]),
    )


def _read_replica(item: Mapping[str, Any]) -> Replica:
    return Replica(
        name=item["name"],
        uid=item.get("uid", ""),
        phase=item["phase"],
        restarts=item.get("restarts", 0),
        containers=tuple(
            ContainerState(name=one["name"], state=one["state"], exit_code=one.get("exitCode"))
            for one in item.get("containers") or ()
        ),
    )


def _write_replica(one: Replica) -> dict[str, Any]:
    containers = [
        {
            "name": box.name,
            "state": box.state,
            **({"exitCode": box.exit_code} if box.exit_code is not None else {}),
        }
        for box in one.containers
    ]
    return {
        "name": one.name,
        "uid": one.uid,
        "phase": one.phase,
        "restarts": one.restarts,
        "containers": containers,
    }


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _time(at: datetime | None) -> str | None:
    """In whole seconds, as the cluster writes times."""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
