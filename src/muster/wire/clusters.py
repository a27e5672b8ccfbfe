"""What agents see of the clusters they drive."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from muster.domain.cluster import MOST, Cluster, Node, VolumeClaim
from muster.wire.agents import Capacity
from muster.wire.base import Asked, Told
from muster.wire.runs import ResourcesModel

Name = Annotated[str, Field(min_length=1, max_length=253)]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]


class ClusterNodeModel(Asked):
    """A node of a cluster."""

    name: Name
    closed: str = Field(default="", max_length=512, description="Why no pod goes there; empty where one may.")
    gpu: str = Field(default="", max_length=128, description="The model of its GPUs, where it is labelled.")
    total: Capacity
    free: Capacity = Field(description="What no pod, of whomever, has asked for.")
    pods: int = Field(default=0, ge=0, le=1_000_000)


class VolumeClaimModel(Asked):
    """A volume claim that runs may mount."""

    namespace: Name
    name: Name
    size: Bytes = Field(default=0, description="Bytes; 0 where it has no volume yet.")
    modes: list[Annotated[str, Field(max_length=64)]] = Field(default_factory=list, max_length=8)
    bound: bool = False


class ClusterReport(Asked):
    """What an agent sees of its cluster; null: it may not look."""

    incarnation: str
    namespace: Annotated[str, Field(max_length=253)]
    nodes: list[ClusterNodeModel] | None = Field(default=None, max_length=MOST)
    claims: list[VolumeClaimModel] | None = Field(default=None, max_length=MOST)

    @classmethod
    def of(cls, cluster: Cluster, *, incarnation: str) -> ClusterReport:
        return cls(
            incarnation=incarnation,
            namespace=cluster.namespace,
            nodes=None if cluster.nodes is None else [_node(node) for node in cluster.nodes],
            claims=None if cluster.claims is None else [_claim(claim) for claim in cluster.claims],
        )

    def to_domain(self) -> Cluster:
        return Cluster(
            namespace=self.namespace,
            nodes=None
            if self.nodes is None
            else tuple(
                Node(**{**node.__dict__, "total": node.total.to_domain(), "free": node.free.to_domain()})
                for node in self.nodes
            ),
            claims=None
            if self.claims is None
            else tuple(
                VolumeClaim(**{**claim.__dict__, "modes": tuple(claim.modes)}) for claim in self.claims
            ),
        )


class ClusterModel(Told):
    """A cluster as one agent sees it."""

    entity: str
    agent: str
    cluster: str = Field(description="Equal for agents of one cluster.")
    host: str = Field(description="Its API server.")
    online: bool = Field(description="Is the agent there, to say what changes?")
    queues: list[str]
    at: datetime = Field(description="When it was looked at.")
    namespace: str = Field(description="Where runs go whose queue names none.")
    nodes: list[ClusterNodeModel] | None = Field(description="null: the agent may not look at nodes.")
    claims: list[VolumeClaimModel] | None = Field(description="null: the agent may not list claims.")


def _node(node: Node) -> ClusterNodeModel:
    return ClusterNodeModel(
        name=node.name,
        closed=node.closed[:512],
        gpu=node.gpu[:128],
        total=ResourcesModel.of(node.total),
        free=ResourcesModel.of(node.free),
        pods=node.pods,
    )


def _claim(claim: VolumeClaim) -> VolumeClaimModel:
    return VolumeClaimModel(
        namespace=claim.namespace,
        name=claim.name,
        size=claim.size,
        modes=list(claim.modes)[:8],
        bound=claim.bound,
    )


def told(cluster: Cluster) -> tuple[list[ClusterNodeModel] | None, list[VolumeClaimModel] | None]:
    """Its nodes and claims."""
    report = ClusterReport.of(cluster, incarnation="")
    return report.nodes, report.claims
