"""Telling the server what was seen: in order, in batches, again and again until it has heard."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from muster._failpoint import failpoint
from muster.agent.ledger import InHand
from muster.client.api import AsyncClient
from muster.domain.errors import (
    BadInput,
    MusterError,
    NotSignedIn,
    ServerUnreachable,
    TooLarge,
    Unavailable,
)
from muster.domain.observation import AttemptKey, Fact
from muster.wire.agents import FactModel, ReportBatch, ReportModel, fact_to_wire

log = structlog.get_logger()
BATCH = 2000
GATHER = 0.01  #: seconds from one request to the next: what comes in between goes together
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  #: seconds between tries while the server does not answer
TRY_AGAIN = (ServerUnreachable, Unavailable, NotSignedIn)


#: Called with attempt, epoch and reason when the server no longer takes our word for a run.
OnRefused = Callable[[AttemptKey, int, str], None]


class Reporter:
    """One sender, one order. What a restarted agent had not sent is seen again by its successor."""

    def __init__(self, client: AsyncClient, *, incarnation: str, on_refused: OnRefused) -> None:
        self._client = client
        self._incarnation = incarnation
        self._on_refused = on_refused
        self._waiting: deque[ReportModel] = deque()
        self._news = asyncio.Event()
        self._told = 0
        self._heard = 0
        self._listeners: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.agent_id = ""

    def tell(self, item: InHand, fact: Fact) -> None:
        self.tell_wire(item, fact_to_wire(fact))

    def tell_wire(self, item: InHand, fact: FactModel) -> None:
        report = ReportModel.model_construct(
            run_id=item.key.run_id,
            attempt=item.key.attempt,
            epoch=item.claim.epoch,
            seq=item.next_seq(),
            fact=fact,
        )
        self._waiting.append(report)
        self._told += 1
        self._news.set()

    async def heard(self) -> None:
        """Until all that was told before this call has been heard."""
        if self._heard < self._told:
            future = asyncio.get_running_loop().create_future()
            self._listeners.append((self._told, future))
            await future

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._news.wait()
            await asyncio.sleep(due - loop.time())
            due = loop.time() + GATHER
            batch = [self._waiting[i] for i in range(min(BATCH, len(self._waiting)))]
            await self._send(batch)
            for _ in batch:
                self._waiting.popleft()
            self._heard += len(batch)
            while self._listeners and self._listeners[0][0] <= self._heard:
                _, future = self._listeners.popleft()
                if not future.done():
                    future.set_result(None)
            if not self._waiting:
                self._news.clear()

    async def _send(self, batch: list[ReportModel]) -> None:
        request = ReportBatch.model_construct(incarnation=self._incarnation, reports=batch)
        tries = 0
        while True:
            try:
                failpoint("report.before")
                answer = await self._client.send_reports(self.agent_id, request)
                failpoint("report.after")
            except TRY_AGAIN as error:
                if tries == 0:
                    log.warning("the server does not take reports; they are kept", reason=str(error))
                await asyncio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1
            except MusterError as error:
                return await self._refused_for_good(batch, error)
            else:
                for refused in answer.refused:
                    key = AttemptKey(run_id=refused.run_id, attempt=refused.attempt)
                    self._on_refused(key, refused.epoch, refused.reason)
                return None

    async def _refused_for_good(self, batch: list[ReportModel], error: MusterError) -> None:
        """The agent was overtaken, or a report cannot be read: find that one, let go of its run alone.

        To let go touches nothing: what is on disk stays for whoever has the run now, or gets it next.
        """
        if len(batch) > 1 and isinstance(error, BadInput | TooLarge):
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
            return
        log.error("reports refused", reason=str(error), count=len(batch))
        for report in batch:
            key = AttemptKey(run_id=report.run_id, attempt=report.attempt)
            self._on_refused(key, report.epoch, error.code)
