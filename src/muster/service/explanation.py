"""What `muster run why` answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from muster.domain.observation import Failure


@dataclass(frozen=True, kw_only=True)
class RunName:
    id: str
    name: str
    author: str
    state: str


@dataclass(frozen=True, kw_only=True)
class Explanation:
    summary: str  #: one sentence
    details: tuple[str, ...] = ()
    advice: str = ""
    place: int | None = None  #: 1 is next; set while it waits in the queue
    ahead: tuple[RunName, ...] = ()  #: the first of those before it
    holding: tuple[RunName, ...] = ()  #: the runs that hold what it waits for
    eta: datetime | None = None  #: an estimate, from how long this queue's last runs took
    failure: Failure | None = None


def in_words(span: timedelta) -> str:
    exact = max(0.0, span.total_seconds())
    if exact < 10:
        return f"{exact:.1f} s"
    seconds = int(exact)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"
