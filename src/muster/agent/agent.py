"""The agent: one held request for work and commands, and a driver for every run it is given.

What it promises, whoever is killed when:

- a run is started only under a claim that is durable at the server;
- the end of an attempt is told only after all of its log is there;
- nothing on the machine is removed before the server has heard how it ended;
- what another agent has taken over is let go without a touch.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

from muster._version import __version__
from muster.agent.config import AgentConfig
from muster.agent.ledger import InHand, Ledger
from muster.agent.postmortem import find_cause
from muster.agent.prepare import Preparer, work_of
from muster.agent.reporter import PAUSES, TRY_AGAIN, Reporter
from muster.agent.shipper import Shipper
from muster.client.api import AsyncClient
from muster.domain.errors import CannotPlace, Conflict, MusterError, NotFound, Overtaken
from muster.domain.failure import advice_for
from muster.domain.observation import (
    AttemptKey,
    End,
    EndSeen,
    Failure,
    FailureSeen,
    Noted,
    Observation,
    Phase,
    PhaseSeen,
    ReplicaSeen,
    ReplicaState,
)
from muster.domain.resources import Resources
from muster.domain.run import RENEW_EVERY
from muster.engine.port import Engine, Inventory, Place, Rendered, Work
from muster.wire.agents import (
    AgentModel,
    AgentRequest,
    LeaveRequest,
    ManifestFact,
    PollAnswer,
    PollRequest,
    UsageBatch,
    UsageSample,
)
from muster.wire.runs import ResourcesModel

log = structlog.get_logger()
USAGE_FIRST, USAGE_EVERY = 5.0, 10.0
TIDY_EVERY = 3600.0
PLACE_AGAIN = 0.25  #: seconds until an attempt that found no room is tried again
GOODBYE = 10.0  #: seconds an agent takes to leave properly

Render = Callable[[Work], Rendered]


class AgentOvertaken(Overtaken):
    code = "agent_overtaken"
    title = "Another agent has this name"


class Agent:
    def __init__(self, config: AgentConfig, client: AsyncClient, engine: Engine, render: Render) -> None:
        self._config = config
        self._client = client
        self._engine = engine
        self._render = render
        self._incarnation = os.urandom(8).hex()
        self._ledger = Ledger()
        self._reporter = Reporter(client, incarnation=self._incarnation, on_refused=self._let_go)
        self._shipper = Shipper(
            client, engine, self._ledger, incarnation=self._incarnation, on_refused=self._let_go
        )
        self._preparer = Preparer(config.data_dir, client)
        self._me: AgentModel | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(
        self,
        stop: asyncio.Event,
        *,
        stop_runs: bool = False,
        on_ready: Callable[[AgentModel], None] = lambda me: None,
    ) -> None:
        """Serve until `stop` is set. Runs go on, unless `stop_runs` ends them first."""
        inventory = await self._engine.inventory()
        await self._register(inventory, stop)
        if self._me is None:
            return
        on_ready(self._me)
        loops = [self._poll_forever(inventory), self._observe_forever(), self._reporter.run()]
        loops += [self._shipper.run(), self._usage_forever(), self._tidy_forever()]
        for loop in loops:
            self._spawn(loop)
        self._spawn(self._watch(stop))
        try:
            await self._over
            with suppress(TimeoutError):
                await asyncio.wait_for(self._say_goodbye(stop_runs=stop_runs), None if stop_runs else GOODBYE)
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._engine.close()

    # work and commands

    async def _register(self, inventory: Inventory, stop: asyncio.Event) -> None:
        request = AgentRequest(
            name=self._config.name,
            incarnation=self._incarnation,
            engine=self._engine.kind,
            host=inventory.host,
            locality=inventory.locality,
            version=__version__,
            max_jobs=self._config.jobs(),
            total=ResourcesModel.of(inventory.total),
            devices=[device.__dict__ for device in inventory.devices],
            queues=list(self._config.queues),
            entity=self._config.entity,
        )
        tries = 0
        while not stop.is_set():
            try:
                self._me = await self._client.register_agent(request)
                self._reporter.agent_id = self._shipper.agent_id = self._me.id
                return
            except TRY_AGAIN as error:
                if tries == 0:
                    log.warning("cannot register yet", reason=str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1

    async def _poll_forever(self, inventory: Inventory) -> None:
        tries = 0
        while self._me is not None:
            try:
                answer = await self._client.poll_work(self._me.id, await self._poll_request())
                tries = 0
            except TRY_AGAIN as error:
                if tries == 0:
                    log.warning("the server does not answer; runs go on", reason=str(error))
                await asyncio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1
                continue
            except NotFound:
                log.warning("the server does not know this agent any more; registering again")
                await self._register(inventory, asyncio.Event())
                continue
            except Conflict as error:
                raise AgentOvertaken(error.detail, hint=error.hint) from error
            self._take(answer)

    async def _poll_request(self) -> PollRequest:
        free = await self._engine.free() - self._ledger.promised()
        return PollRequest(
            incarnation=self._incarnation,
            held=self._ledger.held(),
            slots=max(0, self._config.jobs() - len(self._ledger)),
            free=ResourcesModel.of(_not_below_zero(free)),
            wait=RENEW_EVERY.total_seconds(),
        )

    def _take(self, answer: PollAnswer) -> None:
        for dropped in answer.drops:
            self._let_go(dropped.to_domain(), "stale")
        for claim in answer.claims:
            known = self._ledger.get(claim.key)
            if known is not None and known.claim.epoch >= claim.epoch:
                continue
            if known is not None:
                self._let_go(claim.key, "stale")
            item = InHand(claim=claim)
            self._ledger.add(item)
            item.driver = self._spawn(self._drive(item))
        for asked in answer.stops:
            held = self._ledger.get(asked.to_domain())
            if held is not None:
                self._stop(held)

    # one attempt

    async def _drive(self, item: InHand) -> None:
        """From claim to the engine. What happens then comes as observations."""
        try:
            if item.claim.adopt and await self._engine.adopt(item.key, item.claim.epoch):
                log.info("took over a run", run=item.key.run_id, attempt=item.key.attempt)
                item.submitted = True
                self._shipper.wake()
                return
            await self._start(item)
        except Overtaken:
            self._let_go(item.key, "overtaken on this host")
        except MusterError as error:
            self._could_not_start(item, error.code, error.detail, error.hint)
        except OSError as error:
            self._could_not_start(item, "could_not_start", f"It could not be started: {error}.", "")

    async def _start(self, item: InHand) -> None:
        claim = item.claim
        if claim.run.snapshot is not None:
            self._reporter.tell(item, PhaseSeen(phase=Phase.PREPARING))
        work = work_of(claim)
        rendered = self._render(work)
        await self._engine.check(rendered)
        place = await self._prepare_patiently(item)
        self._reporter.tell_wire(item, ManifestFact(manifest=dict(rendered.manifest)))
        item.shipped = dict.fromkeys(range(item.members), 0)
        await self._submit_when_there_is_room(item, rendered, place)
        item.submitted = True
        self._shipper.wake()

    async def _prepare_patiently(self, item: InHand) -> Place:
        """Preparing needs the server; a server that is away for a while is no reason to fail."""
        tries = 0
        while True:
            try:
                return await self._preparer.prepare(
                    item.claim, say=lambda line: self._reporter.tell(item, Noted(message=line))
                )
            except TRY_AGAIN:
                await asyncio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1

    async def _submit_when_there_is_room(self, item: InHand, rendered: Rendered, place: Place) -> None:
        told = False
        while True:
            item.submitting = True
            try:
                return await self._engine.submit(rendered, place)
            except CannotPlace as error:
                if not told:
                    self._reporter.tell(item, PhaseSeen(phase=Phase.PENDING, detail=error.detail))
                    told = True
            finally:
                item.submitting = False
            await asyncio.sleep(PLACE_AGAIN)

    def _could_not_start(self, item: InHand, kind: str, summary: str, hint: str) -> None:
        if item.ending:
            return
        failure = Failure(kind=kind, summary=summary, advice=hint or advice_for(kind))
        self._reporter.tell(item, FailureSeen(failure=failure))
        self._finish(item, End.COULD_NOT_START, summary)

    def _stop(self, item: InHand) -> None:
        if item.stopping:
            return
        item.stopping = True
        if item.submitted:
            self._spawn(self._engine.stop(item.key))
        else:
            self._spawn(self._stop_before_start(item))

    async def _stop_before_start(self, item: InHand) -> None:
        """Stop while it is being prepared. If the engine is just starting it, stop it there."""
        if item.driver is not None:
            if not item.submitting:
                item.driver.cancel()
            await asyncio.wait([item.driver])
        if item.submitted:
            await self._engine.stop(item.key)
        else:
            self._finish(item, End.COULD_NOT_START, "It was stopped before it started.")

    def _finish(self, item: InHand, end: End, reason: str) -> None:
        """End an attempt that has no members to tell its end."""
        if not item.ending:
            item.ending = True
            self._reporter.tell(item, EndSeen(end=end, reason=reason))
            item.finisher = self._spawn(self._put_away(item))

    def _let_go(self, key: AttemptKey, why: str) -> None:
        item = self._ledger.remove(key)
        if item is None:
            return
        log.warning("let go of a run", run=key.run_id, attempt=key.attempt, why=why)
        for task in (item.driver, item.finisher):
            if task is not None:
                task.cancel()
        self._spawn(self._engine.forget(key))

    # what happens

    async def _observe_forever(self) -> None:
        async for seen in self._engine.observe():
            item = self._ledger.get(seen.key)
            if item is not None and not item.ending:
                self._note(item, seen)

    def _note(self, item: InHand, seen: Observation) -> None:
        match seen.fact:
            case ReplicaSeen(replica=replica) if replica.state.ended:
                item.ended[replica.rank] = replica
                if len(item.ended) < item.members:
                    self._reporter.tell(item, seen.fact)
                else:
                    item.ending = True
                    item.finisher = self._spawn(self._see_through(item, seen.fact))
            case EndSeen(end=end, reason=reason):
                self._finish(item, end, reason)
            case _:
                self._reporter.tell(item, seen.fact)

    async def _see_through(self, item: InHand, last: ReplicaSeen) -> None:
        """The last member has ended: ship the rest of the logs, name the cause, tell the end."""
        await self._shipper.finish(item)
        if any(replica.state is ReplicaState.FAILED for replica in item.ended.values()):
            failure = await asyncio.to_thread(find_cause, self._engine, item.key, item.ended)
            self._reporter.tell(item, FailureSeen(failure=failure))
        self._reporter.tell(item, last)
        await self._put_away(item)

    async def _put_away(self, item: InHand) -> None:
        await self._reporter.heard()
        if self._ledger.remove(item.key) is not None:
            await self._engine.clean(item.key)
            self._preparer.clear(item.claim)

    async def _usage_forever(self) -> None:
        await asyncio.sleep(USAGE_FIRST)
        while True:
            samples = await self._engine.usage() if len(self._ledger) else []
            if samples and self._me is not None:
                batch = UsageBatch(
                    incarnation=self._incarnation,
                    samples=[
                        UsageSample(
                            **{name: value for name, value in sample.__dict__.items() if name != "key"},
                            **sample.key.__dict__,
                        )
                        for sample in samples
                    ],
                )
                with suppress(MusterError):  # a sample missed is a sample missed
                    await self._client.send_usage(self._me.id, batch)
            await asyncio.sleep(USAGE_EVERY)

    async def _tidy_forever(self) -> None:
        while True:
            await self._discard_leftovers()
            live = {item.key for item in self._ledger.items()}
            await self._preparer.prune(live=live, now=time.time())
            await asyncio.sleep(TIDY_EVERY)

    async def _discard_leftovers(self) -> None:
        """Remove what attempts left that ended while no agent was looking."""
        for key in await self._engine.leftovers():
            if self._ledger.get(key) is not None:
                continue
            with suppress(*TRY_AGAIN):
                try:
                    run = await self._client.get_run(key.run_id)
                    over = run.state.terminal or run.attempt > key.attempt
                except NotFound:
                    over = True
                if over and self._ledger.get(key) is None:
                    await self._engine.discard(key)

    # leaving

    async def _say_goodbye(self, *, stop_runs: bool) -> None:
        if self._me is None:
            return
        if stop_runs:
            await self._stop_everything()
        await self._reporter.heard()
        await self._client.leave_agent(self._me.id, LeaveRequest(incarnation=self._incarnation))

    async def _stop_everything(self) -> None:
        for item in self._ledger.items():
            with suppress(MusterError):
                await self._client.stop_run(item.key.run_id)
        await self._ledger.empty()

    async def _watch(self, stop: asyncio.Event) -> None:
        await stop.wait()
        if not self._over.done():
            self._over.set_result(None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """A task of the agent that fails ends the agent: half of one is worse than none."""
        self._tasks.discard(task)
        if task.cancelled() or self._over.done():
            return
        error = task.exception()
        if error is not None:
            self._over.set_exception(error)


def _not_below_zero(free: Resources) -> Resources:
    return Resources(millicpus=max(0, free.millicpus), memory=max(0, free.memory), gpus=max(0, free.gpus))
