"""Groups: a grid launched in one batch, looked at and stopped as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from muster.domain.access import Action, Actor
from muster.domain.errors import NotFound
from muster.domain.grid import Grid, run_names
from muster.domain.names import RandomBytes, checked_name, friendly_name
from muster.service.bus import agent_topic
from muster.service.journal import write
from muster.service.launch import Order
from muster.service.stop import asked_to_stop
from muster.store import groups, runs
from muster.store.database import Tx
from muster.store.groups import Group


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """What came of stopping a group."""

    group: Group  #: as it is now
    asked: int  #: runs that were asked to stop by this; the others had ended, or were asked before


def spread(order: Order, grid: Grid, *, random: RandomBytes) -> list[Order]:
    """One order for each point of the grid, named one after another."""
    base = checked_name(order.name, what="run") if order.name else friendly_name(random)
    points = grid.points(order.inputs)
    names = run_names(base, grid.size)
    return [replace(order, name=name, inputs=inputs) for name, inputs in zip(names, points, strict=True)]


def find(conn: Connection, actor: Actor, group_id: str) -> Group:
    group = groups.find(conn, group_id, entities=actor.visible)
    if group is None:
        raise NotFound("group", group_id, hint="`muster run list --json` shows the group of each run.")
    return group


def stop(tx: Tx, actor: Actor, group_id: str, *, now: datetime) -> Stopped:
    """Ask all of them to end that have not. All in one go: none is left out, and none is asked twice."""
    find(tx.conn, actor, group_id)
    for entity in _seen(actor, groups.entities_of(tx.conn, group_id)):
        actor.require(Action.LAUNCH, entity)
    heads = runs.hold(tx.conn, groups.live(tx.conn, group_id, entities=actor.visible))
    entries = [entry for head in heads.values() if (entry := asked_to_stop(head, actor, now=now))]
    write(tx, entries)
    for agent_id in {head.agent_id for head in heads.values() if head.agent_id}:
        tx.tell(agent_topic(agent_id))
    return Stopped(group=find(tx.conn, actor, group_id), asked=len(entries))


def _seen(actor: Actor, entities: set[str]) -> Sequence[str]:
    visible = actor.visible
    return sorted(entities if visible is None else entities & set(visible))
