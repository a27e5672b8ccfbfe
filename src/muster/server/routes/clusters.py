"""What the clusters have, as their agents see them."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from muster.domain.access import Action
from muster.domain.agent import Agent
from muster.domain.cluster import Cluster
from muster.server.auth import Caller, Ctx
from muster.server.quick import Speaker
from muster.service import claim
from muster.service.bus import PLACES
from muster.store import agents, clusters, queues
from muster.store.database import Tx
from muster.wire import clusters as wire
from muster.wire.base import Page

router = APIRouter(tags=["agents"])


@router.get("/clusters")
async def list_clusters(ctx: Ctx, caller: Caller, entity: str | None = None) -> Page[wire.ClusterModel]:
    """What agents last saw of the clusters they drive: nodes with what is free there, volume claims."""
    now = ctx.now()

    def work(conn: Connection) -> Page[wire.ClusterModel]:
        if entity is not None:
            caller.require(Action.READ, entity)
        known = agents.of_entities(conn, caller.visible if entity is None else (entity,))
        seen = clusters.of_agents(conn, [agent.id for agent in known])
        return Page(items=[_model(conn, agent, *seen[agent.id], now) for agent in known if agent.id in seen])

    return await ctx.db.read(work)


def _model(
    conn: Connection, agent: Agent, at: datetime, cluster: Cluster, now: datetime
) -> wire.ClusterModel:
    nodes, claims = wire.told(cluster)
    return wire.ClusterModel(
        entity=agent.entity,
        agent=agent.name,
        cluster=agent.locality.rpartition("/")[0] or agent.locality,
        host=agent.host,
        online=agent.online(now),
        queues=[queue.name for queue in queues.of_agent(conn, agent.id)],
        at=at,
        namespace=cluster.namespace,
        nodes=nodes,
        claims=claims,
    )


@router.post("/agents/{agent_id}/cluster", status_code=204, response_class=Response)
async def send_cluster(ctx: Ctx, caller: Speaker, agent_id: str, asked: wire.ClusterReport) -> None:
    """What the agent sees of the cluster that it drives, in place of what it said before."""
    now = ctx.now()

    def work(tx: Tx) -> None:
        claim.checked_agent(agents.hold(tx.conn, agent_id), caller, agent_id, asked.incarnation)
        clusters.save(tx.conn, agent_id, asked.to_domain(), at=now)
        tx.tell(PLACES)

    await ctx.db.write(work)
