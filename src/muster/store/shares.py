"""What each user has of a queue, and had of late: what the order of runs goes by (`muster.domain.share`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
    bindparam,
    case,
    func,
    null,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite

from muster.domain.share import GIB_COST, GPU_COST, LEAST_COST, START_CHARGE, Standing, weight
from muster.store.schema import micros, runs, shares

_SECOND = 1_000_000.0  #: in microseconds

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
    SELECT author, (SELECT min(r.rank) FROM runs r
                    WHERE r.queue_id = :queue_id AND r.state = 'queued' AND r.author = waiting.author)
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
    micros = bindparam("now", type_=BigInteger) - type_coerce(runs.c.claimed_at, BigInteger)
    return case((micros < 0, 0.0), else_=micros / _SECOND)


_live = (
    select(
        runs.c.author,
        func.count(),
        func.sum(runs.c.gpus),
        func.sum(_cost() * (_seconds() + START_CHARGE.total_seconds())),
    )
    .where(runs.c.queue_id == bindparam("queue_id"), runs.c.lease_expires_at.is_not(null()))
    .group_by(runs.c.author)
)
_live_of_entity = select(func.count(), func.sum(runs.c.gpus)).where(
    runs.c.entity == bindparam("entity"), runs.c.lease_expires_at.is_not(null())
)
_used = select(shares.c.user, shares.c.used).where(shares.c.queue_id == bindparam("queue_id"))


@cache
def _charge(dialect: str) -> postgresql.Insert | sqlite.Insert:
    """Add what these runs had since their claim to what their users used."""
    had = (
        select(
            runs.c.queue_id, runs.c.author, func.sum(_cost() * _seconds()) * bindparam("weight", type_=Float)
        )
        .where(runs.c.id.in_(bindparam("ids", expanding=True)), runs.c.claimed_at.is_not(null()))
        .group_by(runs.c.queue_id, runs.c.author)
        .order_by(runs.c.queue_id, runs.c.author)
    )
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = insert(shares).from_select(["queue_id", "user", "used"], had)
    return statement.on_conflict_do_update(
        index_elements=["queue_id", "user"], set_={"used": shares.c.used + statement.excluded.used}
    )


def waiting_users(conn: Connection, queue_id: str) -> dict[str, int]:
    """Who waits in a queue: user → rank of the first run."""
    rows = conn.execute(first_of_each_user, {"queue_id": queue_id})
    return {row.author: row[1] for row in rows}


def standings(
    conn: Connection, queue_id: str, waiting: dict[str, int], *, now: datetime
) -> dict[str, Standing]:
    """Who waits in a queue or has something running there."""
    found = {user: Standing(user=user, rank=rank) for user, rank in waiting.items()}
    for user, count, gpus, used in conn.execute(_live, {"queue_id": queue_id, "now": micros(now)}):
        standing = found.setdefault(user, Standing(user=user))
        standing.runs, standing.gpus, standing.used = count, int(gpus), float(used)
    per_use = weight(now)
    for user, used in conn.execute(_used, {"queue_id": queue_id}):
        if user in found:
            found[user].used += used / per_use
    return found


def live_of_entity(conn: Connection, entity: str) -> tuple[int, int]:
    """Runs and GPUs that an entity has in all its queues."""
    count, gpus = conn.execute(_live_of_entity, {"entity": entity}).one()
    return count, int(gpus or 0)


def charge(conn: Connection, run_ids: Sequence[str], *, now: datetime) -> None:
    """The attempts of these runs have just ended."""
    values = {"ids": list(run_ids), "now": micros(now), "weight": weight(now)}
    conn.execute(_charge(conn.dialect.name), values)
