"""How many runs waited in a queue and ran from it, over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate


@dataclass(frozen=True, kw_only=True)
class Stay:
    """When a run came to wait in its queue, left it for an agent, and ended."""

    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    gpus: int


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """At each moment: runs that waited, runs an agent had, and the GPUs of those."""

    at: Sequence[datetime]
    waiting: Sequence[int]
    running: Sequence[int]
    gpus: Sequence[int]


def occupancy(stays: Iterable[Stay], *, since: datetime, until: datetime, points: int) -> Occupancy:
    """At so many moments, evenly from `since` to `until`.

    A run that was tried more than once counts as if all its tries had been waiting but the last.
    """
    step = (until - since) / (points - 1)
    at = [since + step * place for place in range(points)]
    waiting, running, gpus = ([0] * (points + 1) for _ in range(3))

    def count(row: list[int], start: datetime, end: datetime, amount: int) -> None:
        """From its start up to, and without, its end."""
        first, last = _first_from(start, since, step, points), _first_from(end, since, step, points)
        if first < last:
            row[first] += amount
            row[last] -= amount

    after = until + step
    for stay in stays:
        ended = stay.ended_at or after
        count(waiting, stay.created_at, stay.claimed_at or ended, 1)
        if stay.claimed_at is not None:
            count(running, stay.claimed_at, ended, 1)
            count(gpus, stay.claimed_at, ended, stay.gpus)
    rows = (list(accumulate(row))[:points] for row in (waiting, running, gpus))
    return Occupancy(at=at, **dict(zip(("waiting", "running", "gpus"), rows, strict=True)))


def _first_from(moment: datetime, since: datetime, step: timedelta, points: int) -> int:
    """The place of the first point that is not before this moment; `points`: none is."""
    place = -((since - moment) // step)
    return min(max(place, 0), points)
