"""A sentence for every wait and every end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.domain.observation import End, EndSeen, Fact, Failure, FailureSeen, Noted, ReplicaState
from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL, Retry
from world import World, member, order, phase

UP, DONE = ReplicaState.RUNNING, ReplicaState.SUCCEEDED


def test_no_agent_serves_the_queue(world: World) -> None:
    why = world.why(world.launch_one())
    assert why.summary == "It is number 1 in queue 'gpu': no agent serves this queue."
    assert why.advice == "Start one: muster agent --queue gpu"
    assert why.place == 1


def test_no_agent_is_online(world: World) -> None:
    world.agent()
    run_id = world.launch_one()
    world.clock.advance(timedelta(minutes=5))
    assert "no agent of this queue is online (the last one spoke 5 min ago)" in world.why(run_id).summary


def test_the_queue_is_paused(world: World) -> None:
    world.agent()
    run_id = world.launch_one()
    world.pause()
    why = world.why(run_id)
    assert why.summary.endswith("the queue is paused.")
    assert why.advice == "Resume it: muster queue resume gpu"


def test_it_is_next(world: World) -> None:
    world.agent()
    why = world.why(world.launch_one())
    assert why.summary.endswith("it is next, an agent will take it in a moment.")


def test_runs_are_ahead_of_it(world: World) -> None:
    world.agent()
    ahead = [run.id for run in world.launch(*[order(name=f"r{i}") for i in range(8)])]
    why = world.why(world.launch_one())
    assert why.summary == "It is number 9 in queue 'gpu': runs ahead of it come first."
    assert [run.id for run in why.ahead] == ahead[:5]
    assert why.details == ("3 more runs are ahead of it.",)


def test_the_agents_are_full(world: World) -> None:
    agent = world.agent(max_jobs=1)
    running = world.launch_one(name="busy")
    agent.claim(running)
    why = world.why(world.launch_one())
    assert why.summary.endswith("its agents run as many runs as they may (1).")
    assert [run.name for run in why.holding] == ["busy"]


def test_the_gpus_are_in_use_by_somebody(world: World) -> None:
    agent = world.agent()
    running = world.launch_one(name="busy", values={"gpus": 3})
    agent.claim(running)
    agent.poll(free=Resources(millicpus=7000, memory=2**36, gpus=1))
    why = world.why(world.launch_one(values={"gpus": 2}))
    assert why.summary.endswith("it needs 2 GPUs (1 free), in use by busy of ann.")
    assert [run.id for run in why.holding] == [running]


def test_it_waits_for_its_next_attempt(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.report(agent.claim(run_id), EndSeen(end=End.PREEMPTED))
    assert "Attempt 1 ended early; it waits for attempt 2." in world.why(run_id).details


def test_an_estimate_comes_from_how_long_the_last_runs_took(world: World) -> None:
    agent = world.agent(max_jobs=1)
    for _ in range(3):
        run_id = world.launch_one()
        held = agent.claim(run_id)
        agent.report(held, member(0, UP, started_at=world.now))
        assert world.why(run_id).eta is None
        world.clock.advance(10)
        agent.report(held, member(0, DONE))
        agent.held.clear()
    agent.claim(world.launch_one())
    world.launch_one()
    assert world.why(world.launch_one()).eta == world.now + timedelta(seconds=20)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ((), "An agent on host-1 has just taken it."),
        ((phase("preparing"),), "Its code and environment are being prepared on host-1."),
        ((phase("pending"),), "It waits for a place on host-1."),
        ((member(0, ReplicaState.STARTING),), "Its members are coming up on host-1."),
        ((member(0, UP),), "It is running on host-1."),
    ],
)
def test_a_live_run_says_where_it_is(world: World, facts: tuple[Fact, ...], words: str) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.report(agent.claim(run_id), *facts)
    assert world.why(run_id).summary == words


def test_a_live_run_tells_the_newest_notes_however_many_there_are(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, *[Noted(message=f"file {i}") for i in range(1500)])
    assert world.why(run_id).details == ("file 1497", "file 1498", "file 1499")


def test_a_stopping_run_says_who_asked(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    world.stop(run_id)
    assert world.why(run_id).summary == "ann asked it to stop; its processes are ending on host-1."


def test_a_silent_agent_is_said_to_be_silent(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    agent.claim(run_id)
    world.clock.advance(LEASE_TTL + timedelta(seconds=5))
    world.sweep()
    why = world.why(run_id)
    assert why.summary == "It is claimed, but its agent is silent."
    assert why.details == ("No other machine serves its queue, so it waits for its host to return.",)
    world.agent("other", locality="host-2")
    assert world.why(run_id).details == (
        "Unless an agent on its host returns, it is tried again elsewhere in 9 min.",
    )


def test_a_run_that_succeeded_says_how_long_it_took(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, member(0, UP, started_at=world.now))
    world.clock.advance(90)
    agent.report(held, member(0, DONE))
    assert world.why(run_id).summary == "It succeeded after 90 s."


def test_a_stopped_run_says_by_whom(world: World) -> None:
    run_id = world.launch_one()
    world.stop(run_id)
    assert world.why(run_id).summary == "It was stopped by ann."


def test_a_failed_run_says_why_and_what_to_do(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    cause = Failure(kind="out_of_memory", summary="It ran out of memory.", advice="Use less.")
    agent.report(agent.claim(run_id), FailureSeen(failure=cause), member(0, ReplicaState.FAILED))
    why = world.why(run_id)
    assert (why.summary, why.advice, why.failure) == (cause.summary, "Use less.", cause)


def test_a_failed_run_says_at_which_attempt(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one(retry=Retry(max=1))
    agent.report(agent.claim(run_id), EndSeen(end=End.PREEMPTED))
    agent.held.clear()
    agent.report(agent.claim(run_id), EndSeen(end=End.COULD_NOT_START, reason="No such folder."))
    assert world.why(run_id).summary == "No such folder. (attempt 2)"
