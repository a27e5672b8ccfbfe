"""From what is there to what is to be done: one pure function.

What holds, whoever is killed when, and however old what is seen may be:

1. A place (type, index) has at most one pod that is not over: none is created while an older one may run.
   A pod's name tells its place and its life, and a life is used once: to create it twice is refused by the
   cluster, never a second pod.
2. The status is the ledger. It is written before anything is done, and only over the version that it was
   made from. So a restart is counted once, though the operator may die before, between or after.
3. A life is `restarts + pauses` of its place; both only grow. Where a status was lost, the labels of the
   pods say again how far it was.
4. Restarts of all places together are never more than `backoffLimit`.
5. A pod that is not seen any more is taken for gone only on the cluster's own word; never because a list
   was old.
6. A job that has succeeded or failed stays so. What becomes of its pods is the clean-up policy's.
7. The same sight gives the same plan; and when the plan is done, the next one has nothing to do.
8. A job that is being deleted is left to the cluster: everything it has is owned by it.

The first place is the master: it alone decides how the job ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import TypeAlias

from muster.operator.job import TrainingJob
from muster.operator.pod import FAILED, PENDING, SUCCEEDED, ReplicaPod
from muster.operator.spec import RETRYABLE, CleanUp, RestartPolicy, Slot
from muster.operator.status import DELETED, Phase, Replica, Status, Task

#: How long others may take to end by themselves after the master has, and how long logs can still be read.
GRACE = timedelta(seconds=15)
DEADLINE = "DeadlineExceeded"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The cluster did not take what we created."""

    message: str
    final: bool  #: it never will


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What of a job is in the cluster, as far as is known."""

    pods: Sequence[ReplicaPod] = ()
    service: bool = False
    group: bool = False
    gone: frozenset[str] = frozenset()  #: uids of pods that are certainly not there any more
    refusal: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class CreateService:
    pass


@dataclass(frozen=True, kw_only=True)
class CreateGroup:
    pass


@dataclass(frozen=True, kw_only=True)
class CreatePod:
    slot: Slot
    life: int


@dataclass(frozen=True, kw_only=True)
class DeletePod:
    name: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class LookFor:
    """Ask the cluster itself whether this pod is there."""

    name: str
    uid: str


Action: TypeAlias = CreateService | CreateGroup | CreatePod | DeletePod | LookFor


@dataclass(frozen=True, kw_only=True)
class Plan:
    status: Status  #: written first
    actions: tuple[Action, ...] = ()  #: in this order
    again_at: datetime | None = None  #: when the time alone changes the plan


class Fate(StrEnum):
    ABSENT = auto()  #: never created
    UNSEEN = auto()  #: was created, and is not seen
    ALIVE = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    LOST = auto()  #: was created, and is gone


@dataclass(frozen=True, kw_only=True)
class Member:
    """One place, and the pod of its present life."""

    slot: Slot
    name: str
    life: int
    restarts: int
    fate: Fate
    pod: ReplicaPod | None = None
    older: tuple[ReplicaPod, ...] = field(default=())
    leaving: Replica | None = None  #: what was deleted for a pause, and may be there still, unseen

    @property
    def blocked(self) -> bool:
        """An older pod is still there, or may be: the next must wait."""
        return self.leaving is not None or any(not pod.over for pod in self.older)

    def next(self, name: str) -> Member:
        """The life after this one."""
        older = (*self.older, self.pod) if self.pod is not None else self.older
        return replace(
            self,
            name=name,
            life=self.life + 1,
            restarts=self.restarts + 1,
            fate=Fate.ABSENT,
            pod=None,
            older=older,
        )


def plan(job: TrainingJob, seen: Seen, now: datetime) -> Plan:
    now = now.replace(microsecond=0)  # as the status has it
    if job.deleting:
        return Plan(status=job.status)
    if job.status.finished:
        return _tidy(job, seen, replace(job.status, tasks=_tasks_after_the_end(job, seen)), now)
    if job.spec.refusals:
        return _end(job, seen, Phase.FAILED, "NotSupported", " ".join(job.spec.refusals), now)
    if job.spec.paused:
        return _pause(job, seen, now)
    return _drive(job, seen, now)


def _drive(job: TrainingJob, seen: Seen, now: datetime) -> Plan:
    started = job.status.started or now
    members = list(_members(job, seen))
    master = members[0]
    if master.fate is Fate.SUCCEEDED:
        return _end(job, seen, Phase.SUCCEEDED, "Succeeded", "The job has finished successfully.", now)
    over_at = started + timedelta(seconds=job.spec.deadline) if job.spec.deadline is not None else None
    if over_at is not None and now >= over_at:
        message = f"The job was active for longer than its {job.spec.deadline} s."
        return _end(job, seen, Phase.FAILED, DEADLINE, message, now)
    left = job.spec.backoff_limit - sum(member.restarts for member in members)
    if master.fate in (Fate.FAILED, Fate.LOST) and not (_is_retried(master) and left > 0):
        reason, message = _verdict(job, master)
        return _end(job, seen, Phase.FAILED, reason, message, now)
    if seen.refusal is not None and seen.refusal.final:
        return _end(job, seen, Phase.FAILED, "CreateRefused", seen.refusal.message, now)
    for place, member in enumerate(members):
        if left > 0 and _is_retried(member):
            members[place] = member.next(job.pod_name(member.slot, member.life + 1))
            left -= 1
    status = replace(
        job.status,
        tasks=_tasks(job, [_noted(job, member) for member in members]),
        generation=job.generation,
        started=started,
    )
    status = _told(job, seen, replace(status, phase=_phase(job, members)), members, now)
    return Plan(status=status, actions=tuple(_steps(job, seen, members)), again_at=over_at)


def _members(job: TrainingJob, seen: Seen) -> Iterator[Member]:
    for slot in job.spec.slots:
        pods = [pod for pod in seen.pods if (pod.type, pod.index) == (slot.type, slot.index)]
        written = job.status.replica(slot.type, slot.index)
        newest = max((pod.life for pod in pods), default=0)
        restarts = max(written.restarts if written else 0, newest - job.status.pauses)
        life = restarts + job.status.pauses
        name = job.pod_name(slot, life)
        pod = next((pod for pod in pods if pod.life == life), None)
        yield Member(
            slot=slot,
            name=name,
            life=life,
            restarts=restarts,
            fate=_fate(pod, written if written and written.name == name else None, seen),
            pod=pod,
            older=tuple(one for one in pods if one is not pod),
            leaving=written
            if written is not None and written.name != name and _is_unseen(written, seen)
            else None,
        )


def _is_unseen(replica: Replica, seen: Seen) -> bool:
    """It had a pod, or may have one, which is not seen, and nobody said that it is gone."""
    known = seen.gone | {key for pod in seen.pods for key in (pod.uid, pod.name)}
    return bool(replica.uid) and replica.uid not in known


def _fate(pod: ReplicaPod | None, written: Replica | None, seen: Seen) -> Fate:
    if pod is not None:
        outcomes = {None: Fate.ALIVE, SUCCEEDED: Fate.SUCCEEDED, FAILED: Fate.FAILED}
        return outcomes[pod.outcome]
    if written is None or not written.uid:
        return Fate.ABSENT
    return Fate.LOST if written.phase == DELETED or written.uid in seen.gone else Fate.UNSEEN


def _is_retried(member: Member) -> bool:
    """By its policy; whether there are restarts left is another matter."""
    match member.slot.policy, member.fate:
        case RestartPolicy.NEVER, _:
            return False
        case RestartPolicy.ALWAYS, Fate.SUCCEEDED:
            return True
        case RestartPolicy.EXIT_CODE, Fate.FAILED:
            pod = member.pod
            # Without an exit code it was no program that failed, but what is around it.
            return pod is None or pod.disrupted or pod.exit_code is None or pod.exit_code in RETRYABLE
        case _, Fate.FAILED | Fate.LOST:
            return True
    return False


def _verdict(job: TrainingJob, master: Member) -> tuple[str, str]:
    how = _how(master)
    if _is_retried(master):
        return "BackoffLimitExceeded", f"{how} All {job.spec.backoff_limit} restarts of the job are used up."
    reason = "MasterDeleted" if master.fate is Fate.LOST else "MasterFailed"
    return reason, f"{how} Its restart policy is {master.slot.policy}."


def _how(member: Member) -> str:
    pod = member.pod
    if pod is None:
        return f"The pod of {member.slot} was deleted."
    if pod.exit_code is not None:
        return f"{member.slot} exited with {pod.exit_code}."
    return f"{member.slot} failed{f': {pod.reason}' if pod.reason else ''}."


def _phase(job: TrainingJob, members: Sequence[Member]) -> Phase:
    if job.status.phase is Phase.RUNNING:
        return Phase.RUNNING  # a replica that is started again does not make it wait anew
    waits = any(member.pod is None or member.pod.phase == PENDING for member in members)
    if not waits:
        return Phase.RUNNING
    return Phase.RESUMING if job.status.phase in (Phase.PAUSED, Phase.RESUMING) else Phase.PENDING


def _entry(job: TrainingJob, member: Member) -> Replica:
    if member.pod is None:
        written = job.status.replica(member.slot.type, member.slot.index)
        if written is None or member.fate is Fate.ABSENT:
            return Replica(name=member.name, restarts=member.restarts)
        return written if member.fate is Fate.UNSEEN else replace(written, phase=DELETED)
    return Replica(
        name=member.name,
        uid=member.pod.uid,
        phase=member.pod.phase,
        restarts=member.restarts,
        containers=member.pod.containers,
    )


def _tasks(job: TrainingJob, entries: Sequence[Replica]) -> tuple[Task, ...]:
    found, rest = [], list(entries)
    for spec in job.spec.replicas:
        found.append(Task(type=spec.type, replicas=tuple(rest[: spec.replicas])))
        del rest[: spec.replicas]
    return tuple(found)


def _told(job: TrainingJob, seen: Seen, status: Status, members: Sequence[Member], now: datetime) -> Status:
    """The conditions of a job that goes on."""
    known = job.status.condition("Initialized")
    all_there = seen.service and (seen.group or job.spec.volcano is None)
    if all_there and all(member.fate is not Fate.ABSENT for member in members):
        status = status.saying("Initialized", True, "Initialized", "Everything of the job is created.", now)
    elif known is None or not known.status:
        reason, message = "Creating", "What the job needs is being created."
        if seen.refusal is not None:
            reason, message = "CreateRefused", seen.refusal.message
        status = status.saying("Initialized", False, reason, message, now)
    runs = status.phase is Phase.RUNNING
    message = "The job runs." if runs else "The job waits for its replicas to start."
    status = status.saying("Running", runs, status.phase.value, message, now)
    troubles = list(_troubles(members))
    if seen.refusal is not None and any(member.fate is Fate.ABSENT and member.restarts for member in members):
        troubles.append(seen.refusal.message)
    said = " ".join(troubles) or "No replica has failed."
    reason = "ReplicaFailure" if troubles else "NoFailure"
    status = status.saying("ReplicaFailure", bool(troubles), reason, said, now)
    if status.condition("Paused") is not None:
        status = status.saying("Paused", False, "Resumed", "The job was resumed.", now)
    return status


def _troubles(members: Sequence[Member]) -> Iterator[str]:
    for member in members:
        if member.fate in (Fate.FAILED, Fate.LOST):
            yield _how(member)
        elif member.restarts and (member.pod is None or member.pod.phase == PENDING):
            yield f"{member.slot} is started again, for the {_ordinal(member.restarts)} time."


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _steps(job: TrainingJob, seen: Seen, members: Sequence[Member]) -> Iterator[Action]:
    current = {member.pod.uid for member in members if member.pod is not None}
    for pod in seen.pods:
        if pod.uid not in current and not pod.over and not pod.deleting:
            yield DeletePod(name=pod.name, uid=pod.uid)
    if not seen.service:
        yield CreateService()
    if job.spec.volcano is not None and not seen.group:
        yield CreateGroup()
    for member in members:
        if member.fate is Fate.UNSEEN:
            written = job.status.replica(member.slot.type, member.slot.index)
            yield LookFor(name=member.name, uid=written.uid if written else "")
        elif member.leaving is not None:
            yield LookFor(name=member.leaving.name, uid=member.leaving.uid)
        elif member.fate is Fate.ABSENT and not member.blocked:
            yield CreatePod(slot=member.slot, life=member.life)


def _pause(job: TrainingJob, seen: Seen, now: datetime) -> Plan:
    """Nothing is left of it but the job itself; the next life begins when it is resumed."""
    status = job.status
    if status.phase is not Phase.PAUSED:
        entries = [_leaving(job, member) for member in _members(job, seen)]
        status = replace(status, phase=Phase.PAUSED, pauses=status.pauses + 1, started=None)
        status = status.saying("Running", False, "Paused", "The job is paused.", now)
        status = status.saying("Paused", True, "Paused", "The pods of the job are deleted.", now)
    else:
        entries = [one for task in status.tasks for one in task.replicas]
    entries = [replace(one, uid="") if one.uid in seen.gone else one for one in entries]
    actions: list[Action] = [DeletePod(name=pod.name, uid=pod.uid) for pod in seen.pods if not pod.deleting]
    actions += [LookFor(name=one.name, uid=one.uid) for one in entries if _is_unseen(one, seen)]
    status = replace(status, tasks=_tasks(job, entries), generation=job.generation)
    return Plan(status=status, actions=tuple(actions))


def _noted(job: TrainingJob, member: Member) -> Replica:
    """In the status of a job that goes on. What has to go first stays noted until it has."""
    waits = member.fate is Fate.ABSENT and member.blocked
    return _leaving(job, member) if waits else _entry(job, member)


def _leaving(job: TrainingJob, member: Member) -> Replica:
    """What a pause deletes of a place: noted with its uid until it is gone, though no list may show it."""
    there = [pod for pod in (member.pod, *member.older) if pod is not None and not pod.over]
    if there:
        name, uid = there[0].name, there[0].uid
    elif member.leaving is not None:
        name, uid = member.leaving.name, member.leaving.uid
    else:  # created, perhaps, and never seen: then its name, which is used once, stands for it
        name = member.name
        uid = "" if member.pod is not None or member.fate is Fate.LOST else _entry(job, member).uid or name
    return Replica(name=name, uid=uid, phase=DELETED, restarts=member.restarts)


def _end(job: TrainingJob, seen: Seen, phase: Phase, reason: str, message: str, now: datetime) -> Plan:
    status = replace(
        job.status,
        phase=phase,
        tasks=_tasks_after_the_end(job, seen),
        generation=job.generation,
        ended=now,
    )
    status = status.saying("Running", False, reason, message, now)
    status = status.saying("Failed", phase is Phase.FAILED, reason, message, now)
    status = status.saying("Completed", phase is Phase.SUCCEEDED, reason, message, now)
    return _tidy(job, seen, status, now)


def _tasks_after_the_end(job: TrainingJob, seen: Seen) -> tuple[Task, ...]:
    """What has no pod gets none any more."""
    entries = []
    for member in _members(job, seen):
        entry = _entry(job, member)
        entries.append(entry if member.pod is not None else replace(entry, phase=DELETED))
    return _tasks(job, entries)


def _tidy(job: TrainingJob, seen: Seen, status: Status, now: datetime) -> Plan:
    """By the clean-up policy. A deadline ends what runs, whatever the policy."""
    failed = status.condition("Failed")
    policy = job.spec.clean_up
    if policy is CleanUp.NONE and not (failed is not None and failed.reason == DEADLINE):
        return Plan(status=status)
    there = [pod for pod in seen.pods if not pod.deleting]
    unfinished = [pod for pod in there if not pod.over]
    ended = [pod for pod in there if pod.over] if policy is CleanUp.ALL else []
    later = (status.ended or now) + GRACE
    due = list(unfinished) if status.phase is Phase.FAILED or now >= later else []
    if now >= later:
        due += ended
    actions = tuple(DeletePod(name=pod.name, uid=pod.uid) for pod in due)
    waits = len(due) < len(unfinished) + len(ended)
    return Plan(status=status, actions=actions, again_at=later if waits else None)
