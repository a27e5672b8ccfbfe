"""Runs: insert, find, order, lease. Every statement is here; none decides anything.

Who changes a run holds its row: heads to be changed are read by `hold`, `take_waiting`, or a query
that says `FOR UPDATE` (nothing on SQLite, where there is but one writer). What another server holds
just now is passed over where there is more to choose from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    tuple_,
    type_coerce,
    update,
)

from muster.domain.occupancy import Stay
from muster.domain.resources import Resources
from muster.domain.run import Priority, Run, RunHead, RunState
from muster.domain.schedule import Candidate
from muster.domain.source import JobRef
from muster.store.bulk import add_many, change_many
from muster.store.codec import failure_from_data, failure_to_data, spec_from_data, spec_to_data
from muster.store.schema import AnyRow, Instant, agents, queues, runs

T = TypeVar("T")
D = TypeVar("D")

_FIRST = -(2**62)  #: a rank before all others

_HEAD = (
    runs.c.id,
    runs.c.entity,
    runs.c.queue_id,
    runs.c.state,
    runs.c.nodes,
    runs.c.attempt,
    runs.c.epoch,
    runs.c.agent_id,
    runs.c.lease_expires_at,
    runs.c.stop_requested_at,
    runs.c.stop_requested_by,
    runs.c.started_at,
    runs.c.last_event,
)
_WHOLE = (
    *_HEAD,
    runs.c.seq,
    runs.c.project,
    queues.c.name.label("queue"),
    runs.c.queue_version,
    runs.c.name,
    runs.c.author,
    runs.c.priority,
    runs.c.rank,
    runs.c.spec,
    runs.c.failure,
    runs.c.created_at,
    runs.c.claimed_at,
    runs.c.ended_at,
    runs.c.job_id,
    runs.c.job_version,
    runs.c.group_id,
)
SELECT_RUN = select(*_WHOLE).join_from(runs, queues, runs.c.queue_id == queues.c.id)
_by_id = SELECT_RUN.where(runs.c.id == bindparam("id"))
_heads = select(*_HEAD).where(runs.c.id.in_(bindparam("ids", expanding=True)))
_heads_locked = _heads.order_by(runs.c.id).with_for_update(key_share=True)
# Written as the partial indexes are, not bound: only then is it plain that they hold all such runs.
_is_waiting = runs.c.state == literal_column("'queued'")


def _number(moment: ColumnElement[datetime | None] | ColumnElement[datetime]) -> ColumnElement[int]:
    """As it is kept, to reckon with."""
    return type_coerce(moment, BigInteger)


_is_leased = runs.c.lease_expires_at.is_not(null())
_fits = (
    runs.c.millicpus <= bindparam("millicpus"),
    runs.c.memory <= bindparam("memory"),
    runs.c.gpus <= bindparam("gpus"),
)
# Claim: the next runs of one queue that a machine of this size could ever run, in order, from an index
# that holds only waiting ones. Without the size, runs too big for it would hide those behind them.
waiting_of_user = (
    select(
        runs.c.id,
        runs.c.millicpus,
        runs.c.memory,
        runs.c.gpus,
        runs.c.author,
        runs.c.priority,
        runs.c.rank,
        runs.c.seq,
    )
    .where(runs.c.queue_id == bindparam("queue_id"), runs.c.author == bindparam("user"), _is_waiting, *_fits)
    .where(tuple_(runs.c.rank, runs.c.seq) > tuple_(bindparam("rank"), bindparam("seq")))
    .order_by(runs.c.rank, runs.c.seq)
    .limit(bindparam("limit"))
)
_first_waiting = (
    SELECT_RUN.where(runs.c.queue_id == bindparam("queue_id"), _is_waiting, *_fits)
    .order_by(runs.c.rank, runs.c.seq)
    .limit(bindparam("limit"))
    .with_for_update(key_share=True, skip_locked=True, of=runs)
)
_still_waiting = (
    SELECT_RUN.where(runs.c.id.in_(bindparam("ids", expanding=True)), _is_waiting)
    .order_by(runs.c.id)
    .with_for_update(key_share=True, skip_locked=True, of=runs)
)
_live_of_agents = select(*_HEAD, runs.c.millicpus, runs.c.memory, runs.c.gpus).where(
    runs.c.agent_id.in_(bindparam("agent_ids", expanding=True)), _is_leased
)
_live_of_agents_locked = _live_of_agents.order_by(runs.c.id).with_for_update(key_share=True)
# Orphans: live runs that no agent speaks for. `agent_id IS NULL` is a prefix of ix_runs_leased.
_orphans = (
    select(*_HEAD, runs.c.locality)
    .where(
        runs.c.agent_id.is_(null()), _is_leased, runs.c.locality.in_(bindparam("localities", expanding=True))
    )
    .with_for_update(key_share=True, skip_locked=True)
)
_extend_leases = (
    update(runs)
    .where(runs.c.agent_id == bindparam("of_agent"), _is_leased)
    .values(lease_expires_at=bindparam("until", type_=Instant))
)
# `ix_runs_lease_expiry` holds only live runs; an index is used for it although all its rows are meant.
_shift_leases = (
    update(runs)
    .where(_is_leased)
    .values(
        lease_expires_at=type_coerce(
            _number(runs.c.lease_expires_at) + bindparam("by", type_=BigInteger), Instant
        )
    )
)
# Live runs whose agent let the lease run out, oldest first.
expired_leases = (
    select(*_HEAD, runs.c.locality)
    .where(_is_leased, runs.c.lease_expires_at < bindparam("before"))
    .where(runs.c.agent_id.is_not(null()))
    .order_by(runs.c.lease_expires_at)
    .limit(bindparam("limit"))
    .with_for_update(key_share=True, skip_locked=True)
)
# Live runs of agents that have not been heard of since they were given these, while others are there that can
# see them: see `muster.service.claim`.
_other = agents.alias("other")
_is_seen_by_another = exists().where(
    _other.c.locality == agents.c.locality,
    _other.c.id != agents.c.id,
    _other.c.left_at.is_(null()),
    _other.c.seen_at > bindparam("others_since", type_=Instant),
)
unheard_leases = (
    select(*_HEAD, runs.c.locality)
    .join_from(agents, runs, runs.c.agent_id == agents.c.id)
    .where(agents.c.seen_at < bindparam("given_before", type_=Instant), _is_leased, _is_seen_by_another)
    .where(_number(runs.c.lease_expires_at) > _number(agents.c.seen_at) + bindparam("ttl", type_=BigInteger))
    .where(runs.c.lease_expires_at >= bindparam("now", type_=Instant))
    .where(runs.c.lease_expires_at < bindparam("ends_before", type_=Instant))
    .limit(bindparam("limit"))
    # Agents too: one that is heard of meanwhile is passed over.
    .with_for_update(key_share=True, skip_locked=True, of=[runs, agents])
)
# Orphans that nobody has taken over since.
forsaken_orphans = (
    select(*_HEAD, runs.c.locality)
    .where(runs.c.agent_id.is_(null()), _is_leased, runs.c.lease_expires_at < bindparam("before"))
    .with_for_update(key_share=True, skip_locked=True)
)


def add(conn: Connection, items: Sequence[Run]) -> None:
    add_many(
        conn,
        runs,
        [
            {
                "id": run.id,
                "entity": run.entity,
                "project": run.project,
                "queue_id": run.head.queue_id,
                "queue_version": run.queue_version,
                "name": run.name,
                "author": run.author,
                "state": run.state.value,
                "priority": run.priority.value,
                "rank": run.rank,
                "spec": spec_to_data(run.spec),
                "nodes": run.head.nodes,
                **run.spec.resources.__dict__,
                "attempt": run.head.attempt,
                "epoch": run.head.epoch,
                "created_at": run.created_at,
                "last_event": run.head.last_event,
                "job_id": run.job.id if run.job else None,
                "job_version": run.job.version if run.job else None,
                "group_id": run.group,
            }
            for run in items
        ],
    )


def find(conn: Connection, run_id: str) -> Run | None:
    row = conn.execute(_by_id, {"id": run_id}).one_or_none()
    return run_of(row) if row else None


def find_many(conn: Connection, run_ids: Iterable[str]) -> dict[str, Run]:
    ids = list(run_ids)
    if not ids:
        return {}
    rows = conn.execute(SELECT_RUN.where(runs.c.id.in_(ids)))
    return {row.id: run_of(row) for row in rows}


def heads(conn: Connection, run_ids: Iterable[str]) -> dict[str, RunHead]:
    return {row.id: _head(row) for row in conn.execute(_heads, {"ids": list(run_ids)})}


def hold(conn: Connection, run_ids: Iterable[str]) -> dict[str, RunHead]:
    """`heads`, to be changed in this transaction."""
    return {row.id: _head(row) for row in conn.execute(_heads_locked, {"ids": list(run_ids)}).all()}


def take_first(conn: Connection, queue_id: str, *, room: Resources, limit: int) -> list[Run]:
    """The next runs of a queue, in order, to be changed."""
    rows = conn.execute(_first_waiting, {"queue_id": queue_id, "limit": limit, **room.__dict__}).all()
    return [run_of(row) for row in rows]


def take_waiting(conn: Connection, run_ids: Iterable[str]) -> dict[str, Run]:
    """Those of these runs that still wait and that no other server is just handing out, to be changed."""
    return {row.id: run_of(row) for row in conn.execute(_still_waiting, {"ids": list(run_ids)}).all()}


def existing(conn: Connection, run_ids: Sequence[str]) -> set[str]:
    """Those of the ids that are runs."""
    return set(conn.execute(select(runs.c.id).where(runs.c.id.in_(run_ids))).scalars())


def waiting(
    conn: Connection, queue_id: str, user: str, *, room: Resources, after: Candidate | None, limit: int
) -> list[Candidate]:
    """What a user has waiting in a queue, in order."""
    place = {"rank": after.rank, "seq": after.seq} if after else {"rank": _FIRST, "seq": 0}
    given = {"queue_id": queue_id, "user": user, "limit": limit, **place, **room.__dict__}
    return [
        Candidate(
            run_id=row.id,
            needs=Resources(millicpus=row.millicpus, memory=row.memory, gpus=row.gpus),
            user=row.author,
            priority=Priority(row.priority),
            rank=row.rank,
            seq=row.seq,
        )
        for row in conn.execute(waiting_of_user, given).all()
    ]


def ahead_of(conn: Connection, run: Run, *, limit: int) -> tuple[int, list[str]]:
    """How many waiting runs come before this one in its queue, and the first of them."""
    own_seq = select(runs.c.seq).where(runs.c.id == run.id).scalar_subquery()
    before = and_(
        runs.c.queue_id == run.head.queue_id,
        _is_waiting,
        tuple_(runs.c.rank, runs.c.seq) < tuple_(run.rank, own_seq),
    )
    count = conn.execute(select(func.count()).select_from(runs).where(before)).scalar_one()
    first = conn.execute(select(runs.c.id).where(before).order_by(runs.c.rank, runs.c.seq).limit(limit))
    return count, list(first.scalars())


def first_waiting(conn: Connection, queue_id: str, *, limit: int) -> list[str]:
    """Ids of the first that wait in a queue, by rank."""
    query = select(runs.c.id).where(runs.c.queue_id == queue_id, _is_waiting)
    return list(conn.execute(query.order_by(runs.c.rank, runs.c.seq).limit(limit)).scalars())


def beside(conn: Connection, run: Run, *, below: bool, but: str) -> int | None:
    """The rank of the run that waits right before (or, `below`, right behind) this one, `but` for one."""
    here = tuple_(run.rank, select(runs.c.seq).where(runs.c.id == run.id).scalar_subquery())
    place = tuple_(runs.c.rank, runs.c.seq)
    query = select(runs.c.rank).where(runs.c.queue_id == run.head.queue_id, _is_waiting, runs.c.id != but)
    if below:
        query = query.where(place > here).order_by(runs.c.rank, runs.c.seq)
    else:
        query = query.where(place < here).order_by(runs.c.rank.desc(), runs.c.seq.desc())
    return conn.execute(query.limit(1)).scalar()


def move_up(conn: Connection, run: Run, *, including: bool, by: int) -> set[str]:
    """Lower the ranks of all that wait before a run, and of itself if `including`; whose these are.
    Their order stays."""
    here = tuple_(run.rank, select(runs.c.seq).where(runs.c.id == run.id).scalar_subquery())
    place = tuple_(runs.c.rank, runs.c.seq)
    before = and_(
        runs.c.queue_id == run.head.queue_id, _is_waiting, place <= here if including else place < here
    )
    held = select(runs.c.id, runs.c.author, runs.c.rank).where(before).order_by(runs.c.id)
    found = conn.execute(held.with_for_update(key_share=True)).all()
    change_many(conn, runs, [({"id": row.id}, {"rank": row.rank - by}) for row in found])
    return {row.author for row in found}


def oldest_waiting(conn: Connection, queue_ids: Sequence[str]) -> dict[str, datetime]:
    """Queue → when the run that waits longest in it was launched."""
    first = (
        select(func.min(runs.c.seq))
        .where(_is_waiting, runs.c.queue_id.in_(queue_ids))
        .group_by(runs.c.queue_id)
    )
    rows = conn.execute(select(runs.c.queue_id, runs.c.created_at).where(runs.c.seq.in_(first)))
    return {row.queue_id: row.created_at for row in rows}


def gpus_in_use(conn: Connection, queue_ids: Sequence[str]) -> dict[str, int]:
    """Queue → GPUs that its runs have now."""
    rows = conn.execute(
        select(runs.c.queue_id, func.sum(runs.c.gpus))
        .where(_is_leased, runs.c.queue_id.in_(queue_ids))
        .group_by(runs.c.queue_id)
    )
    return {queue_id: int(gpus or 0) for queue_id, gpus in rows}


_stay = select(runs.c.created_at, runs.c.claimed_at, runs.c.ended_at, runs.c.gpus).where(
    runs.c.queue_id == bindparam("queue_id")
)
_ended_stays = _stay.where(
    runs.c.ended_at.is_not(null()), runs.c.ended_at >= bindparam("since", type_=Instant)
).order_by(runs.c.ended_at.desc())
_live_stays = _stay.where(_is_leased)
_waiting_stays = _stay.where(_is_waiting).order_by(runs.c.seq.desc())


def stays(conn: Connection, queue_id: str, *, since: datetime, limit: int) -> list[Stay]:
    """Of runs that ended since then, that run, and that wait: the newest so many of each."""
    given = {"queue_id": queue_id, "since": since}
    return [
        Stay(created_at=row.created_at, claimed_at=row.claimed_at, ended_at=row.ended_at, gpus=row.gpus)
        for query in (_ended_stays, _live_stays, _waiting_stays)
        for row in conn.execute(query.limit(limit), given)
    ]


def live_in_queue(conn: Connection, queue_id: str) -> list[Run]:
    """Runs of the queue that an agent has now."""
    rows = conn.execute(SELECT_RUN.where(runs.c.queue_id == queue_id, _is_leased))
    return [run_of(row) for row in sorted(rows, key=lambda row: int(row.seq))]


def live_of_agent(conn: Connection, agent_id: str) -> list[RunHead]:
    return [_head(row) for row in conn.execute(_live_of_agents, {"agent_ids": [agent_id]})]


def hold_live(conn: Connection, agent_ids: Iterable[str]) -> list[tuple[RunHead, Resources]]:
    """What these agents have, each with what it takes of the machine, to be changed in this transaction."""
    rows = conn.execute(_live_of_agents_locked, {"agent_ids": list(agent_ids)}).all()
    return [
        (_head(row), Resources(millicpus=row.millicpus, memory=row.memory, gpus=row.gpus)) for row in rows
    ]


def hold_orphans(conn: Connection, localities: Iterable[str]) -> list[tuple[RunHead, str]]:
    """Live runs of these places that no agent speaks for, to be changed in this transaction."""
    rows = conn.execute(_orphans, {"localities": list(localities)})
    return [(_head(row), row.locality) for row in rows]


def expired(conn: Connection, *, before: datetime, limit: int) -> list[tuple[RunHead, str | None]]:
    rows = conn.execute(expired_leases, {"before": before, "limit": limit})
    return [(_head(row), row.locality) for row in rows]


def unheard(
    conn: Connection, *, given_before: datetime, ttl: timedelta, now: datetime, limit: int
) -> list[tuple[RunHead, str | None]]:
    """Live runs that an agent was given before then, for `ttl`, that has not been heard of since; where
    another agent of its place has been heard of for less than `ttl`."""
    given = {
        "given_before": given_before,
        "ttl": ttl // timedelta(microseconds=1),
        "now": now,
        "others_since": now - ttl,
        "ends_before": given_before + ttl,
        "limit": limit,
    }
    return [(_head(row), row.locality) for row in conn.execute(unheard_leases, given)]


def forsaken(conn: Connection, *, before: datetime) -> list[tuple[RunHead, str | None]]:
    rows = conn.execute(forsaken_orphans, {"before": before})
    return [(_head(row), row.locality) for row in rows]


def extend_leases(conn: Connection, until: Mapping[str, datetime]) -> None:
    """Agent → until when it has what it has."""
    conn.execute(_extend_leases, [{"of_agent": agent, "until": end} for agent, end in until.items()])


def shift_leases(conn: Connection, *, by: timedelta) -> None:
    """Move the end of every lease, forward or back."""
    conn.execute(_shift_leases, {"by": by // timedelta(microseconds=1)})


def change(conn: Connection, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Run id → columns to change."""
    change_many(conn, runs, [({"id": run_id}, _encode(values)) for run_id, values in changes.items()])


