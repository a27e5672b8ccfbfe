"""One attempt as the cluster shows it: its workload, its pods, and what there is to tell about them.

Pure: told what was seen, it says what is new. `muster.engine.kubernetes.engine` feeds it and acts on it.

1. A pod that succeeded is final. One that failed is final once its workload is over or gone, or where
   its controller does not tell how far it is: until then another may follow it. In a gang it is final at
   once: the others cannot go on without it.
2. A member ends when its pod has ended *and* all of its log is here.
3. When the attempt is over, every member is told as ended, also those that never had a pod.
4. What its controller ended because the whole has succeeded, has succeeded; if anybody did so by itself,
   where that is what a success means (`_only_obeyed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from muster.domain.observation import AttemptKey, Replica, ReplicaState
from muster.engine.kubernetes import member
from muster.engine.kubernetes.api import JOBS, Resource
from muster.engine.kubernetes.course import DEADLINE, OPEN, Course, Status
from muster.engine.kubernetes.member import PATIENCE, Patience
from muster.engine.kubernetes.pod import Pod
from muster.engine.kubernetes.ranks import by_rank

_WENT_WRONG = {
    ReplicaState.FAILED: "failed",
    ReplicaState.LOST: "was lost",
    ReplicaState.PREEMPTED: "was taken away",
}
LINGER = timedelta(seconds=30)  #: for what still runs when its controller has called the whole over
LOG_PATIENCE = timedelta(seconds=30)  #: for more of a log whose pod has ended
LINGERED = "It still ran when the whole was over."
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
    at_once: int = 1  #: how many of them there are at a time
    partial: bool = False  #: what goes with it may not be there yet: whoever has the run must go on making it
    gang: bool = False  #: Muster wrote it, for members that go on together or not at all
    status: Status = OPEN


@dataclass(kw_only=True)
class Attempt:
    key: AttemptKey
    epoch: int
    members: int
    at_once: int
    patience: Patience = PATIENCE
    workload: Workload | None = None  #: as last seen
    gone: bool = False  #: the workload was there, and is not any more
    stopping: bool = False  #: we asked for its end
    because: str = ""  #: why we did, if nobody else asked
    over_since: datetime | None = None  #: when its controller was first seen to call the whole over
    pods: dict[str, Pod] = field(default_factory=dict)  #: uid → as last seen
    removed: set[str] = field(default_factory=set)  #: uids of pods that are not there any more
    waiting: str = ""  #: the cluster's words about pods that are not even made
    group: str = ""  #: the scheduler's words about all of them, which it places together or not at all
    refused_at: datetime | None = None  #: since when they are refused for good
    trouble: dict[str, str] = field(default_factory=dict)  #: uid → the cluster's words about what it needs
    stuck: dict[str, datetime] = field(default_factory=dict)  #: uid → since when it cannot come up
    full: bool = False  #: it was told that as many run as can
    told: dict[int, Replica] = field(default_factory=dict)
    failed: dict[int, Replica] = field(default_factory=dict)  #: those we gave up on
    awaited: dict[int, tuple[int, datetime]] = field(default_factory=dict)
    """Rank → how long the log of an ended member was, and since when."""

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
            pod = replace(known, told_at=known.told_at or now, deleted_at=known.deleted_at or now)
        elif known is None:
            self.refused_at = None  # one was let in
        elif known.told_at and known.deleted_at:  # once it has ended, the cluster writes this anew
            pod = replace(pod, told_at=known.told_at, deleted_at=known.deleted_at)
        self.pods[pod.uid] = pod
        self._note_wait(pod, now)

    def see_trouble(self, uid: str, words: str, *, now: datetime) -> None:
        """Something that a pod needs to come up is not there (yet); without words: it is there now."""
        self.trouble[uid] = words
        if uid in self.pods:
            self._note_wait(self.pods[uid], now)

    def refuse_pods(self, words: str, *, final: bool, now: datetime) -> None:
        """Its pods are not even made. `final`: not for want of room, so that waiting helps nobody."""
        self.waiting = words
        if not final:
            self.refused_at = None
        elif self.refused_at is None:
            self.refused_at = now

    @property
    def restless(self) -> bool:
        """Time alone may change what there is to tell."""
        if self.over:
            return False
        is_late = self.status.course is not Course.OPEN
        return bool(self.stuck or self.removed or self.refused_at or is_late) or any(
            pod.over or pod.deleted_at for pod in self.pods.values()
        )

    def give_up(self, now: datetime) -> list[str]:
        """Members whose pods will not come up have failed. Returns why, of those that are new."""
        hopeless: list[str] = []
        ranked = self.ranked()
        for rank, pods in ranked.items():
            wait = self._wait(pods[-1])
            if rank not in self.failed and wait is not None and now >= wait.until:
                seen = member.replica_of(rank, pods, now=now)
                self.failed[rank] = replace(
                    seen, state=ReplicaState.FAILED, reason=wait.reason, ended_at=now, log_bytes=0
                )
                hopeless.append(wait.reason)
        if self.refused_at and now >= self.refused_at + self.patience.refused and not self.ending:
            for rank in set(range(self.members)) - ranked.keys() - self.failed.keys():
                self.failed[rank] = Replica(
                    rank=rank, state=ReplicaState.FAILED, reason=self.waiting, ended_at=now, log_bytes=0
                )
                hopeless.append(self.waiting)
        return hopeless

    def lingers(self, now: datetime) -> bool:
        """Its controller called the whole over a while ago, and does not end what still runs. Members of a
        gang are left to end by themselves: each one's word counts."""
        if self.workload is None or self.workload.gang or self.status.course is Course.OPEN:
            return False
        if self.over_since is None:
            self.over_since = now
        live = (pod for pod in self.pods.values() if pod.uid not in self.removed)
        return now >= self.over_since + LINGER and any(not (pod.over or pod.told_at) for pod in live)

    def becomes_full(self) -> bool:
        """From now on as many run as can, and others come after them. Where all run at once, their own
        states say so."""
        up = sum(one.state in (ReplicaState.RUNNING, ReplicaState.SUCCEEDED) for one in self.told.values())
        if self.full or self.at_once >= self.members or up < self.at_once:
            return False
        self.full = True
        return True

    def ranked(self) -> dict[int, list[Pod]]:
        return by_rank(self.pods.values(), members=self.members, at_once=self.at_once)

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

    def _note_wait(self, pod: Pod, now: datetime) -> None:
        trouble = self.trouble.get(pod.uid, "")
        waits = member.wait_of(pod, self.patience, since=now, trouble=trouble) is not None
        if waits and pod.uid not in self.removed:
            self.stuck.setdefault(pod.uid, now)
        else:
            self.stuck.pop(pod.uid, None)

    def _wait(self, pod: Pod) -> member.Wait | None:
        since = self.stuck.get(pod.uid)
        if since is None:
            return None
        return member.wait_of(pod, self.patience, since=since, trouble=self.trouble.get(pod.uid, ""))

    def _as_seen(self, rank: int, pods: list[Pod], now: datetime) -> Replica:
        """By its pods alone; STOPPED if they were told to end."""
        if rank in self.failed:
            return self.failed[rank]
        pod = pods[-1]
        seen = member.replica_of(
            rank, pods, now=now, trouble=self.trouble.get(pod.uid, ""), group=self._group_words()
        )
        if pod.uid in self.removed and not seen.state.ended:
            seen = member.gone(seen, pod, now=now)
        if seen.state in (ReplicaState.SUCCEEDED, ReplicaState.FAILED) and self._was_told_to_end(pod):
            return replace(seen, state=ReplicaState.STOPPED)
        return seen

    def _group_words(self) -> str:
        """Once one of them has a place, each waits for its own."""
        there = (pod for pod in self.pods.values() if pod.uid not in self.removed)
        return "" if any(pod.node for pod in there) else self.group

    def _was_told_to_end(self, pod: Pod) -> bool:
        if pod.was_told_to_end:
            return True
        at_once = pod.told_at is not None and pod.ended_at is not None and pod.ended_at >= pod.told_at
        return self.stopping and at_once  # without any grace

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
            seen = self._replaced_in_vain(seen, pods, now) or self._stopped(seen, pod, raw)
        if not self._is_final(seen):
            return None
        progress = [logs.get(one.uid, NO_LOG) for one in pods]
        length = max(log.length for log in progress)
        if not all(log.whole for log in progress) and not self._may_go_without_log(seen, length, now):
            return None
        return replace(seen, log_bytes=length)

    def _without_pod(self, rank: int, now: datetime) -> Replica | None:
        end = Replica(rank=rank, state=ReplicaState.STOPPED, ended_at=now, log_bytes=0)
        if not self.ending or (self.stopping and not self.gone):
            waits = self.status.waits or self.waiting or self.group
            return Replica(rank=rank, state=ReplicaState.PENDING, reason=waits) if waits else None
        if self.status.course is Course.SUCCEEDED:
            return replace(end, state=ReplicaState.SUCCEEDED)
        if self.status.course is Course.FAILED and not self.stopping:
            return replace(end, state=ReplicaState.FAILED, reason=self._verdict())
        return replace(end, reason=self._why_gone())

    def _is_final(self, seen: Replica) -> bool:
        if seen.state in (ReplicaState.SUCCEEDED, ReplicaState.LOST) or not self.status.told:
            return True
        in_gang = self.workload is not None and self.workload.gang
        alone = in_gang and seen.state in (ReplicaState.FAILED, ReplicaState.PREEMPTED)
        return alone or self.ending or seen.rank in self.failed

    def _replaced_in_vain(self, seen: Replica, pods: Sequence[Pod], now: datetime) -> Replica | None:
        """A pod was taken away, and its workload gave up when another was there already but had not begun."""
        if self.stopping or self.status.course is not Course.FAILED or len(pods) < 2:
            return None
        if any(one.lives for one in pods[-1].everyone):
            return None
        return member.taken_away(seen, pods[-2], now=now)

    def _stopped(self, seen: Replica, pod: Pod, raw: Mapping[int, Replica]) -> Replica:
        """Who was told to end did not fail by itself; but for whose sake?"""
        course = self.status.course
        if course is Course.SUCCEEDED and not self._only_obeyed(pod, raw):
            return replace(seen, state=ReplicaState.SUCCEEDED, reason="")
        if course is Course.FAILED and self.because == LINGERED:
            return replace(seen, state=ReplicaState.FAILED, reason=self._verdict())
        if self.stopping or course is not Course.FAILED:
            return replace(seen, reason=self._why_ended(seen.rank, raw))
        own = member.last_end(seen, pod)
        if self.status.reason != DEADLINE and own is not None:  # its workload gave up restarting it
            return replace(own, reason="; ".join(filter(None, (own.reason, self._verdict()))))
        nobody = not any(one.state in _WENT_WRONG for one in raw.values())
        if self.status.reason == DEADLINE:
            return replace(seen, state=ReplicaState.FAILED, reason=self._verdict())
        if nobody and not any(one.lives for one in pod.everyone):
            words = member.held_up(pod, trouble=self.trouble.get(pod.uid, ""), group=self._group_words())
            reason = f"{self._verdict()}. It had not started: {words}" if words else self._verdict()
            return replace(seen, state=ReplicaState.FAILED, reason=reason)
        return replace(seen, reason=self._why_ended(seen.rank, raw))

    def _only_obeyed(self, pod: Pod, raw: Mapping[int, Replica]) -> bool:
        """Its owner says who must succeed. But a Job, if it looks late, also says so of a pod that somebody
        deleted and that ended well then; nobody did what the run is for."""
        is_job = self.workload is not None and self.workload.resource == JOBS
        succeeded = any(one.state is ReplicaState.SUCCEEDED for one in raw.values())
        return is_job and not succeeded and pod.over and pod.was_told_to_end

    def _verdict(self) -> str:
        return ": ".join(filter(None, (self.status.reason, self.status.message)))

    def _why_ended(self, rank: int, raw: Mapping[int, Replica]) -> str:
        others = [one for one in raw.values() if one.rank != rank and one.state in _WENT_WRONG]
        if not others or (self.stopping and not self.because):
            return self._why_gone()
        first = min(others, key=lambda one: (one.ended_at is None, one.ended_at, one.rank))
        return f"It was ended because rank {first.rank} {_WENT_WRONG[first.state]}."

    def _why_gone(self) -> str:
        if self.because or self.stopping:
            return self.because or STOP_WORDS
        if self.workload is not None and self.status.course is Course.STOPPED:
            return f"{self.workload.resource.kind} {self.workload.name} was ended: {self._verdict()}"
        if self.workload is None or not self.gone:
            return "Its pod was deleted from outside Muster."
        return f"{self.workload.resource.kind} {self.workload.name} was deleted from outside Muster."

    def _may_go_without_log(self, seen: Replica, length: int, now: datetime) -> bool:
        """The rest of it cannot be had, or nothing more of it came for a while."""
        if seen.state is ReplicaState.LOST:
            return True
        known, since = self.awaited.get(seen.rank, (length, now))
        if length > known:
            since = now
        self.awaited[seen.rank] = length, since
        return now >= since + LOG_PATIENCE
