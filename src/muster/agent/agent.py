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

from muster._failpoint import failpoint
from muster._version import __version__
from muster.agent.config import AgentConfig
from muster.agent.driver import Driver, Render
from muster.agent.ledger import Ledger
from muster.agent.prepare import ClusterPreparer, HostPreparer, Preparer
from muster.agent.reporter import PAUSES, TRY_AGAIN, Reporter
from muster.agent.shipper import Shipper
from muster.client.api import AsyncClient
from muster.domain.errors import CannotPlace, Conflict, MusterError, NotFound, Overtaken
from muster.domain.observation import (
    AttemptKey,
)
from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL, RENEW_EVERY
from muster.engine.port import Engine, Inventory
from muster.wire.agents import (
    AgentModel,
    AgentRequest,
    LeaveRequest,
    PollAnswer,
    PollRequest,
    UsageBatch,
    UsageSample,
)
from muster.wire.clusters import ClusterReport
from muster.wire.runs import ResourcesModel

log = structlog.get_logger()
USAGE_FIRST, USAGE_EVERY = 5.0, 10.0
CLUSTER_EVERY = 10.0  #: seconds between looks at a cluster in which something changes
POLL_PAUSE = 0.01  #: seconds from one request for work to the next: runs that end in between free one room
TIDY_EVERY, TIDY_AGAIN = 3600.0, 30.0  #: seconds; again where something could not be looked at or removed
GOODBYE = 10.0  #: seconds an agent takes to leave properly
STOP_RUNS = 120.0  #: and if it stops its runs first


class AgentOvertaken(Overtaken):
    code = "agent_overtaken"
    title = "Another agent has this name"


