"""Claims, leases, epochs: who may speak for a run, and what becomes of one whose agent goes silent."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from muster.domain.access import Role
from muster.domain.errors import BadInput, Conflict, NotFound
from muster.domain.observation import (
    AttemptKey,
    End,
    EndSeen,
    Fact,
    Failure,
    FailureSeen,
    Noted,
    ReplicaState,
)
from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL, LOST_AFTER, UNHEARD_AFTER, AttemptEnd, EventType, Retry, RunState
from muster.domain.training import Training
from muster.service import fleet, sweep
from muster.service.bus import agent_topic, locality_topic, queue_topic, run_topic
from muster.service.claim import Held
from muster.service.observe import Refused
from world import MACHINE, Worker, World, member, order, phase

UP, DONE, BAD = ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.FAILED
PAST_LEASE = LEASE_TTL + timedelta(seconds=1)


def silence(world: World) -> None:
    """All agents are silent for longer than a lease, and the server notices."""
    world.clock.advance(PAST_LEASE)
    world.sweep()


def lose(world: World) -> None:
    """All agents stay silent until their runs are given up, because another machine could do them."""
    silence(world)
    world.clock.advance(LOST_AFTER)
    world.agent("witness", locality="elsewhere")
    world.sweep()


def stale(held: Held) -> list[Refused]:
    return [Refused(key=held.key, epoch=held.epoch, reason="stale")]


# --- the plain way ---------------------------------------------------------------------------------


def test_a_run_goes_from_launch_to_its_end(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    states = [world.run(run_id).state]
    for fact in (phase("preparing"), phase("pending"), member(0, ReplicaState.STARTING), member(0, UP)):
        assert agent.report(held, fact) == []
        states.append(world.run(run_id).state)
    agent.report(held, member(0, DONE, exit_code=0, log_bytes=10))
    run = world.run(run_id)
    assert states == ["claimed", "preparing", "pending", "starting", "running"]
    assert (run.state, run.head.attempt, run.head.epoch) == (RunState.SUCCEEDED, 1, 1)
    assert run.ended_at == world.now
    assert run.head.lease_expires_at is None
    assert [(a.end, a.epoch) for a in world.attempts(run_id)] == [(AttemptEnd.SUCCEEDED, 1)]


def test_the_state_is_what_the_events_add_up_to(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one(retry=Retry(max=1))
    held = agent.claim(run_id)
    agent.report(held, phase("preparing"), member(0, UP))
    lose(world)
    held = agent.claim(run_id)
    agent.report(held, member(0, BAD, exit_code=3))
    events = world.events(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    moves = [event.data for event in events if event.type is EventType.STATE]
    state = None
    for move in moves:
        assert move.get("from") == state
        state = move["to"]
    assert state == world.run(run_id).state == "failed"


def test_a_gang_runs_when_all_its_members_run(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one(training=Training(nodes=3))
    held = agent.claim(run_id)
    seen = []
    for rank in (2, 0, 1):
        agent.report(held, member(rank, UP))
        seen.append(world.run(run_id).state)
    assert seen == ["starting", "starting", "running"]


def test_a_failure_is_kept_with_run_and_attempt(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    cause = Failure(kind="out_of_memory", summary="Rank 0 ran out of memory.", advice="Use less.")
    agent.report(held, member(0, UP), FailureSeen(failure=cause), member(0, BAD, exit_code=1))
    assert world.run(run_id).failure == cause
    assert world.attempts(run_id)[0].failure == cause


def test_a_commit_tells_those_who_wait(world: World) -> None:
    agent = world.agent()
    run = world.launch(order())[0]
    run_id = run.id
    assert queue_topic(run.head.queue_id) in world.told
    held = agent.claim(run_id)
    assert run_topic(run_id) in world.told
    world.stop(run_id)
    assert agent_topic(agent.agent.id) in world.told
    agent.report(held, member(0, ReplicaState.STOPPED))
    assert agent_topic(agent.agent.id) in world.told, "there is room again"


# --- reports ---------------------------------------------------------------------------------------


def test_the_same_report_twice_is_one_report(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    facts: dict[int, Fact] = {1: phase("preparing"), 2: Noted(message="copying"), 3: member(0, UP)}
    agent.say(held, facts)
    before = world.events(run_id)
    assert agent.say(held, facts) == []
    assert agent.say(held, {1: facts[1]}) == []
    assert world.events(run_id) == before


def test_reports_in_the_wrong_order_within_a_batch_end_the_same(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    facts: dict[int, Fact] = {3: member(0, DONE), 1: phase("preparing"), 2: member(0, UP)}
    agent.say(held, facts)
    assert world.run(run_id).state is RunState.SUCCEEDED


def test_a_late_report_after_the_end_changes_nothing(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, member(0, DONE))
    before = world.run(run_id), world.events(run_id)
    assert agent.report(held, member(0, BAD, restarts=1), EndSeen(end=End.LOST)) == []
    assert (world.run(run_id), world.events(run_id)) == before


@pytest.mark.parametrize("epoch", [0, 2, 99])
def test_a_report_under_another_epoch_is_refused_and_changes_nothing(world: World, epoch: int) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    before = world.run(run_id), world.events(run_id)
    other = Held(key=held.key, epoch=epoch)
    assert agent.report(other, member(0, DONE)) == stale(other)
    assert (world.run(run_id), world.events(run_id)) == before


def test_a_report_about_nothing_is_refused_by_name(world: World) -> None:
    agent = world.agent()
    ghost = Held(key=AttemptKey(run_id="zzzzzzzzzz", attempt=1), epoch=1)
    assert agent.report(ghost, member(0, DONE)) == [Refused(key=ghost.key, epoch=ghost.epoch, reason="gone")]


def test_an_agent_cannot_speak_for_a_run_that_another_has(world: World) -> None:
    mine, other = world.agent("a1"), world.agent("a2")
    run_id = world.launch_one()
    held = mine.claim(run_id)
    assert other.report(held, member(0, BAD)) == stale(held)
    assert world.run(run_id).state is RunState.CLAIMED


def test_an_agent_of_another_entity_cannot_touch_a_run(world: World) -> None:
    mine = world.agent()
    run_id = world.launch_one()
    held = mine.claim(run_id)
    eve = world.user("eve")
    world.queue("gpu", actor=eve)
    other = world.agent("a1", actor=eve)
    assert other.report(held, member(0, BAD)) == [Refused(key=held.key, epoch=held.epoch, reason="gone")]
    assert world.run(run_id).state is RunState.CLAIMED


def test_an_agent_of_another_entity_cannot_take_an_orphan_by_saying_it_holds_it(world: World) -> None:
    mine = world.agent()
    run_id = world.launch_one()
    held = mine.claim(run_id)
    eve = world.user("eve")
    world.queue("gpu", actor=eve)
    other = world.agent("a1", actor=eve)
    silence(world)
    other.held[run_id] = held
    assert other.poll().drops == (held.key,)
    assert world.run(run_id).head.agent_id is None


# --- answers that get lost, room that is counted ---------------------------------------------------


def test_a_claim_whose_answer_was_lost_is_sent_again(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    lost = agent.poll(deliver=False)
    again = agent.poll()
    assert [c.run.id for c in lost.claims] == [c.run.id for c in again.claims] == [run_id]
    assert again.claims[0].run.head.epoch == lost.claims[0].run.head.epoch == 1
    assert again.claims[0].adopt, "it may have been started: look first"
    assert agent.poll().claims == ()


def test_a_lost_answer_does_not_make_an_agent_take_more_than_it_may(world: World) -> None:
    agent = world.agent(max_jobs=1)
    first, second = world.launch_one(), world.launch_one()
    agent.poll(deliver=False)
    answer = agent.poll(slots=1)
    assert [c.run.id for c in answer.claims] == [first]
    assert world.run(second).state is RunState.QUEUED


def test_a_lost_answer_counts_against_the_room_that_is_free(world: World) -> None:
    agent = world.agent()
    first, second = (world.launch_one(values={"gpus": 4}) for _ in range(2))
    agent.poll(deliver=False)
    assert [c.run.id for c in agent.poll().claims] == [first]
    assert world.run(second).state is RunState.QUEUED


def test_a_run_that_ended_while_the_request_was_held_makes_room(world: World) -> None:
    agent = world.agent(max_jobs=1)
    first, second, third = (world.launch_one(values={"gpus": 4}) for _ in range(3))
    held = agent.claim(first)
    agent.report(held, member(0, DONE))
    answer = agent.poll(slots=0, free=Resources())
    assert [c.run.id for c in answer.claims] == [second]
    # `first` is still on its books, `second` has come: there is no room for a third.
    assert agent.poll(slots=0, free=Resources()).claims == ()
    assert world.run(third).state is RunState.QUEUED


def test_an_agent_gets_no_more_than_it_has_slots(world: World) -> None:
    agent = world.agent(max_jobs=3)
    for _ in range(5):
        world.launch_one(values={"cpus": 0})
    assert len(agent.poll().claims) == 3
    assert agent.poll().claims == ()


def test_an_agent_gets_no_more_than_fits(world: World) -> None:
    agent = world.agent()
    for _ in range(3):
        world.launch_one(values={"gpus": 2})
    assert len(agent.poll().claims) == 2


def test_many_runs_too_big_for_an_agent_do_not_hide_a_small_one(world: World) -> None:
    small = world.agent("small", total=Resources(millicpus=8000, memory=MACHINE.memory, gpus=1))
    world.agent("big", locality="host-2")
    world.launch(*[order(values={"gpus": 4}) for _ in range(100)])
    run_id = world.launch_one()
    small.poll()
    assert list(small.held) == [run_id]


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(world: World) -> None:
    agent = world.agent()
    running = world.launch_one()
    agent.claim(running)
    world.pause()
    waiting = world.launch_one()
    assert agent.poll().claims == ()
    world.pause(paused=False)
    assert [c.run.id for c in agent.poll().claims] == [waiting]


def test_an_agent_serves_only_its_queues(world: World) -> None:
    world.queue("other")
    agent = world.agent(queues=("other",))
    world.launch_one()
    assert agent.poll().claims == ()


def test_two_queues_of_one_agent_are_one_order(world: World) -> None:
    world.queue("other")
    agent = world.agent(queues=("gpu", "other"))
    ids = []
    for name in ("gpu", "other", "gpu", "other"):
        ids.append(world.launch_one(queue=name))
        world.clock.advance(1)
    assert [c.run.id for c in agent.poll().claims] == ids


# --- agents that restart, go silent, come back -----------------------------------------------------


def test_a_restarted_agent_takes_its_runs_over_at_once_and_the_old_one_is_refused(world: World) -> None:
    old = world.agent()
    run_id = world.launch_one()
    held = old.claim(run_id)
    old.report(held, member(0, UP))
    new = world.agent()
    assert agent_topic(old.agent.id) in world.told
    answer = new.poll()
    assert [(c.run.id, c.adopt, c.run.head.epoch) for c in answer.claims] == [(run_id, True, 2)]
    with pytest.raises(Conflict, match="overtaken"):
        old.poll()
    with pytest.raises(Conflict, match="overtaken"):
        old.report(held, member(0, BAD))
    assert world.run(run_id).state is RunState.RUNNING
    new.report(new.held[run_id], member(0, DONE))
    run = world.run(run_id)
    assert (run.state, run.head.attempt) == (RunState.SUCCEEDED, 1)


def test_an_agent_that_registers_again_as_itself_keeps_its_runs(world: World) -> None:
    agent = world.agent(incarnation="same-one")
    run_id = world.launch_one()
    held = agent.claim(run_id)
    world.agent(incarnation="same-one")
    assert not agent.poll()
    assert agent.report(held, member(0, DONE)) == []


def test_an_agent_that_polls_keeps_its_lease(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    for _ in range(10):
        world.clock.advance(LEASE_TTL - timedelta(seconds=1))
        agent.poll()
        world.sweep()
        head = world.run(run_id).head
        assert (head.agent_id, head.epoch) == (agent.agent.id, 1)


def test_a_silent_agents_run_is_adopted_where_its_processes_can_be_seen(world: World) -> None:
    dead, near = world.agent("dead"), world.agent("near")
    run_id = world.launch_one()
    dead.claim(run_id)
    dead.report(dead.held[run_id], member(0, UP))
    assert near.poll().claims == ()
    silence(world)
    assert locality_topic("host-1") in world.told
    claims = near.poll().claims
    assert [(c.run.id, c.adopt) for c in claims] == [(run_id, True)]
    assert [(c.run.head.epoch, c.run.head.attempt) for c in claims] == [(2, 1)]
    assert dead.report(dead.held[run_id], member(0, BAD)) == stale(dead.held[run_id])
    assert dead.poll().drops == (AttemptKey(run_id=run_id, attempt=1),)
    near.report(near.held[run_id], member(0, DONE))
    assert world.run(run_id).state is RunState.SUCCEEDED


def test_a_run_given_to_an_agent_that_was_away_already_is_soon_another_s(world: World) -> None:
    """Its request was held when it froze, and answered."""
    away, other = world.agent("a1"), world.agent("a2")
    run_id = world.launch_one()
    away.poll(heard=world.now - timedelta(seconds=2), deliver=False)
    assert world.run(run_id).head.agent_id == away.agent.id
    world.clock.advance(UNHEARD_AFTER)
    world.sweep()
    assert not other.poll(), "it is waited for as long as that"
    world.clock.advance(1)
    world.sweep()
    [claim] = other.poll().claims
    assert (claim.run.id, claim.adopt, claim.run.head.epoch) == (run_id, True, 2)
    assert away.poll(slots=0).claims == ()
    assert [event.data["what"] for event in world.events(run_id) if event.type is EventType.LEASE] == [
        "silent",
        "taken over",
    ]


def test_an_agent_that_is_alone_on_its_machine_is_waited_for_as_long_as_a_lease(world: World) -> None:
    """It may be slow; and nobody else can find what it does."""
    agent = world.agent("a1")
    world.agent("b1", locality="elsewhere")
    run_id = world.launch_one()
    agent.poll(heard=world.now - timedelta(seconds=2), deliver=False)
    world.clock.advance(UNHEARD_AFTER * 2)
    world.sweep()
    assert world.run(run_id).head.agent_id == agent.agent.id
    silence(world)
    assert world.run(run_id).head.agent_id is None


@pytest.mark.parametrize("skew", [0, 2])
def test_an_agent_that_was_heard_of_since_keeps_its_run_for_the_whole_lease(world: World, skew: int) -> None:
    """Also if the server it then speaks with has a clock that is behind."""
    agent = world.agent("a1")
    other = world.agent("a2")
    run_id = world.launch_one()
    agent.poll(heard=world.now - timedelta(seconds=2))
    assert not agent.poll(heard=world.now - timedelta(seconds=skew)), "it names what it has, and waits"
    world.clock.advance(LEASE_TTL - timedelta(seconds=skew))
    other.poll(slots=0)
    world.sweep()
    assert world.run(run_id).head.agent_id == agent.agent.id
    silence(world)
    assert world.run(run_id).head.agent_id is None


@pytest.mark.parametrize(
    "pauses",
    [
        pytest.param([0.05], id="at once, within the time that is not worth a note"),
        pytest.param([1.5, 0.7], id="when the lease is renewed, shortly after it was noted"),
    ],
)
def test_an_agent_that_asks_and_is_told_to_wait_was_heard_of(world: World, pauses: list[float]) -> None:
    agent = world.agent("a1")
    world.agent("a2")
    world.clock.advance(0.5)
    run_id = world.launch_one()
    agent.poll(heard=world.now - timedelta(seconds=0.3))
    for pause in pauses:
        world.clock.advance(pause)
        assert not agent.poll()
    world.clock.advance(UNHEARD_AFTER + timedelta(seconds=0.5))
    world.sweep()
    assert world.run(run_id).head.agent_id == agent.agent.id


def test_an_agent_that_is_given_one_run_after_the_other_is_heard_of(world: World) -> None:
    agent = world.agent("a1", max_jobs=8)
    world.agent("a2")
    for _ in range(8):
        world.clock.advance(0.6)
        run_id = world.launch_one()
        assert agent.poll(heard=world.now - timedelta(seconds=0.3)).claims
        world.sweep()
        assert world.run(run_id).head.agent_id == agent.agent.id
    assert len(agent.held) == 8
    assert not agent.poll().drops


def test_a_run_that_was_taken_back_is_not_taken_away_again(world: World) -> None:
    agent = world.agent("a1")
    run_id = world.launch_one()
    agent.claim(run_id)
    silence(world)
    assert not agent.poll(heard=world.now - timedelta(seconds=1)), "alive after all"
    world.agent("a2")
    for _ in range(4):
        world.clock.advance(UNHEARD_AFTER)
        world.sweep()
    assert world.run(run_id).head.agent_id == agent.agent.id


def test_a_silent_agents_run_is_not_adopted_from_another_place(world: World) -> None:
    dead = world.agent("dead")
    far = world.agent("far", locality="host-2")
    world.queue("other")
    unrelated = world.agent("unrelated", queues=("other",))
    run_id = world.launch_one()
    dead.claim(run_id)
    silence(world)
    assert far.poll().claims == ()
    assert unrelated.poll().claims == ()
    head = world.run(run_id).head
    assert (head.agent_id, head.epoch, head.state) == (None, 1, RunState.CLAIMED)


def test_a_paused_agent_that_returns_before_anybody_took_over_keeps_its_run(world: World) -> None:
    zombie = world.agent()
    run_id = world.launch_one()
    held = zombie.claim(run_id)
    silence(world)
    assert zombie.report(held, member(0, UP)) == []
    answer = zombie.poll()
    assert (answer.claims, answer.drops) == ((), ())
    head = world.run(run_id).head
    assert (head.agent_id, head.epoch, head.attempt) == (zombie.agent.id, 1, 1)
    assert zombie.report(held, member(0, DONE)) == []
    assert world.run(run_id).state is RunState.SUCCEEDED


def test_a_lost_run_is_tried_again_elsewhere_and_the_old_agent_is_refused(world: World) -> None:
    dead = world.agent("dead")
    run_id = world.launch_one()
    held = dead.claim(run_id)
    queue_id = world.run(run_id).head.queue_id
    lose(world)
    assert queue_topic(queue_id) in world.told
    assert world.run(run_id).state is RunState.QUEUED
    far = world.agent("far", locality="host-2")
    claims = far.poll().claims
    assert [(c.adopt, c.run.head.attempt, c.run.head.epoch) for c in claims] == [(False, 2, 2)]
    assert dead.report(held, member(0, DONE)) == stale(held)
    assert dead.poll().drops == (held.key,)
    assert world.run(run_id).state is RunState.CLAIMED


def test_a_run_waits_for_its_host_where_no_other_machine_serves_its_queue(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    silence(world)
    world.clock.advance(timedelta(days=1))
    world.agent("neighbour", locality="host-1")
    world.sweep()
    head = world.run(run_id).head
    assert (head.state, head.agent_id, head.attempt) == (RunState.CLAIMED, None, 1)


def test_a_late_word_between_the_loss_and_the_next_claim_changes_nothing(world: World) -> None:
    dead = world.agent("dead")
    run_id = world.launch_one()
    held = dead.claim(run_id)
    lose(world)
    dead.report(held, member(0, DONE))
    assert world.run(run_id).state is RunState.QUEUED
    assert world.attempts(run_id)[0].end is AttemptEnd.LOST
    assert held.key in dead.poll(slots=0).drops


@pytest.mark.parametrize("tries", [0, 1, 3])
def test_a_run_is_tried_as_often_as_it_says_then_fails_with_a_reason(world: World, tries: int) -> None:
    run_id = world.launch_one(retry=Retry(max=tries))
    for number in range(1, tries + 2):
        agent = world.agent(f"a{number}", locality=f"host-{number}")
        assert agent.claim(run_id).key.attempt == number
        lose(world)
    run = world.run(run_id)
    assert run.state is RunState.FAILED
    assert run.failure is not None
    assert (run.failure.kind, run.failure.summary) == ("lost", "Its agent has been silent for 10 minutes.")
    assert [a.end for a in world.attempts(run_id)] == [AttemptEnd.LOST] * (tries + 1)
    assert world.agent("late", locality="host-9").poll().claims == ()


def test_a_preempted_attempt_is_followed_by_another(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, member(0, UP), EndSeen(end=End.PREEMPTED, reason="A bigger one came."))
    assert world.run(run_id).state is RunState.QUEUED
    assert agent.poll().claims[0].run.head.attempt == 2


def test_a_failed_attempt_is_tried_again_only_where_the_run_says_so(world: World) -> None:
    agent = world.agent()
    plain = world.launch_one()
    stubborn = world.launch_one(retry=Retry(max=1, on=frozenset({AttemptEnd.FAILED})))
    agent.poll()
    for run_id in (plain, stubborn):
        agent.report(agent.held[run_id], member(0, BAD, exit_code=1))
    assert world.run(plain).state is RunState.FAILED
    assert world.run(stubborn).state is RunState.QUEUED
    assert world.run(stubborn).failure is None


def test_a_retry_keeps_its_place_in_the_order(world: World) -> None:
    agent = world.agent(max_jobs=1)
    first = world.launch_one()
    world.clock.advance(1)
    world.launch_one()
    held = agent.claim(first)
    agent.report(held, EndSeen(end=End.PREEMPTED))
    agent.held.clear()
    assert [c.run.id for c in agent.poll().claims] == [first]


def test_a_swept_world_with_many_silent_runs_forgets_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_AT_ONCE", 3)
    agent = world.agent()
    ids = [world.launch_one(values={"cpus": 0}) for _ in range(8)]
    agent.poll()
    world.clock.advance(PAST_LEASE)
    for _ in range(3):
        world.sweep()
    assert [world.run(run_id).head.agent_id for run_id in ids] == [None] * 8
    world.clock.advance(LOST_AFTER)
    world.agent("witness", locality="elsewhere")
    for _ in range(3):
        world.sweep()
    assert {world.run(run_id).state for run_id in ids} == {RunState.QUEUED}


def test_an_agent_that_leaves_lets_the_next_one_take_over_at_once(world: World) -> None:
    agent = world.agent("a1")
    run_id = world.launch_one()
    agent.claim(run_id)
    agent.leave()
    next_one = world.agent("a2")
    assert [c.run.head.epoch for c in next_one.poll().claims] == [2]
    assert run_id in next_one.held


def test_a_good_bye_of_an_older_incarnation_is_not_heard(world: World) -> None:
    old = world.agent()
    run_id = world.launch_one()
    new = world.agent()
    new.claim(run_id)
    old.leave()
    assert world.run(run_id).head.agent_id == new.agent.id


def test_an_agent_that_was_removed_must_register_again(world: World) -> None:
    agent = world.agent()
    with pytest.raises(Conflict, match="online"):
        world.do(lambda tx: fleet.forget(tx, world.owner, "a1", None, now=world.now))
    world.clock.advance(PAST_LEASE)
    world.do(lambda tx: fleet.forget(tx, world.owner, "a1", None, now=world.now))
    with pytest.raises(NotFound):
        agent.poll()


@pytest.mark.parametrize("jump", [timedelta(seconds=8), timedelta(hours=1), timedelta(hours=-1)])
def test_no_lease_runs_out_in_time_that_no_server_saw(world: World, jump: timedelta) -> None:
    """The server was away, the machine slept, or somebody set the clock."""
    agent = world.agent()
    run_id = world.launch_one()
    world.keep_time()
    agent.claim(run_id)
    left = left_of_lease(world, run_id)
    world.clock.advance(jump)
    world.keep_time()
    assert left_of_lease(world, run_id) == left - sweep.BEAT, "time until the next beat was due counts"
    world.sweep()
    assert world.run(run_id).head.agent_id == agent.agent.id
    silence(world)
    assert world.run(run_id).head.agent_id is None, "in time that is seen it does"


def left_of_lease(world: World, run_id: str) -> timedelta:
    expires = world.run(run_id).head.lease_expires_at
    assert expires is not None
    return expires - world.now


def test_the_clock_set_forward_starts_nothing_twice(world: World) -> None:
    """An orphan waits for its own host; that the clock jumps past `lost_after` must not end that."""
    agent, elsewhere = world.agent("a1"), world.agent("b1", locality="host-2")
    run_id = world.launch_one()
    world.keep_time()
    agent.claim(run_id)
    silence(world)
    world.keep_time()
    world.clock.advance(timedelta(hours=1))
    world.keep_time()
    elsewhere.poll()
    world.sweep()
    assert world.run(run_id).head.attempt == 1
    assert world.run(run_id).state.active


def test_while_a_server_is_there_time_is_not_touched(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    expires = world.run(run_id).head.lease_expires_at
    for _ in range(30):
        world.clock.advance(1)
        world.keep_time()
    assert world.run(run_id).head.lease_expires_at == expires


def test_a_held_request_does_not_keep_the_leases_of_a_dead_agent(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    heard = world.now
    world.clock.advance(LEASE_TTL - timedelta(seconds=1))
    agent.poll(heard=heard)
    world.clock.advance(timedelta(seconds=2))
    world.sweep()
    assert world.run(run_id).head.agent_id is None


# --- stops -----------------------------------------------------------------------------------------


def claimed(world: World) -> tuple[Worker, str, Held]:
    agent = world.agent()
    run_id = world.launch_one()
    return agent, run_id, agent.claim(run_id)


def test_a_waiting_run_is_stopped_at_once(world: World) -> None:
    run_id = world.launch_one()
    run = world.stop(run_id)
    assert (run.state, run.head.stop_requested_by, run.ended_at) == (RunState.STOPPED, "ann", world.now)
    assert world.agent().poll().claims == ()


@pytest.mark.parametrize(
    "facts",
    [
        (),
        (phase("preparing"),),
        (phase("pending"),),
        (member(0, ReplicaState.STARTING),),
        (member(0, UP),),
    ],
    ids=["claimed", "preparing", "pending", "starting", "running"],
)
@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (member(0, ReplicaState.STOPPED, signal=15), RunState.STOPPED),
        (member(0, BAD, exit_code=1), RunState.STOPPED),
        (EndSeen(end=End.COULD_NOT_START), RunState.STOPPED),
        (EndSeen(end=End.LOST), RunState.STOPPED),
        (EndSeen(end=End.PREEMPTED), RunState.STOPPED),
        (member(0, DONE, exit_code=0), RunState.SUCCEEDED),
    ],
    ids=["stopped", "failed", "not started", "lost", "preempted", "finished first"],
)
def test_a_live_run_is_stopped_by_its_agent(
    world: World, facts: tuple[Fact, ...], ending: Fact, state: RunState
) -> None:
    agent, run_id, held = claimed(world)
    agent.report(held, *facts)
    assert world.stop(run_id).state is RunState.STOPPING
    assert agent.poll().stops == (held.key,)
    assert agent.poll().stops == (), "it knows by now"
    agent.report(held, ending)
    assert world.run(run_id).state is state
    assert world.attempts(run_id)[0].ended_at == world.now


def test_asking_twice_is_asking_once(world: World) -> None:
    agent, run_id, held = claimed(world)
    world.stop(run_id)
    bob = world.user("bob", ann=Role.MEMBER)
    before = world.events(run_id)
    assert world.stop(run_id, actor=bob).head.stop_requested_by == "ann"
    agent.report(held, member(0, ReplicaState.STOPPED))
    world.stop(run_id)
    assert world.run(run_id).state is RunState.STOPPED
    stops = [event for event in world.events(run_id) if event.type is EventType.STOP]
    assert len(stops) == 1
    assert world.events(run_id)[: len(before)] == before


def test_an_orphan_that_was_asked_to_stop_is_stopped_by_who_adopts_it(world: World) -> None:
    _, run_id, _ = claimed(world)
    silence(world)
    world.stop(run_id)
    near = world.agent("near")
    claims = near.poll().claims
    assert claims[0].run.state is RunState.STOPPING
    assert near.poll().stops == (near.held[run_id].key,)


def test_an_orphan_that_was_asked_to_stop_and_stays_lost_is_stopped(world: World) -> None:
    _, run_id, _ = claimed(world)
    world.stop(run_id)
    lose(world)
    run = world.run(run_id)
    assert (run.state, run.failure) == (RunState.STOPPED, None)
    assert world.attempts(run_id)[0].end is AttemptEnd.STOPPED


def test_a_run_waiting_for_its_next_attempt_is_stopped_at_once(world: World) -> None:
    agent, run_id, held = claimed(world)
    agent.report(held, EndSeen(end=End.PREEMPTED))
    world.stop(run_id)
    assert world.run(run_id).state is RunState.STOPPED
    assert agent.poll().claims == ()


def test_the_last_request_of_an_agent_that_left_gets_nothing(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    agent.leave()
    world.launch_one()
    assert not agent.poll()
    assert world.run(run_id).head.agent_id is None


def test_a_claim_sent_again_says_which_reports_were_heard(world: World) -> None:
    agent = world.agent()
    held = agent.claim(world.launch_one())
    agent.report(held, Noted(message="one"))
    agent.held.clear()
    (again,) = agent.poll(slots=0).claims
    assert (again.adopt, again.report_seq) == (True, 1)


def test_a_draining_agent_keeps_its_runs_and_gets_no_new_one(world: World) -> None:
    agent = world.agent()
    agent.claim(world.launch_one())
    waiting = world.launch_one()
    assert not agent.poll(draining=True)
    assert [claim.run.id for claim in agent.poll().claims] == [waiting]


def test_any_text_of_a_program_can_be_kept(world: World) -> None:
    agent, run_id, held = claimed(world)
    strange = "nul \0, quote ', bell \a, \N{PILE OF POO}"
    agent.report(held, Noted(message=strange), member(0, BAD, reason=strange, node="n\0de"))
    assert world.run(run_id).state is RunState.FAILED
    assert any(event.data.get("message") == strange for event in world.events(run_id))


def test_text_that_no_database_keeps_is_refused_and_nothing_else(world: World) -> None:
    """SQLite keeps it, PostgreSQL does not; neither breaks."""
    with suppress(BadInput):
        world.agent("a\0b")
    assert world.agent("ab").agent.name == "ab"
