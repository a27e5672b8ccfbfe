"""From a member's pods to what the member is: pure, and tested from a table of recorded pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from signal import Signals

from muster.domain.observation import Replica, ReplicaState
from muster.engine.kubernetes.pod import Container, Ended, Pod

#: Why a container waits that will not pass by itself, and how long it is given all the same.
HOPELESS = frozenset(
    """
    CreateContainerConfigError CreateContainerError ErrImageNeverPull InvalidImageName RunContainerError
    CreatePodSandboxError
    """.split()
)
PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
HOPELESS_PATIENCE = timedelta(seconds=30)
PULL_PATIENCE = timedelta(minutes=10)

#: Why the cluster takes a pod away. The node is gone, and nobody can say how the pod fared …
NODE_GONE = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
#: … or its place was needed for something else.
TAKEN_AWAY = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet"})
EVICTED = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated"})
LOST_MARGIN = timedelta(seconds=2)  #: beyond a pod's grace, until a silent node's pod is given up

_SIGNALS = {signal.value for signal in Signals}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """A wait that becomes a failure."""

    until: datetime
    reason: str


def replica_of(rank: int, pods: Sequence[Pod], *, now: datetime) -> Replica:
    """The member as its newest pod shows it. Whether that is the end, the whole attempt decides."""
    pod = pods[-1]
    restarts = sum(container.restarts for container in pod.containers) + len(pods) - 1
    base = Replica(
        rank=rank,
        state=ReplicaState.PENDING,
        node=pod.node,
        handle=pod.name,
        restarts=restarts,
        started_at=_started(pod),
    )
    if _is_given_up(pod, now):
        return _changed(base, ReplicaState.LOST, reason=_lost(pod), ended_at=pod.deleted_at)
    if pod.over:
        return _ended(base, pod)
    if not pod.node:
        return _changed(base, ReplicaState.PENDING, reason=_one_line(pod.unplaced))
    if pod.containers and all(container.begun for container in pod.containers):
        return _changed(base, ReplicaState.RUNNING)
    return _changed(base, ReplicaState.STARTING, reason=_one_line(_coming_up(pod)))


def patience_of(pod: Pod, *, since: datetime) -> Patience | None:
    """Until when a pod that cannot come up is waited for. `since`: when that was first seen."""
    if pod.over or not pod.node:
        return None
    for container in (*pod.inits, *pod.containers):
        wait = PULL_PATIENCE if container.waiting in PULLING else HOPELESS_PATIENCE
        if container.waiting in HOPELESS | PULLING:
            return Patience(until=since + wait, reason=_one_line(_words(container)))
    return None


def gone(known: Replica, pod: Pod, *, now: datetime) -> Replica:
    """A pod was removed before it was seen to end."""
    if pod.disruption in NODE_GONE:
        return _changed(known, ReplicaState.LOST, reason=_lost(pod), ended_at=now)
    if pod.disruption in TAKEN_AWAY:
        return _changed(known, ReplicaState.PREEMPTED, reason=_taken(pod), ended_at=now)
    return _changed(known, ReplicaState.STOPPED, reason=f"Pod {pod.name} was deleted.", ended_at=now)


def _changed(
    replica: Replica,
    state: ReplicaState,
    *,
    reason: str = "",
    ended_at: datetime | None = None,
    exit_code: int | None = None,
    signal: int | None = None,
) -> Replica:
    return Replica(
        rank=replica.rank,
        state=state,
        node=replica.node,
        handle=replica.handle,
        restarts=replica.restarts,
        started_at=replica.started_at,
        ended_at=ended_at,
        exit_code=exit_code,
        signal=signal,
        reason=reason,
    )


def _ended(base: Replica, pod: Pod) -> Replica:
    culprit = _culprit(pod)
    ends = [one.ended.ended_at for one in (*pod.inits, *pod.containers) if one.ended and one.ended.ended_at]
    at = max(ends, default=None)
    exit_code, signal = _how(culprit.ended) if culprit and culprit.ended else (None, None)
    if pod.phase == "Succeeded":
        return _changed(base, ReplicaState.SUCCEEDED, ended_at=at, exit_code=0)
    if pod.disruption in NODE_GONE:
        return _changed(base, ReplicaState.LOST, reason=_lost(pod), ended_at=at)
    if pod.disruption in TAKEN_AWAY or pod.reason in EVICTED:
        return _changed(
            base, ReplicaState.PREEMPTED, reason=_taken(pod), ended_at=at, exit_code=exit_code, signal=signal
        )
    return _changed(
        base,
        ReplicaState.FAILED,
        reason=_failed_words(pod, culprit),
        ended_at=at,
        exit_code=exit_code,
        signal=signal,
    )


def _culprit(pod: Pod) -> Container | None:
    """Whose end is the pod's: the first to end badly."""
    bad = [one for one in (*pod.inits, *pod.containers) if one.ended and one.ended.exit_code != 0]
    order = {id(one): place for place, one in enumerate(bad)}
    known = [one for one in bad if one.ended and one.ended.ended_at]
    if known:
        return min(known, key=lambda one: (one.ended.ended_at if one.ended else None, order[id(one)]))
    return bad[0] if bad else None


def _how(ended: Ended) -> tuple[int | None, int | None]:
    """(exit code, signal); a runtime tells SIGKILL as 137."""
    number = ended.exit_code - 128
    if number in _SIGNALS:
        return None, number
    return ended.exit_code, None


def _failed_words(pod: Pod, culprit: Container | None) -> str:
    words = []
    if pod.reason:
        words.append(f"{pod.reason}: {pod.message}" if pod.message else pod.reason)
    if culprit is not None and culprit.ended is not None:
        is_init = any(culprit is one for one in pod.inits)
        ended = culprit.ended
        if ended.reason not in ("", "Error", "Completed"):
            told = ended.message if ended.reason in ("StartError", "ContainerCannotRun") else ""
            words.append(f"{ended.reason}: {told}" if told else ended.reason)
        if is_init:
            words.append(f"init container {culprit.name!r} ended with exit code {ended.exit_code}")
        elif len(pod.containers) > 1:
            words.append(f"container {culprit.name!r} ended with exit code {ended.exit_code}")
    return _one_line("; ".join(words))


def _coming_up(pod: Pod) -> str:
    for container in (*pod.inits, *pod.containers):
        if container.ended is not None and container.ended.exit_code == 0:
            continue
        if container.waiting and container.waiting not in ("PodInitializing", "ContainerCreating"):
            return _words(container)
        if container.waiting == "ContainerCreating":
            return "its containers are being created"
        if container.running_since is not None and container in pod.inits:
            return f"init container {container.name!r} runs"
    return ""


def _words(container: Container) -> str:
    return f"{container.waiting}: {container.message}" if container.message else container.waiting


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """Its node is silent, and by now nothing of it should be left."""
    return (
        not pod.over
        and pod.disruption in NODE_GONE
        and pod.deleted_at is not None
        and now >= pod.deleted_at + LOST_MARGIN
    )


def _lost(pod: Pod) -> str:
    return _one_line(f"Node {pod.node} of pod {pod.name} does not answer: {pod.disruption_message}")


def _taken(pod: Pod) -> str:
    why = pod.disruption_message or pod.message or pod.reason
    return _one_line(f"Pod {pod.name} was taken away ({pod.disruption or pod.reason}): {why}")


def _started(pod: Pod) -> datetime | None:
    starts = [one.running_since or (one.ended and one.ended.started_at) for one in pod.containers]
    known = [start for start in starts if start]
    return max(known) if known and len(known) == len(starts) else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1000]
