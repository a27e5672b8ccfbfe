"""From a member's pods to what the member is: pure, and tested from a table of recorded pods."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from signal import Signals

from muster.domain.observation import Replica, ReplicaState
from muster.engine.kubernetes.pod import Container, Ended, Pod

#: Why a container waits that will not pass by itself.
HOPELESS = frozenset(
    """
    CreateContainerConfigError CreateContainerError ErrImageNeverPull InvalidImageName RunContainerError
    CreatePodSandboxError
    """.split()
)
PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})

#: Why the cluster takes a pod away. The node is gone, and nobody can say how the pod fared …
NODE_GONE = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
#: … or its place was needed for something else.
TAKEN_AWAY = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet"})
EVICTED = frozenset({"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated"})
LOST_MARGIN = timedelta(seconds=2)  #: beyond a pod's grace, until a silent node's pod is given up

_SIGNALS = {signal.value for signal in Signals}
_NOT_STARTED = ("StartError", "ContainerCannotRun")
_SHORT = re.compile(r"Insufficient ([\w./-]+\w)")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a pod that does not come up is waited for."""

    hopeless: timedelta = timedelta(seconds=30)  #: nothing but a change of the config would help
    pull: timedelta = timedelta(minutes=10)  #: a registry may come back, an image may be pushed yet
    prepare: timedelta = timedelta(minutes=10)  #: a volume may be attached yet
    refused: timedelta = timedelta(seconds=10)  #: an admission rule does not let it in


PATIENCE = Patience()


@dataclass(frozen=True, kw_only=True)
class Wait:
    """One that becomes a failure."""

    until: datetime
    reason: str


def replica_of(
    rank: int, pods: Sequence[Pod], *, now: datetime, trouble: str = "", group: str = ""
) -> Replica:
    """The member as its newest pod shows it. Whether that is the end, the whole attempt decides.
    `trouble`: what the cluster last said about a pod that does not come up; `group`: what its scheduler said
    of all that are placed together."""
    pod = pods[-1]
    base = Replica(
        rank=rank,
        state=ReplicaState.PENDING,
        node=pod.node,
        handle=pod.name,
        restarts=sum(container.restarts for container in pod.containers) + len(pods) - 1,
        started_at=_started(pod),
    )
    if _is_given_up(pod, now):
        return replace(base, state=ReplicaState.LOST, reason=_lost(pod), ended_at=pod.deleted_at)
    if pod.over:
        return _ended(base, pod)
    if not pod.node:
        return replace(base, reason=_unplaced(pod, group))
    if pod.containers and all(container.begun for container in pod.containers):
        return replace(base, state=ReplicaState.RUNNING)
    return replace(base, state=ReplicaState.STARTING, reason=_coming_up(pod, trouble))


def held_up(pod: Pod, *, trouble: str, group: str) -> str:
    """Why a pod has not come up, as far as anybody said."""
    return _coming_up(pod, trouble) if pod.node else _unplaced(pod, group)


def wait_of(pod: Pod, patience: Patience, *, since: datetime, trouble: str = "") -> Wait | None:
    """Until when a pod that cannot come up is waited for. `since`: when that was first seen."""
    if pod.over or not pod.node or pod.told_at is not None:
        return None
    for container in pod.everyone:
        if container.waiting in HOPELESS:
            return Wait(until=since + patience.hopeless, reason=one_line(_words(container)))
        if container.waiting in PULLING:
            return Wait(until=since + patience.pull, reason=one_line(_words(container)))
    if trouble and not any(container.begun or container.restarts for container in pod.everyone):
        return Wait(until=since + patience.prepare, reason=one_line(trouble))
    return None


def gone(known: Replica, pod: Pod, *, now: datetime) -> Replica:
    """A pod was removed before it was seen to end."""
    if pod.disruption in NODE_GONE:
        return replace(known, state=ReplicaState.LOST, reason=_lost(pod), ended_at=now)
    return taken_away(known, pod, now=now) or replace(
        known, state=ReplicaState.STOPPED, reason=f"Pod {pod.name} was deleted.", ended_at=now
    )


def taken_away(known: Replica, pod: Pod, *, now: datetime) -> Replica | None:
    """If that is what happened to the pod."""
    if pod.disruption not in TAKEN_AWAY and pod.reason not in EVICTED:
        return None
    return replace(known, state=ReplicaState.PREEMPTED, reason=_taken(pod), ended_at=now)


def last_end(known: Replica, pod: Pod) -> Replica | None:
    """As a pod's last life ended, where that was its own doing: it was restarted, and will not be again."""
    for container in pod.everyone:
        end = container.ended or container.before
        if container.restarts and end is not None and end.exit_code != 0:
            exit_code, signal = _how(end)
            reason = _failed_words(pod, replace(container, ended=end))
            return replace(
                known,
                state=ReplicaState.FAILED,
                exit_code=exit_code,
                signal=signal,
                reason=reason,
                ended_at=end.ended_at,
            )
    return None


