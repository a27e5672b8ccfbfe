"""Kinds that Muster has no row for: their status is read from the shapes that most controllers use.

An owner who knows better says it on the object, as JMESPath expressions about it:

    metadata:
      annotations:
        muster.dev/succeeded-when: status.jobStatus == 'SUCCEEDED'
        muster.dev/failed-when: status.jobStatus == 'FAILED'
        muster.dev/message: status.message

Where nothing can be read, what the pods do is final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from muster.domain.errors import BadTemplate
from muster.engine.kubernetes.course import OPEN, SILENT, Course, Object, Status, by_conditions, status_of
from muster.engine.kubernetes.kinds.kind import Kind

SUCCEEDED_WHEN, FAILED_WHEN, MESSAGE = (
    "muster.dev/succeeded-when",
    "muster.dev/failed-when",
    "muster.dev/message",
)

_WORDS: Mapping[str, Course] = {
    **dict.fromkeys(
        ("succeeded", "success", "successful", "complete", "completed", "finished"), Course.SUCCEEDED
    ),
    **dict.fromkeys(("failed", "failure", "error", "errored", "terminated"), Course.FAILED),
    **dict.fromkeys(("aborted", "stopped", "cancelled", "canceled", "killed"), Course.STOPPED),
    **dict.fromkeys(
        """
        active admitted completing created creating initialized initializing inqueue new paused pending
        preparing progressing queued queueing ready restarting resuming retrying running scheduled scheduling
        started starting submitted suspended suspending terminating transitioning unknown waiting
        """.split(),
        Course.OPEN,
    ),
}
_CONDITIONS = by_conditions(
    {
        **dict.fromkeys(("Succeeded", "Complete", "Completed", "JobSucceeded"), Course.SUCCEEDED),
        **dict.fromkeys(("Failed", "Failure", "JobFailed"), Course.FAILED),
    }
)


def read(item: Object) -> Status:
    """`status.phase`, `status.state` or `status.state.phase`, then `status.conditions`."""
    status = status_of(item)
    state = status.get("state")
    places = (status.get("phase"), state.get("phase") if isinstance(state, Mapping) else state)
    for word in places:
        course = _WORDS.get(word.lower()) if isinstance(word, str) else None
        if course is Course.OPEN:
            return OPEN
        if course is not None:
            words = _CONDITIONS(item)
            message = words.message or _text(status.get("message"))
            return Status(course=course, reason=words.reason or str(word), message=message)
    if not isinstance(status.get("conditions"), list):
        return SILENT
    told = _CONDITIONS(item)
    return told if told.course is not Course.OPEN else SILENT


def read_as_told(item: Object) -> Status | None:
    """By its owner's expressions, if there are any."""
    notes = item.get("metadata", {}).get("annotations") or {}
    if SUCCEEDED_WHEN not in notes and FAILED_WHEN not in notes:
        return None
    for course, name in ((Course.FAILED, FAILED_WHEN), (Course.SUCCEEDED, SUCCEEDED_WHEN)):
        if name in notes and _find(notes[name], item):
            message = _text(_find(notes[MESSAGE], item)) if MESSAGE in notes else ""
            return Status(course=course, reason=f"{name} holds", message=message)
    return OPEN


def check(item: Object) -> None:
    """Refuse expressions that cannot be read, before anybody launches."""
    notes = item.get("metadata", {}).get("annotations") or {}
    for name in (SUCCEEDED_WHEN, FAILED_WHEN, MESSAGE):
        if name not in notes:
            continue
        try:
            _compiled(str(notes[name]))
        except ValueError as error:  # what all errors of that library are
            raise BadTemplate(
                f"The annotation {name} is not a JMESPath expression: {' '.join(str(error).split())}",
                hint="Write it as status.phase == 'Succeeded'; jmespath.org has the language.",
            ) from error


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Callable[[Any], Any]:
    import jmespath  # few have such a queue

    return jmespath.compile(expression).search


def _find(expression: str, item: Object) -> Any:
    try:
        return _compiled(expression)(dict(item))
    except ValueError:  # a function that this status does not suit yet
        return None


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


UNKNOWN = Kind(name="", plural="", read=read, has_pods=False, is_foreign=True)
