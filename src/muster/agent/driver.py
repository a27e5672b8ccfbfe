"""One attempt from claim to acknowledged end: prepared, submitted, watched, explained, put away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

import structlog

from muster._failpoint import failpoint
from muster.agent.ledger import InHand, Ledger
from muster.agent.postmortem import find_cause
from muster.agent.prepare import Preparer, work_of
from muster.agent.reporter import PAUSES, TRY_AGAIN, Reporter
from muster.agent.shipper import Shipper
from muster.domain.errors import CannotPlace, MusterError, Overtaken
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
from muster.domain.run import RunState
from muster.engine.port import NO_LOGS, Engine, Place, Rendered, Work
from muster.wire.agents import ClaimModel, ManifestFact

log = structlog.get_logger()
#: seconds until what found no room, or another agent acting, is tried again
PLACE_AGAIN = (0.25,) * 20 + (0.5, 1.0, 2.0)

Render = Callable[[Work], Rendered]


class Spawn(Protocol):
    """Starts a task that ends the agent if it fails."""

    def __call__(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class Driver:
    """Drives all attempts in hand; each has at most one task at a time that changes it."""

    def __init__(
        self,
        *,
        engine: Engine,
        render: Render,
        ledger: Ledger,
        reporter: Reporter,
        shipper: Shipper,
        preparer: Preparer,
        macros: Mapping[str, str],
        spawn: Spawn,
        is_heard: Callable[[], bool],
    ) -> None:
        """`macros` are those that this agent alone knows: its allow-listed environment. `is_heard`: the
        server renewed this agent's leases lately, so that what it holds is its own."""
        self._engine = engine
        self._render = render
        self._ledger = ledger
        self._reporter = reporter
        self._shipper = shipper
        self._preparer = preparer
        self._macros = macros
        self._spawn = spawn
        self._is_heard = is_heard

    def take(self, claim: ClaimModel) -> None:
        """Begin with a claim, unless it is in hand already."""
        known = self._ledger.get(claim.key)
        if known is not None and known.claim.epoch >= claim.epoch:
            return
        if known is not None:
            self.let_go(claim.key, "stale")
        item = InHand(claim=claim, seq=claim.report_seq)
        self._ledger.add(item)
        item.driver = self._spawn(self._drive(item))

    def stop(self, item: InHand) -> None:
        if item.stopping:
            return
        item.stopping = True
        self._spawn(self._stop_on_engine(item) if item.submitted else self._stop_before_start(item))

    def let_go(self, key: AttemptKey, why: str) -> None:
        item = self._ledger.remove(key)
        if item is None:
            return
        log.warning("let go of a run", run=key.run_id, attempt=key.attempt, why=why)
        for task in (item.driver, item.finisher):
            if task is not None:
                task.cancel()
        self._spawn(self._engine.forget(key))

    async def observe_forever(self) -> None:
        async for seen in self._engine.observe():
            item = self._ledger.get(seen.key)
            if item is not None and not item.ending:
                self._note(item, seen)

    async def _drive(self, item: InHand) -> None:
        """From claim to the engine. What happens then comes as observations."""
        try:
            if item.claim.adopt and await self._adopt(item):
                log.info("took over a run", run=item.key.run_id, attempt=item.key.attempt)
            elif item.claim.adopt and item.claim.run.state in (RunState.STARTING, RunState.RUNNING):
                # It ended and was put away, and the server is a restored one that forgot. Not again under
                # the same number: the log of this attempt is written.
                self._finish(
                    item, End.LOST, "It had started, but nothing of it can be found on this machine."
                )
            elif not item.stopping:
                await self._start(item)
        except Overtaken:
            self.let_go(item.key, "overtaken on this host")
        except MusterError as error:
            self._could_not_start(item, error.code, error.detail, error.hint)
        except OSError as error:
            self._could_not_start(item, "could_not_start", f"It could not be started: {error}.", "")

    async def _adopt(self, item: InHand) -> bool:
        """Take charge of what another agent started; False: it started nothing."""
        item.submitting = True
        try:
            while True:
                try:
                    failpoint("adopt.before")
                    logs = await self._shipper.ends(item) if self._engine.marks_logs else NO_LOGS
                    item.submitted = await self._engine.adopt(
                        item.key, item.claim.epoch, logs, item.claim.bound_config
                    )
                    failpoint("adopt.after")
                    break
                except CannotPlace as error:
                    log.warning("cannot take over a run yet", run=item.key.run_id, reason=error.detail)
                    await asyncio.sleep(PLACE_AGAIN[0])
        finally:
            item.submitting = False
        self._shipper.wake()
        return item.submitted

    async def _start(self, item: InHand) -> None:
        claim = item.claim
        if claim.run.snapshot is not None or claim.run.git is not None:
            self._reporter.tell(item, PhaseSeen(phase=Phase.PREPARING))
        rendered = self._render(work_of(claim, macros=self._macros))
        if not await self._when_there_is_room(item, lambda: self._engine.check(rendered)):
            return
        place = await self._prepare_patiently(item)
        self._reporter.tell_wire(item, ManifestFact(manifest=dict(rendered.manifest)))
        item.shipped = dict.fromkeys(range(item.members), 0)
        item.submitted = await self._when_there_is_room(item, lambda: self._submit(item, rendered, place))
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

    async def _when_there_is_room(self, item: InHand, act: Callable[[], Awaitable[None]]) -> bool:
        """False: it was asked to stop before there was room."""
        tries = 0
        while not item.stopping:
            try:
                await act()
                return True
            except CannotPlace as error:
                if tries == 0:
                    self._reporter.tell(item, PhaseSeen(phase=Phase.PENDING, detail=error.detail))
            await asyncio.sleep(PLACE_AGAIN[min(tries, len(PLACE_AGAIN) - 1)])
            tries += 1
        return False

    async def _submit(self, item: InHand, rendered: Rendered, place: Place) -> None:
        if not self._is_heard():  # it slept, perhaps past its lease, and the run may be another's by now
            raise CannotPlace("The server was not heard of lately; the run starts once it is.")
        item.submitting = True
        try:
            failpoint("submit.before")
            await self._engine.submit(rendered, place)
            failpoint("submit.after")
        finally:
            item.submitting = False

    def _could_not_start(self, item: InHand, kind: str, summary: str, hint: str) -> None:
        if item.ending:
            return
        known = kind if advice_for(kind) else "could_not_start"
        failure = Failure(kind=known, summary=summary, advice=hint or advice_for(known))
        self._reporter.tell(item, FailureSeen(failure=failure))
        self._finish(item, End.COULD_NOT_START, summary)

    async def _stop_on_engine(self, item: InHand) -> None:
        while True:
            try:
                return await self._engine.stop(item.key)
            except Overtaken:
                return self.let_go(item.key, "overtaken on this host")
            except CannotPlace:
                await asyncio.sleep(PLACE_AGAIN[0])

    async def _stop_before_start(self, item: InHand) -> None:
        """Stop while it is being prepared. If the engine is just starting it, stop it there."""
        if item.driver is not None:
            if not item.submitting:
                item.driver.cancel()
            await asyncio.wait([item.driver])
        if item.submitted:
            await self._stop_on_engine(item)
        else:
            self._finish(item, End.COULD_NOT_START, "It was stopped before it started.")

    def _finish(self, item: InHand, end: End, reason: str) -> None:
        """End an attempt that has no members to tell its end."""
        if not item.ending:
            item.ending = True
            self._preparer.clear(item.key)  # before the end is told: then another attempt may begin
            self._reporter.tell(item, EndSeen(end=end, reason=reason))
            item.finisher = self._spawn(self._put_away(item))

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
        self._preparer.clear(item.key)  # before the end is told: then another attempt may begin
        self._reporter.tell(item, last)
        await self._put_away(item)

    async def _put_away(self, item: InHand) -> None:
        await self._reporter.heard()
        if self._ledger.remove(item.key) is not None:
            await self._clean(item.key)

    async def _clean(self, key: AttemptKey) -> None:
        while True:
            try:
                failpoint("clean.before")
                await self._engine.clean(key)
                failpoint("clean.after")
                return
            except CannotPlace as error:  # another agent is acting on the run just now
                log.warning("cannot clean up yet", run=key.run_id, reason=error.detail)
                await asyncio.sleep(PLACE_AGAIN[-1])
            except MusterError as error:  # what stays is a leftover, and found again as one
                log.warning("could not clean up", run=key.run_id, reason=error.detail)
                return
