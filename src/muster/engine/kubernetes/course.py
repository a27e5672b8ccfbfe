"""What Muster knows about a kind of workload: how it is held back until all is ready, and how it ends.

A kind is one row. One that is not here still runs: it is created at once, and it is over when its pods are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Object = Mapping[str, Any]


class Course(Enum):
    """How far a workload is, in its controller's eyes."""

    OPEN = auto()  #: it has pods, or will have; a pod that failed may be followed by another
    SUCCEEDED = auto()
    FAILED = auto()


@dataclass(frozen=True, kw_only=True)
class Status:
    course: Course
    reason: str = ""  #: the controller's, such as DeadlineExceeded
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    read: Callable[[Object], Status]
    suspend: tuple[str, ...] | None = None  #: the field that holds it back


OPEN = Status(course=Course.OPEN)


def _of_job(item: Object) -> Status:
    """The verdict as soon as it is clear: some pods may still be ending then."""
    for condition in (item.get("status") or {}).get("conditions") or ():
        if condition.get("status") != "True":
            continue
        course = {
            "Complete": Course.SUCCEEDED,
            "SuccessCriteriaMet": Course.SUCCEEDED,
            "Failed": Course.FAILED,
            "FailureTarget": Course.FAILED,
        }.get(condition["type"])
        if course is not None:
            return Status(
                course=course, reason=condition.get("reason", ""), message=condition.get("message", "")
            )
    return OPEN


def _of_pod(item: Object) -> Status:
    phase = str((item.get("status") or {}).get("phase"))
    return Status(course={"Succeeded": Course.SUCCEEDED, "Failed": Course.FAILED}.get(phase, Course.OPEN))


def _of_pods_alone(item: Object) -> Status:
    """Nothing is known of it; what its pods do is final."""
    return OPEN


UNKNOWN = Kind(read=_of_pods_alone)

#: API group and kind → what is known.
KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind(read=_of_job, suspend=("spec", "suspend")),
    ("", "Pod"): Kind(read=_of_pod),
}


def kind_of(api_version: str, kind: str) -> Kind:
    group = api_version.rpartition("/")[0]
    return KINDS.get((group, kind), UNKNOWN)
