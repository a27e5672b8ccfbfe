"""What is told in a rush goes out together; what is told after a quiet while goes out at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import pairwise

from muster.agent.ledger import InHand
from muster.agent.reporter import GATHER, Reporter
from muster.client.api import AsyncClient
from muster.client.settings import ClientSettings
from muster.domain.observation import Noted
from muster.domain.run import Priority, RunState
from muster.wire.agents import ClaimModel, ReportAnswer, ReportBatch
from muster.wire.runs import ResourcesModel, RetryModel, RunModel


class Server(AsyncClient):
    """Takes reports, and remembers when which of them came."""

    def __init__(self) -> None:
        super().__init__(settings=ClientSettings(url="http://127.0.0.1:9"))
        self.requests: list[tuple[float, list[int]]] = []

    async def send_reports(self, agent_id: str, batch: ReportBatch) -> ReportAnswer:
        now = asyncio.get_running_loop().time()
        self.requests.append((now, [report.seq for report in batch.reports]))
        return ReportAnswer()


def in_hand() -> InHand:
    run = RunModel(
        id="a123456789",
        name="a",
        state=RunState.CLAIMED,
        queue="local",
        project="p",
        entity="e",
        author="me",
        priority=Priority.MEDIUM,
        command=["true"],
        env={},
        config={},
        values={},
        training=None,
        retry=RetryModel(),
        snapshot=None,
        image=None,
        queue_version=1,
        nodes=1,
        resources=ResourcesModel(),
        attempt=1,
        failure=None,
        stop_requested_by=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        claimed_at=None,
        started_at=None,
        ended_at=None,
        version=1,
    )
    return InHand(claim=ClaimModel(run=run, bound_config={}, attempt=1, epoch=1, adopt=False, token="t"))


def test_a_rush_of_reports_goes_out_in_few_requests_in_order() -> None:
    async def scenario() -> None:
        async with Server() as server:
            reporter = Reporter(server, incarnation="i", on_refused=lambda key, epoch, why: None)
            sending = asyncio.create_task(reporter.run())
            item = in_hand()
            for number in range(200):
                reporter.tell(item, Noted(message=str(number)))
                await asyncio.sleep(0)
            await reporter.heard()
            sending.cancel()
        times = [at for at, _ in server.requests]
        assert all(later - earlier >= 0.9 * GATHER for earlier, later in pairwise(times))
        assert [seq for _, batch in server.requests for seq in batch] == list(range(1, 201))

    asyncio.run(scenario())


def test_a_report_after_a_quiet_while_does_not_wait() -> None:
    async def scenario() -> None:
        async with Server() as server:
            reporter = Reporter(server, incarnation="i", on_refused=lambda key, epoch, why: None)
            sending = asyncio.create_task(reporter.run())
            item = in_hand()
            reporter.tell(item, Noted(message="first"))
            await reporter.heard()
            await asyncio.sleep(2 * GATHER)
            reporter.tell(item, Noted(message="second"))
            turns = 0
            while len(server.requests) < 2:
                turns += 1
                await asyncio.sleep(0)
            sending.cancel()
        assert turns < 10  # of the loop: not a wait on the clock

    asyncio.run(scenario())
