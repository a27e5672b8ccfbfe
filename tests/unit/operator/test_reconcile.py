"""What the operator does about a job, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from muster.operator.pod import ContainerState, ReplicaPod
from muster.operator.reconcile import (
    GRACE,
    CreateGroup,
    CreatePod,
    CreateService,
    DeletePod,
    LookFor,
    Refusal,
)
from muster.operator.status import Phase, aggregate
from unit.operator.world import World, spec_of

MASTER, WORKER = "mnist-5b373-master-0", "mnist-5b373-worker-0"


def with_policy(policy: str, **run_policy: Any) -> World:
    """One master and one worker."""
    spec = spec_of(master=1, worker=1)
    for replica in spec["replicaSpecs"]:
        replica["restartPolicy"] = policy
    return World({**spec, "runPolicy": run_policy})


def test_a_new_job_gets_its_service_then_its_pods_in_the_order_of_ranks() -> None:
    world = World(spec_of(master=1, worker=2))
    made = world.reconcile()
    assert [type(action) for action in made.actions] == [CreateService, CreatePod, CreatePod, CreatePod]
    assert world.created == [MASTER, WORKER, "mnist-5b373-worker-1"]
    assert made.status.phase is Phase.PENDING
    assert aggregate(made.status.tasks)["creating"] == 3


def test_it_runs_when_all_replicas_do() -> None:
    world = World(spec_of(master=1, worker=1))
    world.settle()
    assert world.said("Initialized").startswith("Initialized:")
    world.start(MASTER)
    world.settle()
    assert world.phase() is Phase.PENDING
    world.start(WORKER)
    world.settle()
    assert world.phase() is Phase.RUNNING
    assert aggregate(world.status.tasks)["running"] == 2


@pytest.mark.parametrize("steps", range(4))
def test_an_operator_that_dies_half_way_is_followed_by_one_that_goes_on(steps: int) -> None:
    world = World(spec_of(master=1, worker=2))
    world.reconcile(steps=steps)
    world.restart_operator()
    world.settle()
    assert sorted(world.created) == sorted(world.pods)
    assert len(world.pods) == 3


def test_the_master_decides_that_the_job_succeeded() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    world.end(MASTER, 0)
    world.settle()
    assert world.phase() is Phase.SUCCEEDED
    assert world.said("Completed") == "Succeeded: The job has finished successfully."
    assert world.pods[WORKER].phase == "Running", "it has a while to end by itself"


@pytest.mark.parametrize(
    ("policy", "code", "restarted"),
    [
        ("Never", 1, False),
        ("Never", 137, False),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Always", 1, True),
        ("Always", 0, True),
        ("ExitCode", 1, False),
        ("ExitCode", 0, False),
        ("ExitCode", 130, True),
        ("ExitCode", 137, True),
        ("ExitCode", 138, True),
        ("ExitCode", 143, True),
        ("ExitCode", 139, False),
    ],
)
def test_a_worker_is_started_again_by_its_policy(policy: str, code: int, restarted: bool) -> None:
    world = with_policy(policy)
    world.start_all()
    world.end(WORKER, code)
    world.settle()
    assert (f"{WORKER}-1" in world.pods) is restarted
    assert world.status.backoff_count == int(restarted)
    assert world.phase() is Phase.RUNNING
    assert WORKER in world.pods, "its log is still there to read"


@pytest.mark.parametrize(
    ("policy", "code", "reason"),
    [
        ("Never", 1, "MasterFailed: master-0 exited with 1. Its restart policy is Never."),
        ("ExitCode", 1, "MasterFailed: master-0 exited with 1. Its restart policy is ExitCode."),
        (
            "OnFailure",
            1,
            "BackoffLimitExceeded: master-0 exited with 1. All 0 restarts of the job are used up.",
        ),
    ],
)
def test_the_job_fails_with_its_master(policy: str, code: int, reason: str) -> None:
    world = with_policy(policy, backoffLimit=0)
    world.start_all()
    world.end(MASTER, code)
    world.settle()
    assert world.phase() is Phase.FAILED
    assert world.said("Failed") == reason
    assert WORKER not in world.pods


def test_restarts_are_shared_by_all_replicas() -> None:
    world = with_policy("OnFailure", backoffLimit=2)
    world.start_all()
    world.end(WORKER, 1)
    world.settle()
    world.start(f"{WORKER}-1")
    world.end(f"{WORKER}-1", 1)
    world.settle()
    assert world.status.backoff_count == 2
    assert [task.restarts for task in world.status.tasks] == [0, 2]
    world.end(MASTER, 1)
    world.settle()
    assert world.said("Failed").startswith("BackoffLimitExceeded")


def test_a_worker_that_may_not_be_started_again_does_not_end_the_job() -> None:
    world = with_policy("Never")
    world.start_all()
    world.end(WORKER, 3)
    world.settle()
    assert world.phase() is Phase.RUNNING
    assert world.said("ReplicaFailure") == "ReplicaFailure: worker-0 exited with 3."


@pytest.mark.parametrize(("policy", "again"), [("Never", False), ("OnFailure", True), ("ExitCode", True)])
def test_an_evicted_replica_is_started_again_unless_never(policy: str, again: bool) -> None:
    world = with_policy(policy)
    world.start_all()
    world.evict(WORKER)
    world.settle()
    assert (f"{WORKER}-1" in world.pods) is again


@pytest.mark.parametrize(("policy", "again"), [("Never", False), ("Always", True), ("ExitCode", True)])
def test_a_pod_deleted_by_somebody_counts_as_a_failure(policy: str, again: bool) -> None:
    world = with_policy(policy)
    world.start_all()
    world.remove(WORKER)
    world.settle()
    assert (f"{WORKER}-1" in world.pods) is again
    assert world.status.backoff_count == int(again)
    if not again:
        assert world.said("ReplicaFailure") == "ReplicaFailure: The pod of worker-0 was deleted."
        assert aggregate(world.status.tasks)["deleted"] == 1


def test_what_is_not_in_an_old_list_is_looked_for_before_it_is_taken_for_gone() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    forgotten = world.pods[WORKER].uid
    del world.cached[forgotten]
    made = world.plan()
    assert made.actions == (LookFor(name=WORKER, uid=forgotten),)
    world.reconcile()
    assert not world.plan().actions
    assert world.status.backoff_count == 0


def test_a_pod_that_is_being_deleted_is_waited_for() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    world.do(DeletePod(name=WORKER, uid=world.pods[WORKER].uid))
    assert not world.plan().actions
    world.settle()
    assert f"{WORKER}-1" in world.pods


def test_a_restart_is_written_down_before_it_is_done() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    world.end(WORKER, 1)
    world.sync()
    made = world.reconcile(steps=0)  # and here the operator dies
    assert made.status.backoff_count == 1
    world.restart_operator()
    world.settle()
    assert world.status.backoff_count == 1
    assert f"{WORKER}-1" in world.pods


def test_a_lost_status_is_found_again_in_the_labels_of_the_pods() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    world.end(WORKER, 1)
    world.settle()
    world.job = type(world.job)(
        uid=world.job.uid, name="mnist", namespace="ml", spec=world.job.spec, generation=1
    )
    world.settle()
    assert world.status.backoff_count == 1
    assert len(world.created) == 3


def test_a_deadline_ends_what_runs_whatever_the_clean_up_policy() -> None:
    world = with_policy("OnFailure", activeDeadlineSeconds=60, cleanUpPolicy="None")
    world.start_all()
    started = world.status.started
    assert started is not None
    assert (world.plan().again_at or world.now) - started == GRACE * 4
    world.pass_time(60)
    world.settle()
    assert world.said("Failed") == "DeadlineExceeded: The job was active for longer than its 60 s."
    assert not world.pods


def test_a_job_that_succeeds_at_its_deadline_has_succeeded() -> None:
    world = with_policy("OnFailure", activeDeadlineSeconds=60)
    world.start_all()
    world.end(MASTER, 0)
    world.pass_time(60)
    world.settle()
    assert world.phase() is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("policy", "at_once", "later"),
    [("None", 2, 2), ("Unfinished", 2, 1), ("All", 2, 0)],
)
def test_pods_of_a_job_that_succeeded_are_cleaned_up_by_its_policy(
    policy: str, at_once: int, later: int
) -> None:
    world = with_policy("Never", cleanUpPolicy=policy)
    world.start_all()
    world.end(MASTER, 0)
    world.settle()
    assert len(world.pods) == at_once
    world.pass_time(GRACE.total_seconds())
    world.settle()
    assert len(world.pods) == later
    assert world.phase() is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("policy", "at_once", "later"),
    [("None", 2, 2), ("Unfinished", 1, 1), ("All", 1, 0)],
)
def test_pods_of_a_job_that_failed_end_at_once(policy: str, at_once: int, later: int) -> None:
    world = with_policy("Never", cleanUpPolicy=policy)
    world.start_all()
    world.end(MASTER, 1)
    world.settle()
    assert len(world.pods) == at_once
    world.pass_time(GRACE.total_seconds())
    world.settle()
    assert len(world.pods) == later


def test_a_paused_job_has_no_pods_and_a_resumed_one_new_ones() -> None:
    world = with_policy("OnFailure", activeDeadlineSeconds=60)
    world.start_all()
    world.pause(True)
    world.settle()
    assert world.phase() is Phase.PAUSED
    assert not world.pods
    world.pass_time(3600)
    world.settle()
    assert world.phase() is Phase.PAUSED, "a deadline is for what is active"
    world.pause(False)
    world.settle()
    assert world.phase() is Phase.RESUMING
    assert set(world.pods) == {f"{MASTER}-1", f"{WORKER}-1"}
    world.start_all()
    assert world.phase() is Phase.RUNNING
    assert world.said("Paused") == "Resumed: The job was resumed."
    assert world.status.backoff_count == 0


def test_a_job_resumed_before_its_pods_have_gone_waits_for_them() -> None:
    world = with_policy("OnFailure")
    world.start_all()
    world.pause(True)
    world.reconcile()
    world.pause(False)
    made = world.reconcile()
    assert not made.actions
    world.remove(MASTER)
    world.sync()
    made = world.reconcile()
    assert [action.slot.type for action in made.actions if isinstance(action, CreatePod)] == ["master"]


def test_a_job_created_paused_creates_nothing() -> None:
    spec = {**spec_of(), "runMode": {"pause": {"enabled": True}}}
    world = World(spec)
    world.settle()
    assert (world.phase(), world.created, world.service) == (Phase.PAUSED, [], False)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"runMode": {"debug": {"enabled": True}}}, "runMode.debug is not supported yet"),
        ({"elastic": {"enabled": True}}, "elastic is not supported yet"),
        ({"tensorboardSpec": {}}, "tensorboardSpec is not supported yet"),
        ({"scheduler": {"t9kScheduler": {"queue": "q"}}}, "scheduler.t9kScheduler is not there"),
    ],
)
def test_what_is_not_done_here_is_refused_and_never_ignored(field: dict[str, Any], words: str) -> None:
    world = World({**spec_of(), **field})
    world.settle()
    assert world.phase() is Phase.FAILED
    assert world.said("Failed").startswith(f"NotSupported: {words}")
    assert not world.created


@pytest.mark.parametrize(
    "field",
    [{"runMode": {"debug": {"enabled": False}}}, {"elastic": {"enabled": False, "minReplicas": 1}}],
)
def test_what_is_switched_off_is_no_reason_to_refuse(field: dict[str, Any]) -> None:
    world = World({**spec_of(), **field})
    world.start_all()
    assert world.phase() is Phase.RUNNING


def test_a_pod_group_comes_before_the_pods() -> None:
    world = World({**spec_of(worker=1), "scheduler": {"volcanoScheduler": {"queue": "q"}}})
    assert [type(action) for action in world.reconcile().actions] == [CreateService, CreateGroup, CreatePod]


def test_a_service_that_somebody_deleted_is_made_again() -> None:
    world = World(spec_of())
    world.start_all()
    world.service = False
    assert world.reconcile().actions == (CreateService(),)


def test_a_refusal_that_may_pass_is_told_and_tried_again() -> None:
    world = World(spec_of(worker=1))
    world.refusal = Refusal(message="Pod x was refused: exceeded quota", final=False)
    made = world.reconcile(steps=0)
    assert world.said("Initialized") == "CreateRefused: Pod x was refused: exceeded quota"
    assert made.status.phase is Phase.PENDING
    assert any(isinstance(action, CreatePod) for action in world.plan().actions)


def test_a_template_that_no_cluster_takes_fails_the_job() -> None:
    world = World(spec_of(worker=1))
    world.refusal = Refusal(message="Pod x was refused: no image", final=True)
    world.settle()
    assert world.said("Failed") == "CreateRefused: Pod x was refused: no image"


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    world = World(spec_of())
    world.job = type(world.job)(
        uid="u", name="mnist", namespace="ml", spec=world.job.spec, deleting=True, generation=1
    )
    made = world.plan()
    assert not made.actions
    assert made.status == world.status


def test_a_proxy_beside_the_training_does_not_keep_the_job_from_ending() -> None:
    world = World(spec_of(worker=1))
    world.start_all()
    pod = world.pods[WORKER]
    boxes = (
        ContainerState(name="python", state="Terminated", exit_code=0),
        ContainerState(name="proxy", state="Running"),
    )
    world.pods[WORKER] = ReplicaPod(
        uid=pod.uid, name=pod.name, type="worker", index=0, life=0, phase="Running", containers=boxes
    )
    world.settle()
    assert world.phase() is Phase.SUCCEEDED
    world.pass_time(GRACE.total_seconds())
    world.settle()
    assert not world.pods


def test_nothing_is_written_while_nothing_changes() -> None:
    world = World(spec_of())
    world.start_all()
    for seconds in (1, 60, 86400):
        world.pass_time(seconds)
        made = world.plan()
        assert made.status == world.status
        assert not made.actions
        assert made.again_at is None
