"""An agent that starts nothing: it registers, claims over HTTP, and says that all went well."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from muster.client.api import AsyncClient
from muster.domain.observation import ReplicaState
from muster.wire.agents import (
    AgentRequest,
    ClaimModel,
    HeldModel,
    PollRequest,
    ReplicaFact,
    ReportBatch,
    ReportModel,
)
from muster.wire.runs import ResourcesModel

_ROOM = ResourcesModel(millicpus=10**9, memory=2**50)


@dataclass(kw_only=True)
class PlayedAgent:
    client: AsyncClient
    id: str
    incarnation: str
    held: list[HeldModel] = field(default_factory=list)

    @classmethod
    async def register(cls, client: AsyncClient, name: str) -> PlayedAgent:
        incarnation = os.urandom(8).hex()
        request = AgentRequest(
            name=name,
            incarnation=incarnation,
            engine="process",
            host=name,
            locality=name,
            version="bench",
            max_jobs=10_000,
            total=_ROOM,
            queues=["local"],
        )
        return cls(client=client, id=(await client.register_agent(request)).id, incarnation=incarnation)

    async def claim(self, slots: int) -> int:
        """One request for work; how many runs it brought."""
        request = PollRequest(incarnation=self.incarnation, held=self.held, slots=slots, free=_ROOM, wait=0)
        answer = await self.client.poll_work(self.id, request)
        self.held += [_held(claim) for claim in answer.claims]
        return len(answer.claims)

    async def end_all(self) -> None:
        """Report that everything it holds has succeeded."""
        done = ReplicaFact(rank=0, state=ReplicaState.SUCCEEDED, exit_code=0, log_bytes=0)
        reports = [
            ReportModel(run_id=item.run_id, attempt=item.attempt, epoch=item.epoch, seq=1, fact=done)
            for item in self.held
        ]
        self.held = []
        await self.client.send_reports(self.id, ReportBatch(incarnation=self.incarnation, reports=reports))


def _held(claim: ClaimModel) -> HeldModel:
    return HeldModel(run_id=claim.run.id, attempt=claim.attempt, epoch=claim.epoch)