class Agent:
    def __init__(self, config: AgentConfig, client: AsyncClient, engine: Engine, render: Render) -> None:
        self._config = config
        self._client = client
        self._engine = engine
        self._incarnation = os.urandom(8).hex()
        self._ledger = Ledger()
        preparer = ClusterPreparer if engine.kind == "kubernetes" else HostPreparer
        self._preparer: Preparer = preparer(config.data_dir, client)
        self._reporter = Reporter(client, incarnation=self._incarnation, on_refused=self._refused)
        self._shipper = Shipper(
            client, engine, self._ledger, incarnation=self._incarnation, on_refused=self._refused
        )
        self._driver = Driver(
            engine=engine,
            render=render,
            ledger=self._ledger,
            reporter=self._reporter,
            shipper=self._shipper,
            preparer=self._preparer,
            macros=config.macros(os.environ),
            spawn=self._spawn,
            is_heard=lambda: time.monotonic() < self._heard_until,
        )
        self._heard_until = 0.0  #: monotonic; when the leases of the last answered request end
        self._me: AgentModel | None = None
        self._poll: asyncio.Task[None] | None = None
        self._draining = False
        self._let_go_of_something = asyncio.Event()
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
        self._poll = self._spawn(self._poll_forever(inventory))
        loops = [self._driver.observe_forever(), self._reporter.run(), self._shipper.run()]
        for loop in (*loops, self._usage_forever(), self._cluster_forever(), self._tidy_forever()):
            self._spawn(loop)
        self._spawn(self._watch(stop))
        try:
            await self._over
            with suppress(TimeoutError):
                patience = STOP_RUNS if stop_runs else GOODBYE
                await asyncio.wait_for(self._say_goodbye(stop_runs=stop_runs), patience)
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
                failpoint("register.before")
                self._me = await self._client.register_agent(request)
                failpoint("register.after")
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
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self._me is not None:
            await asyncio.sleep(due - loop.time())
            due = loop.time() + POLL_PAUSE
            asked = time.monotonic()
            try:
                answer = await self._client.poll_work(self._me.id, await self._poll_request())
                self._heard_until = asked + LEASE_TTL.total_seconds()
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
            failpoint("poll.after")
            self._take(answer)
            await asyncio.sleep(0)  # what was claimed starts before there is more talk

    async def _poll_request(self) -> PollRequest:
        slots = max(0, self._config.jobs() - len(self._ledger))
        try:
            free = await self._engine.free() - self._ledger.promised()
        except CannotPlace as error:
            log.warning("cannot tell what is free; taking nothing for now", reason=error.detail)
            free, slots = Resources(), 0
        return PollRequest(
            incarnation=self._incarnation,
            held=self._ledger.held(),
            slots=slots,
            draining=self._draining,
            free=ResourcesModel.of(_not_below_zero(free)),
            wait=RENEW_EVERY.total_seconds(),
        )

    def _take(self, answer: PollAnswer) -> None:
        for dropped in answer.drops:
            self._let_go(dropped.to_domain(), "stale")
        for claim in answer.claims:
            self._driver.take(claim)
        for asked in answer.stops:
            held = self._ledger.get(asked.to_domain())
            if held is not None:
                self._driver.stop(held)

    # beside the work

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

    async def _cluster_forever(self) -> None:
        while True:
            seen = await self._engine.cluster()
            if seen is not None and self._me is not None:
                report = ClusterReport.of(seen, incarnation=self._incarnation)
                with suppress(MusterError):  # an older server; or one that hears of it the next time
                    await self._client.send_cluster(self._me.id, report)
            await asyncio.sleep(CLUSTER_EVERY)

    async def _tidy_forever(self) -> None:
        while True:
            self._let_go_of_something.clear()
            try:
                is_tidy = await self._tidy()
            except CannotPlace as error:  # the engine cannot see what there is just now
                log.warning("cannot look for what runs left", reason=error.detail)
                is_tidy = False
            with suppress(TimeoutError):
                pause = TIDY_EVERY if is_tidy else TIDY_AGAIN
                await asyncio.wait_for(self._let_go_of_something.wait(), pause)

    async def _tidy(self) -> bool:
        """False: something is left that should go, or soon will have to."""
        is_tidy = await self._discard_leftovers()
        is_tidy = await self._clear_outputs() and is_tidy
        live = {item.key for item in self._ledger.items()} | set(await self._engine.leftovers())
        await self._preparer.prune(live=live, now=time.time())
        return is_tidy

    async def _discard_leftovers(self) -> bool:
        """Remove what attempts left that ended while no agent was looking. False: not all could be."""
        is_tidy = True
        for key in {*await self._engine.leftovers(), *self._preparer.empty()}:
            if self._ledger.get(key) is not None:
                continue
            try:
                run = await self._client.get_run(key.run_id)
                is_over = key.attempt <= run.state.ended_attempts(run.attempt)
                if is_over and self._ledger.get(key) is None:
                    failpoint("discard.before")
                    await self._engine.discard(key)
                    failpoint("discard.after")
                    self._preparer.clear(key, outputs=run.state.terminal)
            except NotFound:  # perhaps another server's, or another entity's: not ours to touch
                continue
            except MusterError as error:
                log.warning("could not remove what a run left", run=key.run_id, reason=error.detail)
                is_tidy = False
        return is_tidy

    async def _clear_outputs(self) -> bool:
        """Remove what runs never wrote to, whose last attempt was not the one to do so: a run may be stopped
        while it waits for another. False: one waits still."""
        is_tidy = True
        in_hand = {item.key.run_id for item in self._ledger.items()}
        for run_id in self._preparer.without_outputs():
            if run_id in in_hand:
                continue
            try:
                run = await self._client.get_run(run_id)
            except NotFound:  # as above
                continue
            except MusterError:  # it is asked again soon
                is_tidy = False
                continue
            if run.state.terminal:
                self._preparer.clear_outputs(run_id)
            elif not run.state.active:
                is_tidy = False
        return is_tidy

    def _refused(self, key: AttemptKey, epoch: int, why: str) -> None:
        item = self._ledger.get(key)
        if item is not None and item.claim.epoch == epoch:
            self._let_go(key, why)

    def _let_go(self, key: AttemptKey, why: str) -> None:
        self._driver.let_go(key, why)
        self._let_go_of_something.set()

    # leaving

    async def _say_goodbye(self, *, stop_runs: bool) -> None:
        if self._me is None:
            return
        if stop_runs:
            await self._stop_everything()
        if self._poll is not None:  # or it would ask for work again
            self._poll.cancel()
        await self._reporter.heard()
        await self._client.leave_agent(self._me.id, LeaveRequest(incarnation=self._incarnation))

    async def _stop_everything(self) -> None:
        self._draining = True
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
