"""Where a waiting run stands: which runs come before it, and which limit holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from muster.domain.policy import Limit, QueueOrder
from muster.domain.queue import Queue
from muster.domain.resources import Resources
from muster.domain.run import Run
from muster.domain.schedule import Candidate
from muster.domain.share import Line, Standing
from muster.store import accounts, runs, shares

_WALK = 200  #: runs that are counted one by one
_ANY_SIZE = Resources(millicpus=2**60, memory=2**60, gpus=2**31 - 1)
_PAGE = 64
_USERS = 10_000


@dataclass(frozen=True, kw_only=True)
class Place:
    """How many waiting runs come before one, and the first of them."""

    ahead: int
    first: tuple[str, ...]
    exact: bool = True  #: False: far back, where the order is not followed run by run


def place_of(conn: Connection, queue: Queue, run: Run, *, now: datetime, named: int) -> Place:
    share = queue.policy.order is QueueOrder.SHARE
    waiting = shares.first_waiting(conn, queue.id, now=now, share=share, limit=_USERS)
    count, first = runs.ahead_of(conn, run, limit=named)
    if not share or len(waiting) < 2:
        return Place(ahead=count, first=tuple(first))
    before: list[str] = []
    for candidate in _in_order(conn, queue, waiting, now):
        if candidate.run_id == run.id:
            return Place(ahead=len(before), first=tuple(before[:named]))
        if len(before) == _WALK:
            break
        before.append(candidate.run_id)
    return Place(ahead=max(count, len(before)), first=tuple(before[:named]), exact=False)


def first_in_line(conn: Connection, queue: Queue, *, now: datetime, limit: int) -> list[str]:
    """The runs that wait, in the order in which they would be started one by one."""
    share = queue.policy.order is QueueOrder.SHARE
    waiting = shares.first_waiting(conn, queue.id, now=now, share=share, limit=_USERS)
    if not share or len(waiting) < 2:
        return runs.first_waiting(conn, queue.id, limit=limit)
    return [candidate.run_id for candidate in islice(_in_order(conn, queue, waiting, now), limit)]


def _in_order(
    conn: Connection, queue: Queue, waiting: dict[str, Standing], now: datetime
) -> Iterator[Candidate]:
    """All that wait, as if each were started in turn."""

    def pages(user: str) -> Iterator[Candidate]:
        last: Candidate | None = None
        while page := runs.waiting(conn, queue.id, user, room=_ANY_SIZE, after=last, limit=_PAGE):
            yield from page
            last = page[-1]

    line = Line(pages, now=now, standings=waiting)
    while (candidate := line.next()) is not None:
        line.took(candidate)
        yield candidate


def limit_reached(conn: Connection, queue: Queue, run: Run) -> str | None:
    """What keeps the run from starting although there may be room for it."""
    limits = queue.policy.limits
    for limit, user, whose in (
        (limits.user, run.author, f"{run.author} has"),
        (limits.queue, None, "the queue has"),
    ):
        if limit and (said := _spent(limit, run, *shares.live_of_queue(conn, queue.id, user=user))):
            return f"{whose} {said}"
    entity = accounts.find_entity(conn, queue.entity)
    if entity is not None and entity.limits:
        said = _spent(entity.limits, run, *shares.live_of_entity(conn, queue.entity))
        if said:
            return f"{queue.entity} has, in all its queues, {said}"
    return None


def _spent(limit: Limit, run: Run, count: int, gpus: int) -> str | None:
    needs = run.spec.resources.gpus
    if limit.runs is not None and count >= limit.runs:
        return f"{count} of {limit.runs} allowed runs at once"
    if limit.gpus is not None and needs and gpus + needs > limit.gpus:
        return f"{gpus} of {limit.gpus} allowed GPUs in use, and it needs {needs}"
    return None
