"""Where a waiting run stands: which runs come before it, and which limit holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

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


@dataclass(frozen=True, kw_only=True)
class Place:
    """How many waiting runs come before one, and the first of them."""

    ahead: int
    first: tuple[str, ...]
    exact: bool = True  #: False: far back, where the order is not followed run by run


def place_of(conn: Connection, queue: Queue, run: Run, *, now: datetime, named: int) -> Place:
    waiting = shares.waiting_users(conn, queue.id)
    count, first = runs.ahead_of(conn, run, limit=named)
    if queue.policy.order is QueueOrder.FIFO or len(waiting) < 2:
        return Place(ahead=count, first=tuple(first))
    before: list[str] = []
    for candidate in _in_order(conn, queue, waiting, now):
        if candidate.run_id == run.id:
            return Place(ahead=len(before), first=tuple(before[:named]))
        if len(before) == _WALK:
            break
        before.append(candidate.run_id)
    return Place(ahead=max(count, len(before)), first=tuple(before[:named]), exact=False)


def _in_order(
    conn: Connection, queue: Queue, waiting: dict[str, Standing], now: datetime
) -> Iterator[Candidate]:
    """All that wait, as if each were started in turn."""

    def pages(user: str) -> Iterator[Candidate]:
        last: Candidate | None = None
        while page := runs.waiting(conn, queue.id, user, room=_ANY_SIZE, after=last, limit=_PAGE):
            yield from page
            last = page[-1]

    everybody = shares.standings(conn, queue.id, waiting, now=now)
    line = Line(pages, now=now, standings={user: everybody[user] for user in waiting})
    while (candidate := line.next()) is not None:
        line.took(candidate)
        yield candidate


def limit_reached(conn: Connection, queue: Queue, run: Run, *, now: datetime) -> str | None:
    """What keeps the run from starting although there may be room for it."""
    limits = queue.policy.limits
    if limits:
        everybody = shares.standings(conn, queue.id, {}, now=now).values()
        mine = [standing for standing in everybody if standing.user == run.author]
        for limit, standings, whose in (
            (limits.user, mine, f"{run.author} has"),
            (limits.queue, [*everybody], "the queue has"),
        ):
            taken = (sum(s.runs for s in standings), sum(s.gpus for s in standings))
            if said := _spent(limit, run, *taken):
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
