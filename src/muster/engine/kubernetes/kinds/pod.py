"""A bare `v1` Pod."""

from __future__ import annotations

from muster.engine.kubernetes.course import OPEN, Course, Object, Status, status_of
from muster.engine.kubernetes.kinds.kind import MUSTER, NATIVE, NEVER, NOT, Feature, Kind, Rules

_COURSES = {"Succeeded": Course.SUCCEEDED, "Failed": Course.FAILED}


def _read(item: Object) -> Status:
    course = _COURSES.get(str(status_of(item).get("phase")))
    return OPEN if course is None else Status(course=course)


POD = Kind(
    name="Pod",
    plural="pods",
    read=_read,
    rules=Rules(pod=NEVER),
    features={
        Feature.GANG_PLACEMENT: NOT,
        Feature.GANG_RESTART: MUSTER,
        Feature.MEMBER_RESTART: NOT,
        Feature.SUSPEND: NOT,
        Feature.DEADLINE: NATIVE,
        Feature.CLEAN_UP: MUSTER,
        Feature.RANKS: MUSTER,
    },
    traps=("A Pod that is evicted stays gone: nothing in the cluster makes another.",),
)