def _encode(values: Mapping[str, Any]) -> dict[str, Any]:
    plain = dict(values)
    if "state" in plain:
        plain["state"] = plain["state"].value
    if "failure" in plain:
        plain["failure"] = failure_to_data(plain["failure"])
    return plain


def remove(conn: Connection, run_id: str) -> None:
    conn.execute(delete(runs).where(runs.c.id == run_id))


def count_by_state(conn: Connection, queue_ids: Sequence[str]) -> dict[tuple[str, str], int]:
    """Waiting and live runs per queue: `(queue id, "waiting" | "running")` → how many."""
    counts: dict[tuple[str, str], int] = {}
    waits = (
        select(runs.c.queue_id, func.count())
        .where(_is_waiting, runs.c.queue_id.in_(queue_ids))
        .group_by(runs.c.queue_id)
    )
    lives = (
        select(runs.c.queue_id, func.count())
        .where(_is_leased, runs.c.queue_id.in_(queue_ids))
        .group_by(runs.c.queue_id)
    )
    for queue_id, count in conn.execute(waits):
        counts[queue_id, "waiting"] = count
    for queue_id, count in conn.execute(lives):
        counts[queue_id, "running"] = count
    return counts


def recent_durations(conn: Connection, queue_id: str, *, limit: int) -> list[float]:
    """Seconds from start to end of the queue's last finished runs."""
    rows = conn.execute(
        select(runs.c.started_at, runs.c.ended_at)
        .where(runs.c.queue_id == queue_id, runs.c.ended_at.is_not(null()), runs.c.started_at.is_not(null()))
        .order_by(runs.c.ended_at.desc())
        .limit(limit)
    )
    return [(row.ended_at - row.started_at).total_seconds() for row in rows]


def _head(row: AnyRow) -> RunHead:
    return RunHead(
        id=row.id,
        entity=row.entity,
        queue_id=row.queue_id,
        state=RunState(row.state),
        nodes=row.nodes,
        attempt=row.attempt,
        epoch=row.epoch,
        agent_id=row.agent_id,
        lease_expires_at=row.lease_expires_at,
        stop_requested_at=row.stop_requested_at,
        stop_requested_by=row.stop_requested_by,
        started_at=row.started_at,
        last_event=row.last_event,
    )


def run_of(row: AnyRow) -> Run:
    return Run(
        head=_head(row),
        project=row.project,
        queue=row.queue,
        queue_version=row.queue_version,
        name=row.name,
        author=row.author,
        priority=Priority(row.priority),
        rank=row.rank,
        spec=spec_from_data(row.spec),
        failure=failure_from_data(row.failure),
        created_at=row.created_at,
        claimed_at=row.claimed_at,
        ended_at=row.ended_at,
        job=JobRef(id=row.job_id, version=row.job_version) if row.job_id else None,
        group=row.group_id,
    )
