"""A sentence for every wait and every end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.domain.observation import End, EndSeen, Fact, Failure, FailureSeen, Noted, ReplicaState
from muster.domain.resources import UNBOUNDED, Resources
from muster.domain.run import LEASE_TTL, Retry
from muster.domain.training import Training
from world import Worker, World, member, order, phase

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
    held = agent.claim(world.launch_one())
    agent.report(held, member(0, UP, started_at=world.now))
    world.launch_one()
    last = world.launch_one()
    assert world.why(last).eta == world.now + timedelta(seconds=20)
    world.clock.advance(4)
    assert world.why(last).eta == world.now + timedelta(seconds=16)
    world.clock.advance(600)  # it is not as the others were
    agent.poll(slots=0)
    assert world.why(last).eta == world.now + timedelta(seconds=614)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ((), "An agent on host-1 has just taken it."),
        ((phase("preparing"),), "Its code and environment are being prepared on host-1."),
        ((phase("pending"),), "It waits for a place on host-1."),
        ((phase("pending", "All GPUs are taken."),), "It waits for a place on host-1: All GPUs are taken."),
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
    assert why.details == ("No other agent serves its queue, so it waits for one on its host to return.",)
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


# in a cluster

PENDING, STARTING = ReplicaState.PENDING, ReplicaState.STARTING
FULL = (
    "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. "
    "It needs 2 GPUs on one node; node-a has 1 free, node-b 1 free."
)
CORDONED = (
    "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable. "
    "It needs 2 GPUs on one node; node-a has 1 free; not open to it: node-b (room, but cordoned)."
)
TOO_BIG = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
    "It needs 8 GPUs on one node; the biggest that is open to it has 4 GPUs in all."
)
QUOTA = 'pods "x-0" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4'
PULL = 'ImagePullBackOff: Back-off pulling image "no/such:tag"'
AT = "in the cluster at 10.0.0.1:6443"
POD = {"kind": "Job", "template": {"spec": {"containers": [{"image": "busybox"}]}}}


def in_cluster(world: World, *, nodes: int = 1) -> tuple[Worker, str]:
    world.queue("k8s", resource="kubernetes", config=POD, variables={})
    agent = world.agent(
        "k8s-agent", engine="kubernetes", locality="10.0.0.1:6443", queues=["k8s"], total=UNBOUNDED
    )
    return agent, world.launch_one(queue="k8s", training=Training(nodes=nodes))


@pytest.mark.parametrize(
    ("facts", "summary", "advice"),
    [
        ((), "An agent in the cluster at 10.0.0.1:6443 has just taken it.", ""),
        ((phase("preparing"),), f"It is being made ready {AT}.", ""),
        ((phase("pending"),), f"It waits for a place {AT}.", ""),
        ((phase("pending", "It does not answer."),), f"It waits for a place {AT}: It does not answer.", ""),
        (
            (member(0, PENDING, reason=FULL), member(1, PENDING, reason=FULL)),
            f"It waits for a place {AT}: 2 of 2 members have none: {FULL}",
            "Wait until other runs end, or launch it with fewer GPUs on each node.",
        ),
        (
            (member(0, UP), member(1, PENDING, reason=FULL)),
            f"It waits for a place {AT}: 1 of 2 members has none: {FULL}",
            "Wait until other runs end, or launch it with fewer GPUs on each node.",
        ),
        (
            (member(0, PENDING, reason=TOO_BIG), member(1, PENDING, reason=TOO_BIG)),
            f"It waits for a place {AT}: 2 of 2 members have none: {TOO_BIG}",
            "It cannot start as it is: launch it with less on each node, or on another queue.",
        ),
        (
            (member(0, PENDING, reason=CORDONED),),
            f"It waits for a place {AT}: 1 of 2 members has none: {CORDONED}",
            "Wait, launch it with less on each node, or ask the cluster's owner to open the one with room.",
        ),
        (
            (member(0, PENDING, reason=QUOTA), member(1, PENDING, reason=QUOTA)),
            f"It waits for a place {AT}: 2 of 2 members have none: {QUOTA}.",
            "Wait for other pods of the namespace to end, ask for less, or ask its owner for more quota.",
        ),
        (
            (member(0, UP), member(1, STARTING, reason=PULL)),
            f"Its members are coming up {AT}: 1 of 2 members is not up yet: {PULL}.",
            "Check the name of the image, and that the cluster may pull it.",
        ),
        ((member(0, UP), member(1, STARTING)), f"Its members are coming up {AT}.", ""),
        ((member(0, UP), member(1, UP)), f"It is running {AT}.", ""),
    ],
)
def test_a_run_in_a_cluster_says_what_the_cluster_says(
    world: World, facts: tuple[Fact, ...], summary: str, advice: str
) -> None:
    agent, run_id = in_cluster(world, nodes=2)
    agent.report(agent.claim(run_id), *facts)
    why = world.why(run_id)
    assert (why.summary, why.advice) == (summary, advice)


def test_what_the_scheduler_says_about_evicting_others_is_left_out(world: World) -> None:
    agent, run_id = in_cluster(world)
    short = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    noise = (
        " no new claims to deallocate, preemption: 0/2 nodes are available: "
        "1 Preemption is not helpful for scheduling, 1 Insufficient nvidia.com/gpu."
    )
    ours = " It needs 2 GPUs on one node; node-a has 1 free."
    held = agent.claim(run_id)
    agent.report(held, member(0, PENDING, reason=short + noise))
    assert world.why(run_id).summary == f"It waits for a place {AT}: {short}"
    agent.report(held, member(0, PENDING, reason=short + noise + ours))
    assert world.why(run_id).summary == f"It waits for a place {AT}: {short}{ours}"


def test_a_lone_members_reason_stands_for_the_run(world: World) -> None:
    agent, run_id = in_cluster(world)
    agent.report(agent.claim(run_id), member(0, PENDING, reason=FULL))
    assert world.why(run_id).summary == f"It waits for a place {AT}: {FULL}"


def test_different_reasons_are_told_one_by_one_and_notes_only_if_they_say_more(world: World) -> None:
    agent, run_id = in_cluster(world, nodes=4)
    agent.report(
        agent.claim(run_id),
        member(0, UP),
        member(1, PENDING, reason=FULL),
        member(2, STARTING, reason=PULL),
        member(3, PENDING, reason=FULL),
        Noted(message="Pod x-1: FailedScheduling: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
        Noted(message="Pod x-2: Scheduled: Successfully assigned lab/x-2 to node-a"),
    )
    why = world.why(run_id)
    assert why.summary == f"It waits for a place {AT}: 2 of 4 members have none: {FULL}"
    assert why.details == (
        f"1 of 4 members is not up yet: {PULL}.",
        "1 of 4 members is up already.",
        "Pod x-2: Scheduled: Successfully assigned lab/x-2 to node-a",
    )


def test_a_run_in_a_cluster_stops_with_its_pods(world: World) -> None:
    agent, run_id = in_cluster(world)
    agent.claim(run_id)
    world.stop(run_id)
    assert world.why(run_id).summary == f"ann asked it to stop; its pods are ending {AT}."


def test_a_silent_agent_of_a_cluster_is_waited_for_there(world: World) -> None:
    agent, run_id = in_cluster(world)
    agent.claim(run_id)
    world.clock.advance(LEASE_TTL + timedelta(seconds=5))
    world.sweep()
    why = world.why(run_id)
    assert why.details == ("No other agent serves its queue, so it waits for one of its cluster to return.",)
    assert why.advice == "Start an agent of its cluster again: it finds the run's pods."


def test_a_cluster_is_never_too_small_and_never_said_to_be(world: World) -> None:
    agent, first = in_cluster(world)
    agent.claim(first)
    agent.poll(slots=0, free=UNBOUNDED - Resources(millicpus=1000, gpus=4))
    why = world.why(world.launch_one(queue="k8s"))
    assert why.summary == "It is number 1 in queue 'k8s': it is next, an agent will take it in a moment."
