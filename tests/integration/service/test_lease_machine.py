"""Claims, leases, epochs, reports and time against a pure model: whatever happens in whatever order.

The model is what the comments of `muster.service.claim` promise, written without SQL. After every step
the store must say what the model says; besides, what must never happen is checked from the store alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from muster.domain.errors import Conflict
from muster.domain.observation import End, EndSeen, Fact, Noted, ReplicaState
from muster.domain.run import LEASE_TTL, LOST_AFTER, UNHEARD_AFTER, EventType, Retry, Run, RunState
from muster.service.claim import RENEW_SLACK, TOUCH_EVERY, Assignment, Held
from muster.service.observe import Refused
from muster.service.sweep import BEAT
from muster.store import attempts, events, runs
from muster.store.attempts import Attempt
from muster.store.database import Tx
from world import READY, Worker, World, member, open_world

MAX_JOBS = 2
PLACES = {"a1": "host-1", "a2": "host-1", "b1": "host-2"}
Key = tuple[str, int]
Answer = tuple[list[tuple[str, int, int, bool]], list[Key], list[Key]]  #: claims, stops, drops
ENDS: dict[str, Fact] = {
    "succeeded": member(0, ReplicaState.SUCCEEDED),
    "failed": member(0, ReplicaState.FAILED),
    "stopped": member(0, ReplicaState.STOPPED),
    "could not start": EndSeen(end=End.COULD_NOT_START),
    "preempted": EndSeen(end=End.PREEMPTED),
    "lost": EndSeen(end=End.LOST),
}


@dataclass(kw_only=True)
class ModelRun:
    """A run is in its queue, live (with a holder, or an orphan), or over."""

    id: str
    tries: int
    born: datetime
    state: str = "queued"  #: queued, live, or the state it ended in
    attempt: int = 0
    epoch: int = 0
    holder: str | None = None  #: the agent that has the lease
    given_to: str | None = None  #: the agent that got the newest claim
    place: str | None = None
    lease: datetime | None = None
    stop: bool = False
    ended: dict[int, str] = field(default_factory=dict)  #: attempt → how it ended

    @property
    def given_at(self) -> datetime:
        """When the holder got the lease, or was heard when it was renewed."""
        assert self.lease is not None
        return self.lease - LEASE_TTL

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "live")

    def give(self, agent: str, until: datetime) -> None:
        self.epoch += 1
        self.state, self.holder, self.given_to, self.lease = "live", agent, agent, until

    def speaks(self, agent: str, held: Held) -> bool:
        return (self.given_to, self.attempt, self.epoch) == (agent, held.key.attempt, held.epoch)

    def end(self, how: str) -> None:
        """The attempt is over; the run too, unless it is tried again."""
        if self.stop and how != "succeeded":
            how = "stopped"
        again = how in ("preempted", "lost") and self.attempt <= self.tries
        finals = {"succeeded": "succeeded", "stopped": "stopped"}
        if how in ("stopped", "could not start") and not self.stop:
            how = "failed"
        self.ended[self.attempt] = how
        self.state = "queued" if again else finals.get(how, "failed")
        self.lease = None
        if again:
            self.holder = self.place = None


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """Something an agent was once given: it may speak under it at any later time."""

    worker: Worker
    held: Held


class LeaseMachine(RuleBasedStateMachine):
    world: World  #: set by the test: one database after the other
    tickets: Bundle[Ticket] = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.world.begin_anew().queue()
        self.paused = False
        self.runs: dict[str, ModelRun] = {}
        self.workers: dict[str, Worker] = {}
        self.seen: dict[str, datetime] = {}
        self.left: set[str] = set()
        self.beat: datetime | None = None
        self.final: dict[str, tuple[Run, int]] = {}
        self.highest: dict[str, tuple[int, int]] = {}
        for name in PLACES:
            self.register(name)

    def register(self, name: str) -> None:
        self.workers[name] = self.world.agent(name, locality=PLACES[name], max_jobs=MAX_JOBS)
        self.seen[name] = self.world.now
        self.left.discard(name)

    def orphan(self, name: str) -> None:
        for run in self.runs.values():
            if run.holder == name and not run.over:
                run.holder, run.lease = None, self.world.now

    # --- what can happen ---------------------------------------------------------------------------

    @rule(tries=st.integers(0, 2))
    def launch(self, tries: int) -> None:
        run_id = self.world.launch_one(retry=Retry(max=tries))
        self.runs[run_id] = ModelRun(id=run_id, tries=tries, born=self.world.now)

    @rule(
        target=tickets,
        name=st.sampled_from(sorted(PLACES)),
        arrives=st.booleans(),
        waited=st.sampled_from([0.0, 0.5, 2.0, 5.0]),
    )
    def poll(self, name: str, arrives: bool, waited: float) -> MultipleResults[Ticket]:
        """A request that was held for a while, and whose answer may be lost."""
        if name in self.left:
            return multiple()
        worker = self.workers[name]
        heard = self.world.now - timedelta(seconds=waited)
        expected = self.expect_poll(name, worker, heard)
        answer = worker.poll(deliver=arrives, heard=heard)
        assert self.plain(answer) == expected
        if not arrives:
            return multiple()
        return multiple(*(Ticket(worker=worker, held=worker.held[claim.run.id]) for claim in answer.claims))

    def expect_poll(self, name: str, worker: Worker, heard: datetime) -> Answer:
        """What the answer must be; moves the model there."""
        now = self.world.now
        mine = [run for run in self.runs.values() if run.holder == name and not run.over]
        named = [run.given_at for run in mine if self.names(worker, run)]
        last_word = max([heard, *named])
        due = any(run.given_at < heard - RENEW_SLACK for run in mine)
        if due or abs(last_word - self.seen[name]) > TOUCH_EVERY:
            self.seen[name] = last_word
        unconfirmed = any(run.given_at > self.seen[name] for run in mine)
        if due:
            for run in mine:
                run.lease = heard + LEASE_TTL
        said = {run_id: item.epoch for run_id, item in worker.held.items()}
        resent = [run for run in mine if said.get(run.id) != run.epoch]
        drops: list[Key] = []
        stops: list[Key] = []
        back: list[ModelRun] = []
        released = 0
        for run_id, item in worker.held.items():
            run = self.runs[run_id]
            if run.state == "queued" or run.epoch != item.epoch:
                drops.append((run_id, item.key.attempt))
            elif run.over:
                released += 1
            else:
                if run.holder is None:
                    back.append(run)
                if run.stop and not item.stopping:
                    stops.append((run_id, item.key.attempt))
        for run in back:
            run.holder, run.lease = name, heard + LEASE_TTL
        adopted = [
            run
            for run in self.runs.values()
            if run.state == "live" and run.holder is None and run.place == PLACES[name]
        ]
        for run in adopted:
            run.give(name, now + LEASE_TTL)
        unheard = resent + adopted
        claims = [(run.id, run.attempt, run.epoch, True) for run in unheard]
        has = sum(run.holder == name and not run.over for run in self.runs.values())
        slots = max(0, MAX_JOBS - len(worker.held)) + released - len(unheard)
        room = max(0, min(slots, MAX_JOBS - has)) if not self.paused else 0
        waiting = [run for run in self.runs.values() if run.state == "queued"]
        for run in sorted(waiting, key=lambda run: run.born)[:room]:
            run.attempt += 1
            run.place = PLACES[name]
            run.give(name, now + LEASE_TTL)
            claims.append((run.id, run.attempt, run.epoch, False))
        if unconfirmed and not (claims or stops or drops):
            self.seen[name] = last_word
        return sorted(claims), sorted(stops), sorted(drops)

    @staticmethod
    def names(worker: Worker, run: ModelRun) -> bool:
        return run.id in worker.held and worker.held[run.id].epoch == run.epoch

    def plain(self, answer: Assignment) -> Answer:
        claims = [
            (claim.run.id, claim.run.head.attempt, claim.run.head.epoch, claim.adopt)
            for claim in answer.claims
        ]
        stops = [(key.run_id, key.attempt) for key in answer.stops]
        drops = [(key.run_id, key.attempt) for key in answer.drops]
        return sorted(claims), sorted(stops), sorted(drops)

    @rule(ticket=tickets, how=st.sampled_from(["running", "note", *ENDS]), put_away=st.booleans())
    def report(self, ticket: Ticket, how: str, put_away: bool) -> None:
        """Word under a ticket, however old: from its agent, or from one that is overtaken."""
        worker, held = ticket.worker, ticket.held
        name = worker.agent.name
        run = self.runs[held.key.run_id]
        facts = {"running": member(0, ReplicaState.RUNNING), "note": Noted(message="hello"), **ENDS}
        if self.workers[name] is not worker:
            with pytest.raises(Conflict):
                worker.report(held, facts[how])
            return
        speaks = run.speaks(name, held)
        refused = worker.report(held, facts[how])
        assert refused == ([] if speaks else [Refused(key=held.key, epoch=held.epoch, reason="stale")])
        if speaks and how in ENDS and run.state == "live":
            run.end(how)
        if not speaks or put_away:
            self.forget(worker, held)

    @rule(ticket=tickets, how=st.sampled_from(sorted(ENDS)))
    def repeat(self, ticket: Ticket, how: str) -> None:
        """A number that was heard already brings no news, whatever comes with it."""
        worker, held = ticket.worker, ticket.held
        heard = worker.seqs.get((held.key.run_id, held.epoch), 0)
        if heard and self.workers[worker.agent.name] is worker:
            worker.say(held, {heard: ENDS[how]})

    @staticmethod
    def forget(worker: Worker, held: Held) -> None:
        known = worker.held.get(held.key.run_id)
        if known is not None and known.epoch == held.epoch:
            del worker.held[held.key.run_id]

    @rule(ticket=tickets)
    def lapse(self, ticket: Ticket) -> None:
        """The agent loses its memory of a run. It is sent again, or others adopt it."""
        self.forget(ticket.worker, ticket.held)

    @rule(name=st.sampled_from(sorted(PLACES)))
    def restart(self, name: str) -> None:
        self.orphan(name)
        self.register(name)

    @rule(name=st.sampled_from(sorted(PLACES)))
    def leave(self, name: str) -> None:
        if name not in self.left:
            self.orphan(name)
            self.workers[name].leave()
            self.left.add(name)

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        run = self.runs[data.draw(st.sampled_from(sorted(self.runs)))]
        self.world.stop(run.id)
        if run.over:
            return
        run.stop = True
        if run.state == "queued":
            run.state = "stopped"

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.world.pause(paused=paused)
        self.paused = paused

    @rule(seconds=st.sampled_from([0.4, 1, 4, 6, 14, 16, 120, 601, 3600, -3600]))
    def time_passes(self, seconds: float) -> None:
        """Or the clock is set."""
        self.world.clock.advance(seconds)

    @rule()
    def keep_time(self) -> None:
        """A server looks at the clock. What it did not see pass counts for nobody."""
        self.world.keep_time()
        now = self.world.now
        unseen = now - (self.beat or now)
        if self.beat is not None and -BEAT < unseen < BEAT:
            return
        self.beat = now
        if -BEAT < unseen < 1.5 * BEAT:
            return
        self.seen = {name: at + unseen - BEAT for name, at in self.seen.items()}
        for run in self.runs.values():
            if run.lease is not None:
                run.lease += unseen - BEAT

    @rule()
    def sweep(self) -> None:
        now = self.world.now
        self.world.sweep()
        live = [run for run in self.runs.values() if run.state == "live" and run.lease is not None]
        silent = [run for run in live if run.holder is not None and self.is_silent(run)]
        online = {
            PLACES[name] for name, at in self.seen.items() if name not in self.left and now - at < LEASE_TTL
        }
        for run in live:
            forsaken = run.holder is None and run.lease is not None and run.lease < now - LOST_AFTER
            if forsaken and (run.stop or online - {run.place}):
                run.end("lost")
        for run in silent:
            run.holder = None

    def is_silent(self, run: ModelRun) -> bool:
        """Its holder let the lease run out; or was given it and has not been heard of since, and somebody
        else can see it."""
        now = self.world.now
        seen = self.seen[run.holder or ""]
        others = any(
            PLACES[name] == run.place and name not in self.left and now - at < LEASE_TTL
            for name, at in self.seen.items()
            if name != run.holder
        )
        unheard = seen < run.given_at < now - UNHEARD_AFTER
        return run.given_at < now - LEASE_TTL or (unheard and others)

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        found, tries, ends = self.world.do(self.load)
        for run_id, model in self.runs.items():
            self.compare(found[run_id], tries[run_id], model)
            self.check_alone(found[run_id], tries[run_id], ends[run_id])

    def load(self, tx: Tx) -> tuple[dict[str, Run], dict[str, list[Attempt]], dict[str, int]]:
        found = runs.find_many(tx.conn, self.runs)
        tries = {run_id: attempts.of_run(tx.conn, run_id) for run_id in self.runs}
        ends = {
            run_id: sum(event.type is EventType.ATTEMPT for event in events.of_run(tx.conn, run_id))
            for run_id in self.runs
        }
        return found, tries, ends

    def compare(self, run: Run, tries: list[Attempt], model: ModelRun) -> None:
        head = run.head
        state = "queued" if run.state is RunState.QUEUED else "live" if run.state.active else run.state.value
        assert state == model.state
        assert (head.attempt, head.epoch) == (model.attempt, model.epoch)
        assert head.lease_expires_at == model.lease
        if state == "live":
            holder = self.workers[model.holder].agent.id if model.holder else None
            assert head.agent_id == holder
            assert (run.state is RunState.STOPPING) == model.stop
        known = {a.attempt: a.end.value for a in tries if a.end is not None}
        assert known == model.ended

    def check_alone(self, run: Run, tries: list[Attempt], ends: int) -> None:
        """From the store alone: what must be so in any history."""
        head = run.head
        before = self.highest.get(run.id, (0, 0))
        assert head.attempt >= before[0]
        assert head.epoch >= before[1]
        self.highest[run.id] = (head.attempt, head.epoch)
        assert [a.attempt for a in tries] == list(range(1, head.attempt + 1))
        assert all(a.end is not None for a in tries[:-1]), "one attempt at a time"
        assert ends == sum(a.end is not None for a in tries), "each attempt ends once"
        leased = head.lease_expires_at is not None
        assert leased == run.state.active, "live runs have a lease, others have none"
        assert (run.state is RunState.QUEUED) + leased + run.state.terminal == 1, "no run is lost"
        if run.id in self.final:
            assert self.final[run.id] == (run, head.last_event), "terminal is final"
        if run.state.terminal:
            self.final[run.id] = (run, head.last_event)


@pytest.mark.parametrize("database", sorted(READY))
def test_leases_do_what_the_model_does(database: str, tmp_path: Path) -> None:
    world = open_world(READY[database](tmp_path))

    class Machine(LeaseMachine):
        pass

    Machine.world = world
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
    world.close()
