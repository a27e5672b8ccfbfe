"""What agents saw of their clusters last. Apart from the agents: it may be long, and they are read often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from muster.domain.cluster import Cluster, Node, VolumeClaim
from muster.domain.resources import Resources
from muster.store.schema import clusters


def save(conn: Connection, agent_id: str, cluster: Cluster, *, at: datetime) -> None:
    """In place of what it saw before."""
    conn.execute(delete(clusters).where(clusters.c.agent_id == agent_id))
    conn.execute(insert(clusters).values(agent_id=agent_id, at=at, seen=asdict(cluster)))


def of_agents(conn: Connection, agent_ids: Sequence[str]) -> dict[str, tuple[datetime, Cluster]]:
    rows = conn.execute(select(clusters).where(clusters.c.agent_id.in_(agent_ids)))
    return {row.agent_id: (row.at, _cluster(row.seen)) for row in rows}


def _cluster(seen: Mapping[str, Any]) -> Cluster:
    nodes, claims = seen["nodes"], seen["claims"]
    return Cluster(
        namespace=seen["namespace"],
        nodes=None if nodes is None else tuple(map(_node, nodes)),
        claims=None
        if claims is None
        else tuple(VolumeClaim(**{**claim, "modes": tuple(claim["modes"])}) for claim in claims),
    )


def _node(seen: Mapping[str, Any]) -> Node:
    return Node(**{**seen, "total": Resources(**seen["total"]), "free": Resources(**seen["free"])})
