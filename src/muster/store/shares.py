"""Who waits in a queue, what each has of it, and had of late: what the order goes by (`muster.domain.share`).

A queue may have a hundred thousand runs waiting, of a thousand users. So that nobody has to look through
them for the next one, there is a row for each user, with the rank of the first run that waits.

Invariant: **while a run waits, its user's row has a rank, and none greater than the run's.** Too small a
rank does no harm: who looks finds out, and sets it right (`refresh`). Hence:

- what comes to wait is entered in the same transaction (`enter`);
- a rank is raised or removed only by `refresh`, which holds the row while it looks: whoever enters a run
  meanwhile waits for that, and comes after it.

`repair`, done once in a while, would mend a row that is wrong all the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
    Select,
    bindparam,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from muster.domain.run import HEAD_START, Priority
from muster.domain.share import GIB_COST, GPU_COST, LEAST_COST, START_CHARGE, Standing, weight
from muster.store.schema import AnyRow, micros, moment, queues, runs, shares

_SECOND = 1_000_000.0  #: in microseconds
_LONG_AGO = -(2**62)

Waiting = tuple[str, str, int, Priority]  #: queue, user, rank, priority of a run

# From user to user through the index, one step each: what one has waiting is not read.
first_of_each_user = text(
    """
    WITH RECURSIVE waiting(author) AS (
        SELECT min(author) FROM runs WHERE queue_id = :queue_id AND state = 'queued'
        UNION ALL
        SELECT (SELECT min(r.author) FROM runs r
                WHERE r.queue_id = :queue_id AND r.state = 'queued' AND r.author > waiting.author)
        FROM waiting WHERE waiting.author IS NOT NULL
    )
    SELECT author,
        (SELECT r.rank FROM runs r
         WHERE r.queue_id = :queue_id AND r.state = 'queued' AND r.author = waiting.author
         ORDER BY r.rank, r.seq LIMIT 1) AS rank,
        (SELECT r.priority FROM runs r
         WHERE r.queue_id = :queue_id AND r.state = 'queued' AND r.author = waiting.author
         ORDER BY r.rank, r.seq LIMIT 1) AS priority
    FROM waiting WHERE author IS NOT NULL
    """
)


def _cost() -> ColumnElement[float]:
    """What a second of a run costs: `muster.domain.share.rate` in SQL."""
    cost = (
        type_coerce(runs.c.millicpus, Float) / 1000.0
        + GPU_COST * type_coerce(runs.c.gpus, Float)
        + GIB_COST * type_coerce(runs.c.memory, Float) / float(2**30)
    )
    return case((cost < LEAST_COST, LEAST_COST), else_=cost)


def _seconds() -> ColumnElement[float]:
    """From its claim to now, or none where the clock went back."""
    span = bindparam("now", type_=BigInteger) - type_coerce(runs.c.claimed_at, BigInteger)
    return case((span < 0, 0.0), else_=span / _SECOND)


def _later(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((one > other, one), else_=other)


_live = (
    select(
        runs.c.author,
        func.count().label("runs"),
        func.sum(runs.c.gpus).label("gpus"),
        func.sum(_cost() * (_seconds() + START_CHARGE.total_seconds())).label("used"),
        func.max(type_coerce(runs.c.claimed_at, BigInteger)).label("served_at"),
    )
    .where(runs.c.queue_id == bindparam("queue_id"), runs.c.lease_expires_at.is_not(null()))
    .group_by(runs.c.author)
    .subquery("live")
)
_live_of_queue = select(func.count(), func.sum(runs.c.gpus)).where(
    runs.c.queue_id == bindparam("queue_id"), runs.c.lease_expires_at.is_not(null())
)
_live_of_entity = select(func.count(), func.sum(runs.c.gpus)).where(
    runs.c.entity == bindparam("entity"), runs.c.lease_expires_at.is_not(null())
)


def _head_start(priority: Priority) -> int:
    return int(HEAD_START[priority].total_seconds() * _SECOND)


def _in_order() -> Select[Any]:
    """Those that wait, in the order of `muster.domain.share`: by level, use and rank.

    In three steps, each from what the one before worked out. Done as one, every expression would stand
    there with all that it is made of, over and over: that is why each step is kept by itself (OFFSET 0).
    """
    head_start = case(
        *((shares.c.priority == priority.value, _head_start(priority)) for priority in Priority), else_=0
    )
    standing = (
        select(
            shares.c.user,
            shares.c.rank,
            shares.c.priority,
            head_start.label("head_start"),
            (shares.c.used / bindparam("weight", type_=Float) + func.coalesce(_live.c.used, 0.0)).label(
                "used"
            ),
            _later(
                func.coalesce(type_coerce(shares.c.served_at, BigInteger), _LONG_AGO),
                func.coalesce(_live.c.served_at, _LONG_AGO),
            ).label("served_at"),
            func.coalesce(_live.c.runs, 0).label("runs"),
            func.coalesce(_live.c.gpus, 0).label("gpus"),
        )
        .join_from(shares, _live, _live.c.author == shares.c.user, isouter=True)
        .where(shares.c.queue_id == bindparam("queue_id"), shares.c.rank.is_not(null()))
        .offset(literal_column("0"))
        .subquery("standing")
    )
    since = _later(standing.c.rank + standing.c.head_start, standing.c.served_at)
    age = standing.c.head_start + bindparam("now", type_=BigInteger) - since
    aged = select(standing, age.label("age")).offset(literal_column("0")).subquery("aged")
    least = len(Priority) - 1
    pressing = case(*((aged.c.age >= _head_start(p), place) for place, p in enumerate(Priority)), else_=least)
    share = bindparam("share") == 1
    return (
        select(*(aged.c[name] for name in ("user", "rank", "priority", "used", "served_at", "runs", "gpus")))
        .order_by(
            case((share, pressing), else_=0),
            case((share, aged.c.used), else_=0.0),
            aged.c.rank,
            aged.c.user,
        )
        .limit(bindparam("limit"))
    )


waiting_in_order = _in_order()  #: for a claim


def first_waiting(
    conn: Connection, queue_id: str, *, now: datetime, share: bool, limit: int
) -> dict[str, Standing]:
    """The users that are next, in order."""
    given = {
        "queue_id": queue_id,
        "now": micros(now),
        "weight": weight(now),
        "share": int(share),
        "limit": limit,
    }
    return {row.user: _standing(row) for row in conn.execute(waiting_in_order, given).all()}


def _standing(row: AnyRow) -> Standing:
    return Standing(
        user=row.user,
        rank=row.rank,
        priority=Priority(row.priority),
        used=float(row.used),
        served_at=moment(row.served_at) if row.served_at > _LONG_AGO else None,
        runs=int(row.runs),
        gpus=int(row.gpus),
    )


def live_of_queue(conn: Connection, queue_id: str, *, user: str | None = None) -> tuple[int, int]:
    """Runs and GPUs that are in use there, of one user or of all."""
    query = _live_of_queue if user is None else _live_of_queue.where(runs.c.author == user)
    count, gpus = conn.execute(query, {"queue_id": queue_id}).one()
    return count, int(gpus or 0)


def live_of_entity(conn: Connection, entity: str) -> tuple[int, int]:
    """Runs and GPUs that an entity has in all its queues."""
    count, gpus = conn.execute(_live_of_entity, {"entity": entity}).one()
    return count, int(gpus or 0)


def enter(conn: Connection, waiting: Iterable[Waiting]) -> None:
    """These runs wait from now on."""
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for queue_id, user, rank, priority in waiting:
        place = (queue_id, user)
        if place not in first or rank < first[place][0]:
            first[place] = (rank, priority.value)
    if first:
        rows = [
            {"queue_id": queue_id, "user": user, "used": 0.0, "rank": rank, "priority": priority}
            for (queue_id, user), (rank, priority) in sorted(first.items())
        ]
        conn.execute(_enter(conn.dialect.name), rows)


@cache
def _enter(dialect: str) -> postgresql.Insert | sqlite.Insert:
    statement = _insert(dialect)
    return statement.on_conflict_do_update(
        index_elements=["queue_id", "user"],
        set_={"rank": statement.excluded.rank, "priority": statement.excluded.priority},
        where=or_(shares.c.rank.is_(null()), statement.excluded.rank < shares.c.rank),
    )


def enter_again(conn: Connection, run_ids: Collection[str]) -> None:
    """These runs went back to their queues."""
    rows = conn.execute(
        select(runs.c.queue_id, runs.c.author, runs.c.rank, runs.c.priority).where(runs.c.id.in_(run_ids))
    )
    enter(conn, [(row.queue_id, row.author, row.rank, Priority(row.priority)) for row in rows])


_of_row = (
    select(runs.c.rank, runs.c.priority)
    .where(runs.c.queue_id == shares.c.queue_id, runs.c.author == shares.c.user)
    .where(runs.c.state == literal_column("'queued'"))
    .order_by(runs.c.rank, runs.c.seq)
    .limit(1)
)
_first_rank = _of_row.with_only_columns(runs.c.rank).scalar_subquery()
_first_priority = _of_row.with_only_columns(runs.c.priority).scalar_subquery()
_row = (shares.c.queue_id == bindparam("of_queue"), shares.c.user.in_(bindparam("users", expanding=True)))
_hold = select(shares.c.user).where(*_row).order_by(shares.c.user).with_for_update()
_refresh = (
    update(shares)
    .where(*_row, shares.c.rank.is_distinct_from(_first_rank))
    .values(rank=_first_rank, priority=_first_priority)
)


def refresh(conn: Connection, queue_id: str, users: Collection[str]) -> None:
    """Set the ranks of these users right, after some of their runs have left the queue."""
    given = {"of_queue": queue_id, "users": sorted(users)}
    if conn.dialect.name == "postgresql":
        conn.execute(_hold, given)  # a statement of its own: the next one sees what came until it held them
    conn.execute(_refresh, given)


def repair(conn: Connection) -> None:
    """Enter whoever waits and is not entered."""
    for queue_id in conn.execute(select(queues.c.id)).scalars().all():
        found = conn.execute(first_of_each_user, {"queue_id": queue_id}).all()
        if not found:
            continue
        known = set(
            conn.execute(
                select(shares.c.user).where(shares.c.queue_id == queue_id, shares.c.rank.is_not(null()))
            ).scalars()
        )
        missing = [row for row in found if row.author not in known]
        enter(conn, [(queue_id, row.author, row.rank, Priority(row.priority)) for row in missing])


def charge(conn: Connection, run_ids: Collection[str], *, now: datetime) -> None:
    """The attempts of these runs have just ended: add what they had since their claim."""
    values = {"ids": list(run_ids), "now": micros(now), "weight": weight(now)}
    conn.execute(_charge(conn.dialect.name), values)


@cache
def _charge(dialect: str) -> postgresql.Insert | sqlite.Insert:
    had = (
        select(
            runs.c.queue_id,
            runs.c.author,
            func.sum(_cost() * _seconds()) * bindparam("weight", type_=Float),
            bindparam("now", type_=BigInteger),
        )
        .where(runs.c.id.in_(bindparam("ids", expanding=True)), runs.c.claimed_at.is_not(null()))
        .group_by(runs.c.queue_id, runs.c.author)
        .order_by(runs.c.queue_id, runs.c.author)
    )
    statement = _insert(dialect).from_select(["queue_id", "user", "used", "served_at"], had)
    return statement.on_conflict_do_update(
        index_elements=["queue_id", "user"],
        set_={"used": shares.c.used + statement.excluded.used, "served_at": statement.excluded.served_at},
    )


def _insert(dialect: str) -> postgresql.Insert | sqlite.Insert:
    return postgresql.insert(shares) if dialect == "postgresql" else sqlite.insert(shares)