def _ended(base: Replica, pod: Pod) -> Replica:
    culprit = _culprit(pod)
    exit_code, signal = _how(culprit.ended) if culprit and culprit.ended else (None, None)
    if pod.phase == "Succeeded":
        exit_code, signal = 0, None
    end = replace(
        base, state=ReplicaState.SUCCEEDED, ended_at=pod.ended_at, exit_code=exit_code, signal=signal
    )
    if pod.disruption == "DeletionByPodGC":
        return replace(end, state=ReplicaState.LOST, reason=_lost(pod), exit_code=None, signal=None)
    if pod.phase == "Succeeded" and not (pod.disruption and pod.was_told_to_end):
        return end
    if pod.disruption in NODE_GONE | TAKEN_AWAY or pod.reason in EVICTED:
        return replace(end, state=ReplicaState.PREEMPTED, reason=_taken(pod))
    return replace(end, state=ReplicaState.FAILED, reason=_failed_words(pod, culprit))


def _culprit(pod: Pod) -> Container | None:
    """Whose end is the pod's: the first to end badly. Who stands beside is ended for the others' sake."""
    bad = [one for one in pod.everyone if one.ended and one.ended.exit_code != 0]
    bad = [one for one in bad if not one.is_sidecar] or bad
    known = [(one.ended.ended_at, one) for one in bad if one.ended and one.ended.ended_at]
    if known:
        return min(known, key=lambda end: end[0])[1]
    return bad[0] if bad else None


def _how(ended: Ended) -> tuple[int | None, int | None]:
    """(exit code, signal); a runtime tells SIGKILL as 137."""
    if ended.reason in _NOT_STARTED:
        return None, None  # the code is the runtime's own
    number = ended.exit_code - 128
    if number in _SIGNALS:
        return None, number
    return ended.exit_code, None


def _failed_words(pod: Pod, culprit: Container | None) -> str:
    words = []
    if pod.reason:
        words.append(f"{pod.reason}: {pod.message}" if pod.message else pod.reason)
    if culprit is not None and culprit.ended is not None:
        ended = culprit.ended
        if ended.reason not in ("", "Error", "Completed"):
            told = ended.message if ended.reason in _NOT_STARTED else ""
            words.append(f"{ended.reason}: {told}" if told else ended.reason)
        if any(culprit.name == one.name for one in pod.inits):
            words.append(f"init container {culprit.name!r} ended with exit code {ended.exit_code}")
        elif len(pod.containers) > 1:
            words.append(f"container {culprit.name!r} ended with exit code {ended.exit_code}")
    return one_line("; ".join(words))


def _coming_up(pod: Pod, trouble: str) -> str:
    return one_line(_start_words(pod) or trouble)


def _start_words(pod: Pod) -> str:
    for container in pod.everyone:
        if container.ended is not None and container.ended.exit_code == 0:
            continue
        if container.waiting and container.waiting not in ("PodInitializing", "ContainerCreating"):
            return _words(container)
        if container.running_since is not None and container in pod.inits and not container.is_sidecar:
            return f"init container {container.name!r} runs"
    return ""


def _words(container: Container) -> str:
    return f"{container.waiting}: {container.message}" if container.message else container.waiting


def _unplaced(pod: Pod, group: str) -> str:
    """The scheduler's sentence, before it what is short, after it which nodes have how much room."""
    words = group or pod.unplaced
    if words and pod.room:
        words = f"{words if words.endswith('.') else f'{words}.'} {pod.room}"
    short = list(dict.fromkeys(_SHORT.findall(words)))
    return one_line(f"Not enough {', '.join(short)}: {words}" if short else words)


def _is_given_up(pod: Pod, now: datetime) -> bool:
    """Its node is silent, and by now nothing of it should be left."""
    return (
        not pod.over
        and pod.disruption in NODE_GONE
        and pod.deleted_at is not None
        and now >= pod.deleted_at + LOST_MARGIN
    )


def _lost(pod: Pod) -> str:
    return one_line(f"Node {pod.node} of pod {pod.name} does not answer: {pod.disruption_message}")


def _taken(pod: Pod) -> str:
    why = pod.disruption_message or pod.message or pod.reason
    return one_line(f"Pod {pod.name} was taken away ({pod.disruption or pod.reason}): {why}")


def _started(pod: Pod) -> datetime | None:
    starts = [one.running_since or (one.ended and one.ended.started_at) for one in pod.containers]
    known = [start for start in starts if start]
    return max(known) if known and len(known) == len(starts) else None


def one_line(text: str) -> str:
    return " ".join(text.split())[:1000]
