"""Groups of runs, each found by its own index. A group has no row of its own: it is what its runs say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from muster.domain.run import TERMINAL, Run, RunState
from muster.store.runlist import Filter, page, sifted
from muster.store.schema import runs

# How many of a group are in each state, and how many events they have had.
_counts = (
    select(runs.c.state, func.count().label("number"), func.sum(runs.c.last_event).label("events"))
    .where(runs.c.group_id == bindparam("group"))
    .group_by(runs.c.state)
)
_live = (
    select(runs.c.id)
    .where(runs.c.group_id == bindparam("group"))
    .where(sifted(runs.c.state).not_in([state.value for state in TERMINAL]))
    .order_by(runs.c.seq)
)
_entities = select(runs.c.entity).where(runs.c.group_id == bindparam("group")).distinct()


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that were launched together."""

    id: str
    newest: Run
    states: Mapping[RunState, int]
    version: int  #: changes with every event of its runs

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def created_at(self) -> datetime:
        return self.newest.created_at


def find(conn: Connection, group_id: str, *, entities: tuple[str, ...] | None) -> Group | None:
    """The group, as far as it belongs to these entities."""
    newest = page(conn, Filter(group=group_id, entities=entities), limit=1)
    if not newest:
        return None
    rows = list(conn.execute(_of(_counts, entities), {"group": group_id}))
    return Group(
        id=group_id,
        newest=newest[0][1],
        states={RunState(row.state): row.number for row in rows},
        version=sum(int(row.events) for row in rows),
    )


def live(conn: Connection, group_id: str, *, entities: tuple[str, ...] | None) -> list[str]:
    """Ids of those that have not ended, oldest first."""
    return list(conn.execute(_of(_live, entities), {"group": group_id}).scalars())


def entities_of(conn: Connection, group_id: str) -> set[str]:
    return set(conn.execute(_entities, {"group": group_id}).scalars())


def _of(query: Select[Any], entities: tuple[str, ...] | None) -> Select[Any]:
    return query if entities is None else query.where(sifted(runs.c.entity).in_(entities))
