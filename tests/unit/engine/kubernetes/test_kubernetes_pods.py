"""From pods to members. `pods.json` was recorded from a cluster, less what is not read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.engine.kubernetes.api import JOBS
from muster.engine.kubernetes.attempt import LINGER, LOG_PATIENCE, Attempt, LogProgress, Workload
from muster.engine.kubernetes.course import OPEN, SILENT, Course, Status
from muster.engine.kubernetes.happening import Happenings
from muster.engine.kubernetes.member import PATIENCE, replica_of
from muster.engine.kubernetes.pod import Container, Ended, Pod, read_pod
from muster.engine.kubernetes.ranks import by_rank

RECORDED: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("pods.json").read_text())
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = AttemptKey(run_id="r123456789", attempt=1)
NODE = "node-1"


def recorded(name: str) -> Pod:
    pod = read_pod(RECORDED[name])
    assert pod is not None
    return pod


def pod(number: int = 0, *, phase: str = "Running", seconds: float = 0, **more: Any) -> Pod:
    """One that was made so many seconds after noon."""
    since = NOON + timedelta(seconds=seconds)
    how: dict[str, Any] = {"running_since": since}
    if phase in ("Succeeded", "Failed"):
        code = 0 if phase == "Succeeded" else 3
        how = {"ended": Ended(exit_code=code, started_at=since, ended_at=since + timedelta(seconds=5))}
    about: dict[str, Any] = {
        "uid": f"uid-{number}",
        "name": f"pod-{number}",
        "namespace": "default",
        "key": KEY,
        "created": since,
        "node": NODE,
        "phase": phase,
        "containers": (Container(name="launch0", **how),),
    }
    return Pod(**{**about, **more})


# one pod


@pytest.mark.parametrize(
    ("name", "state", "how", "reason"),
    [
        ("crash", ReplicaState.FAILED, (3, None), ""),
        ("oom", ReplicaState.FAILED, (None, 9), "OOMKilled"),
        ("oomchild", ReplicaState.FAILED, (5, None), "OOMKilled"),
        ("init", ReplicaState.FAILED, (4, None), "init container 'fetch' ended with exit code 4"),
        (
            "badcmd",
            ReplicaState.FAILED,
            (None, None),
            (
                "StartError: failed to create containerd task: failed to create shim task: OCI runtime "
                'create failed: runc create failed: unable to start container process: exec: "/nope": stat '
                "/nope: no such file or directory: unknown"
            ),
        ),
        (
            "poddeadline",
            ReplicaState.FAILED,
            (None, 9),
            "DeadlineExceeded: Pod was active on the node longer than the specified deadline",
        ),
        (
            "pull",
            ReplicaState.STARTING,
            (None, None),
            (
                'ErrImagePull: failed to pull and unpack image "example.invalid/nothing:1": failed to '
                'resolve reference "example.invalid/nothing:1": example.invalid/nothing:1: not found'
            ),
        ),
        (
            "nosecret",
            ReplicaState.STARTING,
            (None, None),
            'CreateContainerConfigError: secret "nope" not found',
        ),
        ("novolume", ReplicaState.STARTING, (None, None), ""),
        (
            "unsched",
            ReplicaState.PENDING,
            (None, None),
            (
                "Not enough memory, nvidia.com/gpu: 0/1 nodes are available: 1 Insufficient memory, 1 "
                "Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes are "
                "available: 1 Preemption is not helpful for scheduling."
            ),
        ),
    ],
)
def test_a_recorded_pod_is_what_it_is(
    name: str, state: ReplicaState, how: tuple[int | None, int | None], reason: str
) -> None:
    replica = replica_of(0, [recorded(name)], now=NOON)
    assert (replica.state, replica.reason) == (state, reason)
    assert (replica.exit_code, replica.signal) == how


def test_who_stands_beside_is_not_the_cause() -> None:
    at = NOON + timedelta(seconds=5)
    proxy = Container(name="proxy", is_sidecar=True, ended=Ended(exit_code=137, started_at=NOON, ended_at=at))
    failed = pod(phase="Failed", inits=(proxy,))
    assert replica_of(0, [failed], now=NOON).exit_code == 3


def test_of_two_containers_the_first_to_fail_is_the_cause() -> None:
    ends = [
        Ended(exit_code=code, started_at=NOON, ended_at=NOON + timedelta(seconds=9 - code)) for code in (1, 2)
    ]
    both = tuple(Container(name=f"launch{place}", ended=end) for place, end in enumerate(ends))
    replica = replica_of(0, [pod(phase="Failed", containers=both)], now=NOON)
    assert (replica.exit_code, replica.reason) == (2, "container 'launch1' ended with exit code 2")


TOLD = NOON + timedelta(seconds=5)


@pytest.mark.parametrize(
    ("told", "grace", "was_told"),
    [(4, 30, True), (5, 30, True), (5, 0, False), (6, 30, False), (4, 0, True)],
    ids=["before", "in the same second", "removed in the same second", "after", "before, without grace"],
)
def test_who_ended_before_it_was_told_to_did_so_by_itself(told: int, grace: int, was_told: bool) -> None:
    """It ended five seconds after noon."""
    at = NOON + timedelta(seconds=told)
    ended = pod(phase="Failed", told_at=at, deleted_at=at + timedelta(seconds=grace))
    assert ended.was_told_to_end is was_told


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize(
    ("disruption", "state"),
    [
        ("EvictionByEvictionAPI", ReplicaState.PREEMPTED),
        ("PreemptionByScheduler", ReplicaState.PREEMPTED),
        ("TerminationByKubelet", ReplicaState.PREEMPTED),
        ("DeletionByTaintManager", ReplicaState.PREEMPTED),
        ("DeletionByPodGC", ReplicaState.LOST),
    ],
)
def test_who_was_taken_away_did_not_end_by_itself(phase: str, disruption: str, state: ReplicaState) -> None:
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD + timedelta(seconds=9)}
    taken = pod(phase=phase, disruption=disruption, disruption_message="why", **told)
    replica = replica_of(0, [taken], now=NOON)
    assert replica.state is state
    assert replica.reason.endswith(": why")


def test_a_pod_evicted_by_its_node_was_taken_away() -> None:
    evicted = pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    replica = replica_of(0, [evicted], now=NOON)
    assert replica.state is ReplicaState.PREEMPTED
    assert replica.reason == "Pod pod-0 was taken away (Evicted): The node was low on resource: memory."


def test_a_pod_of_a_silent_node_is_lost_once_its_grace_is_over() -> None:
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": NOON + timedelta(seconds=30)}
    silent = pod(disruption="DeletionByTaintManager", disruption_message="taint", **told)
    assert replica_of(0, [silent], now=NOON + timedelta(seconds=31)).state is ReplicaState.RUNNING
    assert replica_of(0, [silent], now=NOON + timedelta(seconds=32)).state is ReplicaState.LOST


# ranks


def ranks(pods: list[Pod], members: int, at_once: int | None = None) -> dict[int, list[str]]:
    found = by_rank(pods, members=members, at_once=at_once or members)
    return {rank: [pod.name for pod in its] for rank, its in found.items()}


def test_a_number_of_the_clusters_is_the_rank() -> None:
    assert ranks([pod(0, index=1), pod(1, index=0), pod(2, index=7)], 2) == {0: ["pod-1"], 1: ["pod-0"]}


def test_without_numbers_ranks_go_by_age_once_all_are_there() -> None:
    pods = [pod(0, seconds=2), pod(1, seconds=1)]
    assert ranks(pods[:1], 2) == {}
    assert ranks(pods, 2) == {0: ["pod-1"], 1: ["pod-0"]}


def test_who_stands_in_takes_the_rank_of_who_failed_or_was_deleted() -> None:
    failed, runs = pod(0, phase="Failed"), pod(1, seconds=1)
    deleted = replace(pod(0), told_at=NOON, deleted_at=NOON)
    for first in (failed, deleted):
        assert ranks([first, runs, pod(2, seconds=9)], 2) == {0: ["pod-0", "pod-2"], 1: ["pod-1"]}
    assert ranks([pod(0, phase="Succeeded"), pod(1, seconds=9)], 1) == {0: ["pod-0"]}


def test_pods_that_come_one_after_the_other_are_ranked_as_they_come() -> None:
    pods = [pod(0, phase="Succeeded"), pod(1, seconds=9)]
    assert ranks(pods, 3) == {0: ["pod-0"], 1: ["pod-1"]}
    assert ranks([pod(1)], 3, at_once=2) == {}
    assert ranks([pod(1), pod(0)], 3, at_once=2) == {0: ["pod-0"], 1: ["pod-1"]}


@given(
    st.permutations(range(6)), st.integers(1, 4), st.lists(st.sampled_from(["Running", "Failed"]), min_size=6)
)
def test_ranks_do_not_depend_on_the_order_in_which_pods_are_heard_of(
    order: list[int], members: int, phases: list[str]
) -> None:
    pods = [pod(number, phase=phases[number], seconds=number) for number in range(6)]
    assert ranks([pods[place] for place in order], members) == ranks(pods, members)


# an attempt


def attempt(
    *pods: Pod, status: Status = OPEN, members: int = 1, at_once: int | None = None, **more: Any
) -> Attempt:
    workload = Workload(
        resource=JOBS, namespace="default", name="train", uid="job", members=members, status=status
    )
    made = Attempt(key=KEY, epoch=1, members=members, at_once=at_once or members, workload=workload, **more)
    for one in pods:
        made.see_pod(one, there=True, now=NOON)
    return made


def news(made: Attempt, *, seconds: float = 10, **logs: LogProgress) -> list[Replica]:
    return made.news(
        {uid.replace("_", "-"): log for uid, log in logs.items()}, now=NOON + timedelta(seconds=seconds)
    )


FAILED = Status(course=Course.FAILED, reason="BackoffLimitExceeded", message="Job has reached the limit")
HERE = LogProgress(length=7, whole=True)


def test_a_failure_is_final_once_the_workload_says_so() -> None:
    made = attempt(pod(phase="Failed"))
    assert news(made) == []
    made.workload = attempt(status=FAILED).workload
    [replica] = news(made, uid_0=HERE)
    assert (replica.state, replica.exit_code, replica.log_bytes) == (ReplicaState.FAILED, 3, 7)
    assert made.over
    assert news(made) == []


def test_an_attempt_is_full_when_as_many_run_as_can_at_once() -> None:
    made = attempt(pod(0, index=0), pod(1, index=1, containers=()), members=4, at_once=2)
    news(made)
    assert not made.becomes_full(), "one is still starting"
    made.see_pod(pod(1, index=1), there=True, now=NOON)
    news(made)
    assert made.becomes_full()
    assert not made.becomes_full(), "told once"
    all_at_once = attempt(pod(0), members=1)
    news(all_at_once)
    assert not all_at_once.becomes_full(), "its members say so themselves"


def test_an_end_waits_for_all_logs_of_all_pods_while_more_comes() -> None:
    made = attempt(pod(0, phase="Failed"), pod(1, phase="Failed", seconds=6), status=FAILED)
    wait = LOG_PATIENCE.total_seconds()

    def look(seconds: float, length: int) -> list[Replica]:
        half, whole = (LogProgress(length=length, whole=is_whole) for is_whole in (False, True))
        return news(made, seconds=1000 + seconds, uid_0=half, uid_1=whole)

    for length in range(3):  # long after the pod has ended: it was only taken over now
        assert look(length * (wait - 1), length) == []
    [replica] = look(10 * wait, 2)
    assert (replica.restarts, replica.log_bytes) == (1, 2)


def test_a_workload_that_gave_up_restarting_failed_as_its_last_life_did() -> None:
    life = Ended(exit_code=6, started_at=NOON, ended_at=NOON)
    again = Container(name="launch0", restarts=1, waiting="CrashLoopBackOff", before=life)
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD}
    made = attempt(pod(containers=(again,), **told), status=FAILED)
    made.see_pod(pod(), there=False, now=NOON)
    [replica] = news(made)
    assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 6)
    assert replica.reason == "BackoffLimitExceeded: Job has reached the limit"


@pytest.mark.parametrize(
    ("phase", "status"),
    [("Failed", FAILED), ("Succeeded", FAILED), ("Succeeded", Status(course=Course.SUCCEEDED))],
)
def test_a_pod_that_was_deleted_by_somebody_neither_failed_nor_succeeded_by_itself(
    phase: str, status: Status
) -> None:
    """A Job takes it for a success if it had ended well by the time the Job looked."""
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD}
    [replica] = news(attempt(pod(phase=phase, **told), status=status), uid_0=HERE)
    assert (replica.state, replica.reason) == (
        ReplicaState.STOPPED,
        "Its pod was deleted from outside Muster.",
    )


def test_when_it_was_told_to_end_is_not_written_anew_when_it_has_ended() -> None:
    made = attempt(pod(told_at=NOON, deleted_at=TOLD), status=FAILED)
    late = NOON + timedelta(seconds=9)
    made.see_pod(pod(phase="Failed", told_at=late, deleted_at=late), there=True, now=late)
    assert [replica.state for replica in news(made, uid_0=HERE)] == [ReplicaState.STOPPED]


def test_time_that_was_up_is_a_failure_also_of_who_obeyed() -> None:
    status = Status(course=Course.FAILED, reason="DeadlineExceeded", message="too long")
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD}
    [replica] = news(attempt(pod(phase="Succeeded", **told), status=status), uid_0=HERE)
    assert (replica.state, replica.reason) == (ReplicaState.FAILED, "DeadlineExceeded: too long")


def test_a_success_policy_that_was_met_is_a_success_of_all() -> None:
    status = Status(course=Course.SUCCEEDED, reason="SuccessPolicy", message="met")
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD, "index": 1}
    made = attempt(
        pod(0, phase="Succeeded", index=0), pod(1, phase="Failed", **told), status=status, members=2
    )
    assert [replica.state for replica in news(made, uid_0=HERE, uid_1=HERE)] == [ReplicaState.SUCCEEDED] * 2


def test_in_a_gang_one_that_fails_is_final_at_once() -> None:
    made = attempt(pod(0, phase="Failed", index=0), pod(1, index=1), members=2)
    assert [replica.rank for replica in news(made, uid_0=HERE)] == [1]
    assert made.workload is not None
    made.workload = replace(made.workload, gang=True)
    assert [(one.rank, one.state) for one in news(made, uid_0=HERE)] == [(0, ReplicaState.FAILED)]


def test_where_the_controller_is_silent_a_pods_failure_is_final() -> None:
    [replica] = news(attempt(pod(phase="Failed"), status=SILENT), uid_0=HERE)
    assert replica.state is ReplicaState.FAILED


def test_a_pod_that_never_came_up_failed_as_its_workload_did() -> None:
    status = Status(course=Course.FAILED, reason="Terminated", message="pods were pending for too long")
    waiting = pod(node="", phase="Pending", containers=(Container(name="launch0"),))
    made = attempt(waiting, status=status)
    made.see_pod(waiting, there=False, now=NOON)
    [replica] = news(made)
    assert (replica.state, replica.reason) == (
        ReplicaState.FAILED,
        "Terminated: pods were pending for too long",
    )


def test_what_was_ended_past_muster_is_stopped() -> None:
    status = Status(course=Course.STOPPED, reason="Aborted")
    told: dict[str, Any] = {"told_at": NOON, "deleted_at": TOLD}
    [replica] = news(attempt(pod(phase="Failed", **told), status=status), uid_0=HERE)
    assert (replica.state, replica.reason) == (ReplicaState.STOPPED, "Job train was ended: Aborted")


def test_why_a_workload_has_no_pods_is_told_in_its_controllers_words() -> None:
    [replica] = news(attempt(status=replace(OPEN, waits="It is suspended.")))
    assert (replica.state, replica.reason) == (ReplicaState.PENDING, "It is suspended.")


def test_what_still_runs_when_the_whole_is_over_lingers_but_not_in_a_gang() -> None:
    status = Status(course=Course.SUCCEEDED)
    made = attempt(pod(0, phase="Succeeded", index=0), pod(1, index=1), status=status, members=2)
    assert not made.lingers(NOON)
    assert made.restless
    assert made.lingers(NOON + LINGER)
    assert made.workload is not None
    made.workload = replace(made.workload, gang=True)
    assert not made.lingers(NOON + LINGER)


def test_what_has_ended_does_not_linger() -> None:
    made = attempt(pod(phase="Succeeded"), status=Status(course=Course.SUCCEEDED))
    assert not made.lingers(NOON)
    assert not made.lingers(NOON + LINGER)


@pytest.mark.parametrize(
    ("name", "patience"),
    [("pull", PATIENCE.pull), ("nosecret", PATIENCE.hopeless), ("badname", PATIENCE.hopeless)],
)
def test_a_pod_that_cannot_come_up_is_waited_for_only_so_long(name: str, patience: timedelta) -> None:
    made = attempt(recorded(name))
    wait = patience.total_seconds()
    assert made.give_up(NOON + timedelta(seconds=wait - 1)) == []
    [reason] = made.give_up(NOON + timedelta(seconds=wait))
    [replica] = news(made, seconds=wait)
    assert (replica.state, replica.reason, replica.log_bytes) == (ReplicaState.FAILED, reason, 0)


def test_a_volume_that_is_there_after_all_is_waited_for_no_more() -> None:
    made = attempt(recorded("novolume"))
    uid = recorded("novolume").uid
    made.see_trouble(uid, "FailedMount: nope", now=NOON)
    assert news(made)[0].reason == "FailedMount: nope"
    made.see_trouble(uid, "", now=NOON)
    assert made.give_up(NOON + 2 * PATIENCE.prepare) == []
    made.see_trouble(uid, "FailedMount: nope", now=NOON)
    assert made.give_up(NOON + PATIENCE.prepare) == ["FailedMount: nope"]


def test_pods_that_are_refused_are_waited_for_only_so_long_and_a_quota_for_ever() -> None:
    made = attempt(members=2)
    made.refuse_pods("exceeded quota", final=False, now=NOON)
    assert made.give_up(NOON + timedelta(days=1)) == []
    assert [(one.state, one.reason) for one in news(made)] == [(ReplicaState.PENDING, "exceeded quota")] * 2
    made.refuse_pods("forbidden: no", final=True, now=NOON)
    assert made.give_up(NOON + PATIENCE.refused) == ["forbidden: no"] * 2
    assert [(one.state, one.reason) for one in news(made)] == [(ReplicaState.FAILED, "forbidden: no")] * 2


def test_members_of_a_group_wait_for_what_the_group_does_until_one_has_a_place() -> None:
    words = "2/2 tasks in gang unschedulable"
    one, two = (
        pod(number, phase="Pending", node="", unplaced="its own words", room="a has room.", containers=())
        for number in range(2)
    )
    made = attempt(one, two, members=2, group=words)
    assert [told.reason for told in news(made)] == [f"{words}. a has room."] * 2
    made.see_pod(replace(one, node="a"), there=True, now=NOON)
    assert news(made)[-1].reason == "its own words. a has room."


def test_one_that_never_started_says_what_it_waited_for() -> None:
    waits = pod(phase="Pending", node="", unplaced="no room", containers=())
    made = attempt(waits, status=replace(FAILED, reason="Terminated", message=""))
    made.see_pod(waits, there=False, now=NOON)
    (told,) = news(made)
    assert (told.state, told.reason) == (ReplicaState.FAILED, "Terminated. It had not started: no room")


def test_who_was_taken_away_was_so_even_if_another_came_in_vain() -> None:
    """Volcano puts a new pod in its place, and only then ends the Job, as its policy for evictions has it."""
    first = pod(0, index=0, disruption="EvictionByEvictionAPI", disruption_message="evicting")
    second = pod(1, index=0, phase="Pending", node="", containers=())
    made = attempt(first, second, status=replace(FAILED, reason="Terminated", message=""))
    for one in (first, second):
        made.see_pod(one, there=False, now=NOON)
    (told,) = news(made)
    assert (told.state, told.restarts) == (ReplicaState.PREEMPTED, 1)
    assert "was taken away (EvictionByEvictionAPI)" in told.reason


# what the cluster says


def event(
    reason: str, message: str, *, uid: str = "job", kind: str = "Job", name: str = "train"
) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": NOON.isoformat()},
        "involvedObject": {"kind": kind, "name": name, "namespace": "default", "uid": uid},
        "reason": reason,
        "message": message,
        "type": "Warning",
    }


@pytest.mark.parametrize(
    ("message", "words", "is_final"),
    [
        (
            'Error creating: pods "train-8w5mk" is forbidden: exceeded quota: small, requested: pods=1',
            "exceeded quota: small, requested: pods=1",
            False,
        ),
        (
            'Error creating: pods "train-8w5mk" is forbidden: violates PodSecurity "restricted:latest": x',
            'violates PodSecurity "restricted:latest": x',
            True,
        ),
        (
            'Error creating: admission webhook "a.b" denied the request: no',
            'admission webhook "a.b" denied the request: no',
            True,
        ),
        (
            'Error creating: Internal error occurred: failed calling webhook "a.b": connection refused',
            'Internal error occurred: failed calling webhook "a.b": connection refused',
            False,
        ),
    ],
)
def test_a_refusal_is_told_without_the_name_of_a_pod_that_never_was(
    message: str, words: str, is_final: bool
) -> None:
    happenings = Happenings(lambda: NOON)
    happenings.knows("job", KEY)
    happenings.see(event("FailedCreate", message))
    happenings.see(event("FailedCreate", message.replace("8w5mk", "x2x4z")))
    [(key, happening)] = happenings.take({KEY})
    assert (key, happening.refuses_pods, happening.words, happening.is_final) == (KEY, True, words, is_final)
    assert happening.sentence == f"Job train: FailedCreate: {words}"


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ("404b601b-b26f-4e28-98b5-4a4dcf2ac4ad", "train-404b601b-b26f-4e28-98b5-4a4dcf2ac4ad"),
        ("default/train-404b6", "train-404b6"),
    ],
)
def test_a_group_is_known_by_the_job_it_is_named_after_or_by_its_name(known: str, name: str) -> None:
    happenings = Happenings(lambda: NOON)
    happenings.knows(known, KEY)
    happenings.see(event("Unschedulable", "2/2 tasks", uid="of-the-group", kind="PodGroup", name=name))
    [(key, happening)] = happenings.take({KEY})
    assert (key, happening.holds_group, happening.words) == (KEY, True, "2/2 tasks")
