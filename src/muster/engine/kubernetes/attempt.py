"""One attempt as the cluster shows it: its workload, its pods, and what there is to tell about them.

Pure: told what was seen, it says what is new. `muster.engine.kubernetes.engine` feeds it and acts on it.

1. A pod that succeeded is final. One that failed is final once its workload is over or gone, or where
   nothing is known of the kind: until then another may follow it.
2. A member ends when its pod has ended *and* all of its log is here.
3. When the attempt is over, every member is told as ended, also those that never had a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.engine.kubernetes import member
from muster.engine.kubernetes.api import Resource
from muster.engine.kubernetes.course import OPEN, UNKNOWN, Course, Kind, Status
from muster.engine.kubernetes.pod import Pod
from muster.engine.kubernetes.ranks import by_rank

_WENT_WRONG = {
    ReplicaState.FAILED: "failed",
    ReplicaState.LOST: "was lost",
    ReplicaState.PREEMPTED: "was taken away",
}
LOG_PATIENCE = timedelta(seconds=30)  #: for the rest of a log, once its pod has ended
REFUSED_PATIENCE = timedelta(seconds=10)  #: for pods that an admission rule refuses
STOP_WORDS = "It was stopped on request."


@dataclass(frozen=True, kw_only=True)
class LogProgress:
    length: int  #: bytes that are here
    whole: bool  #: there is no more to come


NO_LOG = LogProgress(length=0, whole=True)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The object that a run is."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    version: str = ""  #: its resource version, as last seen
    epoch: int = 0
    members: int = 1
    status: Status = OPEN


@dataclass(kw_only=True)
class Attempt:
    key: AttemptKey
    epoch: int
    members: int
    kind: Kind = UNKNOWN
    workload: Workload | None = None  #: as last seen
    gone: bool = False  #: the workload was there, and is not any more
    stopping: bool = False  #: we asked for its end
    because: str = ""  #: why we did, if nobody else asked
    pods: dict[str, Pod] = field(default_factory=dict)  #: uid → as last seen
    removed: set[str] = field(default_factory=set)  #: uids of pods that are not there any more
    waiting: str = ""  #: the cluster's words about pods that are not even made
    refused_at: datetime | None = None  #: since when they are refused for good
    stuck: dict[str, datetime] = field(default_factory=dict)  #: uid → since when it cannot come up
    told: dict[int, Replica] = field(default_factory=dict)
    failed: dict[int, Replica] = field(default_factory=dict)  #: those we gave up on

    @property
    def over(self) -> bool:
        return len(self.told) == self.members and all(one.state.ended for one in self.told.values())

    @property
    def ending(self) -> bool:
        """No more pods will come."""
        return self.gone or self.stopping or self.status.course is not Course.OPEN

    @property
    def status(self) -> Status:
        return self.workload.status if self.workload else OPEN

    def see_pod(self, pod: Pod, *, there: bool, now: datetime) -> None:
        known = self.pods.get(pod.uid)
        if not there:
            self.removed.add(pod.uid)
            if known is None:
                return
            pod = known
        self.pods[pod.uid] = pod
        if there and member.patience_of(pod, since=now) is not None:
            self.stuck.setdefault(pod.uid, now)
        else:
            self.stuck.pop(pod.uid, None)

    def refuse_pods(self, words: str, *, final: bool, now: datetime) -> None:
        """Its pods are not even made. `final`: not for want of room, so that waiting helps nobody."""
        self.waiting = words
        if final and self.refused_at is None:
            self.refused_at = now

    @property
    def restless(self) -> bool:
        """Time alone may change what there is to tell."""
        if self.over:
            return False
        return bool(self.stuck or self.removed or self.refused_at) or any(
            pod.over or pod.deleted_at for pod in self.pods.values()
        )

    def give_up(self, now: datetime) -> list[str]:
        """Members whose pods will not come up have failed. Returns why, of those that are new."""
        hopeless: list[str] = []
        for rank, pods in self.ranked().items():
            pod = pods[-1]
            if rank in self.failed or pod.uid not in self.stuck:
                continue
            wait = member.patience_of(pod, since=self.stuck[pod.uid])
            if wait is not None and now >= wait.until:
                seen = member.replica_of(rank, pods, now=now)
                self.failed[rank] = replace(
                    seen, state=ReplicaState.FAILED, reason=wait.reason, ended_at=now, log_bytes=0
                )
                hopeless.append(wait.reason)
        if (
            self.refused_at
            and not self.pods
            and not self.failed
            and now >= self.refused_at + REFUSED_PATIENCE
        ):
            for rank in range(self.members):
                self.failed[rank] = Replica(
                    rank=rank, state=ReplicaState.FAILED, reason=self.waiting, ended_at=now, log_bytes=0
                )
            hopeless.append(self.waiting)
        return hopeless

    def ranked(self) -> dict[int, list[Pod]]:
        return by_rank(self.pods.values(), members=self.members)

    def news(self, logs: Mapping[str, LogProgress], *, now: datetime) -> list[Replica]:
        """What changed of the members. `logs`: pod uid → how much of its output is here."""
        ranked = self.ranked()
        raw = {rank: self._as_seen(rank, pods, now) for rank, pods in ranked.items()}
        fresh: list[Replica] = []
        for rank in range(self.members):
            told = self.told.get(rank)
            if told is not None and told.state.ended:
                continue
            seen = self._look(rank, ranked.get(rank, []), raw, logs, now)
            if seen is not None and seen != told:
                self.told[rank] = seen
                fresh.append(seen)
        return fresh

    def _as_seen(self, rank: int, pods: list[Pod], now: datetime) -> Replica:
        """By its pods alone; STOPPED if they were told to end."""
        if rank in self.failed:
            return self.failed[rank]
        pod = pods[-1]
        seen = member.replica_of(rank, pods, now=now)
        if pod.uid in self.removed and not seen.state.ended:
            seen = member.gone(seen, pod, now=now)
        obeyed = seen.state is ReplicaState.SUCCEEDED and self.stopping
        if (seen.state is ReplicaState.FAILED or obeyed) and _was_told_to_end(pod, seen):
            return replace(seen, state=ReplicaState.STOPPED)
        return seen

    def _look(
        self,
        rank: int,
        pods: list[Pod],
        raw: Mapping[int, Replica],
        logs: Mapping[str, LogProgress],
        now: datetime,
    ) -> Replica | None:
        """What is to be told of this member now; None: nothing yet."""
        if not pods:
            return self.failed.get(rank) or self._without_pod(rank, now)
        seen, pod = raw[rank], pods[-1]
        if not seen.state.ended:
            return seen
        if seen.state is ReplicaState.STOPPED:
            seen = self._stopped(seen, raw)
        log = logs.get(pod.uid, NO_LOG)
        if not self._is_final(seen) or not (log.whole or self._may_go_without_log(pod, now)):
            return None
        return replace(seen, log_bytes=log.length)

    def _without_pod(self, rank: int, now: datetime) -> Replica | None:
        end = Replica(rank=rank, state=ReplicaState.STOPPED, ended_at=now, log_bytes=0)
        if not self.ending or (self.stopping and not self.gone):
            if self.waiting:
                return Replica(rank=rank, state=ReplicaState.PENDING, reason=self.waiting)
            return None
        if self.status.course is Course.SUCCEEDED:
            return replace(end, state=ReplicaState.SUCCEEDED)
        if self.status.course is Course.FAILED and not self.stopping:
            return replace(end, state=ReplicaState.FAILED, reason=self._verdict())
        return replace(end, reason=self._why_gone())

    def _is_final(self, seen: Replica) -> bool:
        if seen.state in (ReplicaState.SUCCEEDED, ReplicaState.LOST) or self.kind is UNKNOWN:
            return True
        return self.ending

    def _stopped(self, seen: Replica, raw: Mapping[int, Replica]) -> Replica:
        """Who was told to end did not fail by itself; unless time was up, somebody else is the reason."""
        if self.status.reason == "DeadlineExceeded" and not self.stopping:
            return replace(seen, state=ReplicaState.FAILED, reason=self._verdict())
        return replace(seen, reason=self._why_ended(seen.rank, raw))

    def _verdict(self) -> str:
        return f"{self.status.reason}: {self.status.message}"

    def _why_ended(self, rank: int, raw: Mapping[int, Replica]) -> str:
        others = [one for one in raw.values() if one.rank != rank and one.state in _WENT_WRONG]
        if not others or (self.stopping and not self.because):
            return self._why_gone()
        first = min(others, key=lambda one: (one.ended_at is None, one.ended_at, one.rank))
        return f"It was ended because rank {first.rank} {_WENT_WRONG[first.state]}."

    def _why_gone(self) -> str:
        if self.because or self.stopping:
            return self.because or STOP_WORDS
        if self.workload is None or not self.gone:
            return "Its pod was deleted from outside Muster."
        return f"{self.workload.resource.kind} {self.workload.name} was deleted from outside Muster."

    def _may_go_without_log(self, pod: Pod, now: datetime) -> bool:
        """The rest of the log cannot be had any more."""
        ends = [one.ended.ended_at for one in pod.containers if one.ended and one.ended.ended_at]
        at = max(ends, default=None) or pod.deleted_at or pod.created
        return now >= at + LOG_PATIENCE


def _was_told_to_end(pod: Pod, seen: Replica) -> bool:
    """Before it ended by itself."""
    if pod.told_at is None:
        return False
    return seen.ended_at is None or seen.ended_at >= pod.told_at
