"""How far a workload is, as its controller tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Object = Mapping[str, Any]


class Course(Enum):
    OPEN = auto()  #: it has pods, or will have; a pod that failed may be followed by another
    SUCCEEDED = auto()
    FAILED = auto()
    STOPPED = auto()  #: somebody ended it on purpose, past Muster


@dataclass(frozen=True, kw_only=True)
class Status:
    course: Course
    reason: str = ""  #: the controller's, such as DeadlineExceeded
    message: str = ""
    waits: str = ""  #: why it has no pods, where its controller says so
    told: bool = True  #: its controller tells how far it is; else only its pods do


Reader = Callable[[Object], Status]

OPEN = Status(course=Course.OPEN)
SILENT = Status(course=Course.OPEN, told=False)
DEADLINE = "DeadlineExceeded"  #: what every kind's reader calls the reason


def status_of(item: Object) -> Mapping[str, Any]:
    found = item.get("status")
    return found if isinstance(found, Mapping) else {}


def conditions_of(item: Object) -> Iterator[Mapping[str, Any]]:
    """Those that hold now."""
    given = status_of(item).get("conditions")
    for condition in given if isinstance(given, list) else ():
        if isinstance(condition, Mapping) and str(condition.get("status")) == "True":
            yield condition


def by_conditions(courses: Mapping[str, Course]) -> Reader:
    """Of a kind whose conditions tell its end: condition → what it means."""

    def read(item: Object) -> Status:
        for condition in conditions_of(item):
            course = courses.get(str(condition.get("type")))
            if course is not None:
                reason, message = condition.get("reason"), condition.get("message")
                return Status(course=course, reason=str(reason or ""), message=str(message or ""))
        return OPEN

    return read
