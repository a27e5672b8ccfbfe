"""What goes wrong with one pod is told apart, each in words that a user can act on.

All cases of the table run at once, in one namespace and by one engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cluster.cluster import Cluster
from cluster.runs import ClusterBench, bench_in, job, key
from muster.agent.postmortem import find_cause
from muster.domain.failure import named
from muster.domain.observation import AttemptKey, Failure, Replica, ReplicaSeen, ReplicaState
from muster.domain.run import AttemptEnd
from muster.domain.verdict import AttemptView, Judgement, judge, merge

NOWHERE = "127.0.0.1:1/nothing:1"  #: an image whose registry refuses the connection
SLEEP = "echo up; exec sleep 60"
OBEDIENT = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
# A kubelet looks once a second, and removes a dead container once the next is dead, too: lives last longer.
ONCE = "if [ -e /kept/there ]; then echo second; else touch /kept/there; echo first; sleep 2; exit 1; fi"

Act = Callable[[ClusterBench, AttemptKey, str], Awaitable[None]]


def kept(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "kept", **source}]}


KEPT = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}


async def evict(bench: ClusterBench, key: AttemptKey, pod: str) -> None:
    await bench.evict(pod)


async def delete_job(bench: ClusterBench, key: AttemptKey, pod: str) -> None:
    await bench.kubectl("delete", "job", f"muster-{key.run_id}-{key.attempt}", "--wait=false")


async def delete_pod(bench: ClusterBench, key: AttemptKey, pod: str) -> None:
    await bench.kubectl("delete", "pod", pod, "--wait=false")


@dataclass(frozen=True, kw_only=True)
class Case:
    title: str
    command: tuple[str, ...] = ("sh", "-c", SLEEP)
    config: Mapping[str, Any] = field(default_factory=job)
    act: Act | None = None  #: what happens to it once it runs
    state: ReplicaState = ReplicaState.FAILED
    end: AttemptEnd = AttemptEnd.FAILED
    how: tuple[int | None, int | None] | None = None  #: exit code, signal; None: does not matter
    kind: str = ""  #: of failure
    says: str = ""  #: to the user
    log: bytes | None = None
    restarts: int = 0
    is_given_up: bool = False  #: it might come up yet, so it must not stay


def shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


STOPPED, PREEMPTED, SUCCEEDED = ReplicaState.STOPPED, ReplicaState.PREEMPTED, ReplicaState.SUCCEEDED
CASES = (
    # It never starts.
    Case(
        title="an image that cannot be pulled",
        config=job({"image": NOWHERE}),
        kind="image_pull",
        says="connection refused",
        is_given_up=True,
    ),
    Case(
        title="an image that may not be pulled",
        config=job({"image": "muster.test/nothing:1", "imagePullPolicy": "Never"}),
        kind="image_pull",
        says='Container image "muster.test/nothing:1" is not present with pull policy of Never',
        is_given_up=True,
    ),
    Case(
        title="an image with an impossible name",
        config=job({"image": "UPPER:::"}),
        kind="image_pull",
        says="must be lowercase",
        is_given_up=True,
    ),
    Case(
        title="a command that is not there",
        command=("/nope",),
        how=(None, None),
        kind="cannot_start",
        says="The program could not start: the command /nope is not in the image.",
    ),
    Case(
        title="a Secret that is not there",
        config=job({"envFrom": [{"secretRef": {"name": "nope"}}]}),
        kind="cannot_start",
        says='could not start: secret "nope" not found.',
        is_given_up=True,
    ),
    Case(
        title="a volume that is not there",
        config=job(KEPT, pod=kept(configMap={"name": "nope"})),
        kind="cannot_start",
        says='configmap "nope" not found (FailedMount).',
        is_given_up=True,
    ),
    Case(
        title="an init container that fails",
        config=job(
            pod={
                "initContainers": [
                    {"name": "fetch", "image": "${image_uri}", "command": shell("echo no data; exit 4")}
                ]
            }
        ),
        how=(4, None),
        kind="init_failed",
        says="init container fetch ended with exit code 4; the last line printed: [fetch] no data.",
        log=b"[fetch] no data\n",
    ),
    # It ends by itself.
    Case(
        title="a crash",
        command=shell("echo oh; exit 3"),
        how=(3, None),
        kind="nonzero_exit",
        says="exited with code 3; the last line printed: oh.",
        log=b"oh\n",
    ),
    Case(
        title="a crash of a bare pod",
        command=shell("echo oh; exit 3"),
        config={"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{}]}},
        how=(3, None),
        kind="nonzero_exit",
        says="exited with code 3",
        log=b"oh\n",
    ),
    Case(
        title="too much memory",
        command=shell("exec tail /dev/zero"),
        config=job({"resources": {"limits": {"memory": "30Mi"}}}),
        how=(None, 9),
        kind="out_of_memory",
        says="ran out of memory: it needed more than the run may use and was killed.",
    ),
    Case(
        title="too much memory in a child",
        command=shell("exec 2> /dev/null; tail /dev/zero; echo child: $?; exit 5"),
        config=job({"resources": {"limits": {"memory": "30Mi"}}}),
        how=(5, None),
        kind="out_of_memory",
        says="ran out of memory: it needed more than the run may use and was killed.",
        log=b"child: 137\n",
    ),
    Case(
        title="a failed program beside containers that run on",
        command=shell("sleep 1; echo oh; exit 3"),
        config=job(
            {},
            {"name": "side", "command": shell("echo one; sleep 1; echo two")},
            pod={
                "initContainers": [
                    {
                        "name": "proxy",
                        "image": "${image_uri}",
                        "command": shell("echo listening; exec sleep 60"),
                        "restartPolicy": "Always",
                    }
                ]
            },
        ),
        how=(3, None),
        kind="nonzero_exit",
        says="exited with code 3",
    ),
    # It is ended.
    Case(
        title="a job that runs too long",
        config=job(activeDeadlineSeconds=4),
        kind="deadline",
        says="was ended because it ran longer than its queue allows.",
    ),
    Case(
        title="a job that runs too long, and ends well when told",
        command=shell(OBEDIENT),
        config=job(activeDeadlineSeconds=4),
        kind="deadline",
        says="was ended because it ran longer than its queue allows.",
    ),
    Case(
        title="a pod that runs too long",
        config=job(pod={"activeDeadlineSeconds": 4}),
        kind="deadline",
        says="was ended because it ran longer than its queue allows.",
    ),
    Case(
        title="an eviction",
        act=evict,
        state=PREEMPTED,
        end=AttemptEnd.PREEMPTED,
        kind="evicted",
        says="was taken away by the cluster (EvictionByEvictionAPI): Eviction API: evicting.",
        log=b"up\n",
    ),
    Case(
        title="an eviction that the program obeys",
        command=shell(OBEDIENT),
        act=evict,
        state=PREEMPTED,
        end=AttemptEnd.PREEMPTED,
        kind="evicted",
        says="was taken away by the cluster (EvictionByEvictionAPI)",
    ),
    Case(
        title="a job that somebody deletes",
        act=delete_job,
        state=STOPPED,
        kind="deleted_outside",
        says="was deleted from outside Muster.",
        log=b"up\n",
    ),
    Case(
        title="a pod that somebody deletes",
        act=delete_pod,
        state=STOPPED,
        kind="deleted_outside",
        says="was ended because its pod was deleted from outside Muster.",
        log=b"up\n",
    ),
    Case(
        title="a pod that somebody deletes, and that ends well when told",
        command=shell(OBEDIENT),
        act=delete_pod,
        state=STOPPED,
        kind="deleted_outside",
        says="was ended because its pod was deleted from outside Muster.",
    ),
    # It is removed, restarted, replaced.
    Case(
        title="a success whose object is removed at once",
        command=shell("echo done; sleep 1"),
        config=job(ttlSecondsAfterFinished=0),
        state=SUCCEEDED,
        end=AttemptEnd.SUCCEEDED,
        how=(0, None),
        log=b"done\n",
    ),
    Case(
        title="a failure whose object is removed at once",
        command=shell("echo oh; sleep 1; exit 3"),
        config=job(ttlSecondsAfterFinished=0),
        how=(3, None),
        kind="nonzero_exit",
        says="exited with code 3; the last line printed: oh.",
        log=b"oh\n",
    ),
    Case(
        title="a container that is restarted and succeeds",
        command=shell(ONCE),
        config=job(KEPT, pod={"restartPolicy": "OnFailure", **kept(emptyDir={})}, backoffLimit=3),
        state=SUCCEEDED,
        end=AttemptEnd.SUCCEEDED,
        how=(0, None),
        log=b"first\nsecond\n",
        restarts=1,
    ),
    Case(
        title="a container that is restarted in vain",
        command=shell("echo life; sleep 2; exit 6"),
        config=job(pod={"restartPolicy": "OnFailure"}, backoffLimit=1),
        how=(6, None),
        kind="nonzero_exit",
        says="exited with code 6; the last line printed: life.",
        log=b"life\nlife\n",
        restarts=1,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    key: AttemptKey
    replica: Replica
    log: bytes
    failure: Failure | None
    judgement: Judgement
    notes: list[str]


async def outcome(bench: ClusterBench, number: int, case: Case) -> Outcome:
    name = key(number)
    await bench.submit(*case.command, key=name, config=case.config)
    if case.act is not None:
        [running] = (await bench.running(name)).values()
        await bench.says(b"up", name)
        await case.act(bench, name, running.handle)
    replica = await bench.only(name)
    if case.is_given_up:
        await bench.gone(name)
    return conclude(bench, name, replica)


def conclude(bench: ClusterBench, name: AttemptKey, replica: Replica) -> Outcome:
    """As the agent and the server do."""
    judgement = judge(merge(AttemptView(members=1), ReplicaSeen(replica=replica)), stop_requested=False)
    failure = None
    if replica.state is ReplicaState.FAILED:
        failure = find_cause(bench.engine, name, {0: replica})
    elif judgement.reason:
        failure = named(judgement.reason)
    return Outcome(
        key=name,
        replica=replica,
        log=bench.log(name),
        failure=failure,
        judgement=judgement,
        notes=bench.notes(name),
    )


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    cluster.kubectl("create", "namespace", "faults")
    yield "faults"
    cluster.kubectl("delete", "namespace", "faults", "--wait=false")


@pytest.fixture(scope="module")
def outcomes(
    cluster: Cluster, room: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome | BaseException]:
    async def scenario(directory: Path) -> list[Outcome | BaseException]:
        async with bench_in(cluster, room, directory) as bench:
            return await asyncio.gather(
                *(outcome(bench, number, case) for number, case in enumerate(CASES)), return_exceptions=True
            )

    done = asyncio.run(scenario(tmp_path_factory.mktemp("faults")))
    return {case.title: result for case, result in zip(CASES, done, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_each_is_told_apart(outcomes: dict[str, Outcome | BaseException], case: Case) -> None:
    seen = outcomes[case.title]
    if isinstance(seen, BaseException):
        raise seen
    assert seen.replica.state is case.state, seen
    assert seen.judgement.end is case.end
    assert (seen.failure.kind if seen.failure else "") == case.kind, seen
    assert case.says in (seen.failure.summary if seen.failure else "")
    assert case.how in (None, (seen.replica.exit_code, seen.replica.signal)), seen
    assert case.log in (None, seen.log)
    assert seen.replica.log_bytes == len(seen.log)
    assert seen.replica.restarts == case.restarts


def test_what_was_given_up_on_is_told_while_it_is_waited_for(
    outcomes: dict[str, Outcome | BaseException],
) -> None:
    waited = {title: seen.notes for title, seen in outcomes.items() if isinstance(seen, Outcome)}
    assert any("Failed to pull image" in note for note in waited["an image that cannot be pulled"])
    assert any("FailedMount" in note for note in waited["a volume that is not there"])


def test_lines_of_other_containers_have_their_name_before_them(
    outcomes: dict[str, Outcome | BaseException],
) -> None:
    seen = outcomes["a failed program beside containers that run on"]
    assert isinstance(seen, Outcome)
    assert sorted(seen.log.splitlines()) == [b"[proxy] listening", b"[side] one", b"[side] two", b"oh"]
