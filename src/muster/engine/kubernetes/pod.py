"""A pod as far as a run is concerned: what its status says, read once, and which member it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.kinds import KINDS

RUN_LABEL, ATTEMPT_LABEL = "muster.dev/run-id", "muster.dev/attempt"
_NUMBERS = tuple(dict.fromkeys(kind.numbers for kind in KINDS.values()))
FIRST_RANK = "muster.dev/first-rank"  #: on pods: where the ranks of their role begin
PER_JOB = "muster.dev/per-job"  #: on pods: how many there are in each of several Jobs
ROOM = "room"  #: in the condition of a pod without a place: our words about the nodes
_GROUP_NAME = "scheduling.k8s.io/group-name"  #: an annotation: its PodGroup
_LAST_NUMBER = re.compile(r"-(\d{1,6})$")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a container's life ended."""

    exit_code: int
    reason: str = ""  #: such as OOMKilled, Error, Completed, StartError
    message: str = ""  #: its termination message, or the runtime's words
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Container:
    name: str
    is_sidecar: bool = False  #: stands beside the others for as long as they run, and is ended after them
    restarts: int = 0
    waiting: str = ""  #: the reason it does not run yet, such as ImagePullBackOff
    message: str = ""  #: the runtime's words about it
    running_since: datetime | None = None
    ended: Ended | None = None
    before: Ended | None = None  #: how the life before this one ended, or the newest if it `is_between`

    @property
    def begun(self) -> bool:
        """It has, or had, a log."""
        return self.running_since is not None or (
            self.ended is not None and self.ended.started_at is not None
        )

    @property
    def is_between(self) -> bool:
        """Waits to be started again. What a kubelet tells of as the life before is then the newest one."""
        return bool(self.waiting) and self.before is not None

    @property
    def lives(self) -> tuple[int, ...]:
        """Those of which the cluster has a log, by their numbers."""
        if self.is_between:
            return (self.restarts,)
        before = (self.restarts - 1,) if self.before and self.restarts else ()
        return (*before, self.restarts) if self.begun else before


@dataclass(frozen=True, kw_only=True)
class Pod:
    uid: str
    name: str
    namespace: str
    key: AttemptKey
    created: datetime
    index: int | None = None  #: its rank, where the cluster gives one
    node: str = ""
    phase: str = "Pending"
    restart_policy: str = "Never"
    reason: str = ""  #: such as Evicted
    message: str = ""
    told_at: datetime | None = None  #: when it was told to end, if it was
    deleted_at: datetime | None = None  #: when its grace is over then
    group: str = ""  #: the PodGroup with which it is placed, if there is one
    unplaced: str = ""  #: the scheduler's words, while it has no node
    room: str = ""  #: and ours, about the nodes
    disruption: str = ""  #: why the cluster took it away, such as PreemptionByScheduler
    disruption_message: str = ""
    containers: tuple[Container, ...] = ()
    inits: tuple[Container, ...] = ()

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def everyone(self) -> tuple[Container, ...]:
        return (*self.inits, *self.containers)

    def may_restart(self, container: Container) -> bool:
        """Will the kubelet, or did it already, start this container once more, and the status tells later?"""
        if not self.ever_restarts(container) or self.over or self.told_at is not None:
            return False
        went_well = container.ended is not None and container.ended.exit_code == 0
        always = self.restart_policy == "Always" and container not in self.inits
        return not went_well or always or container.is_sidecar

    def ever_restarts(self, container: Container) -> bool:
        """A container of its kind may have several lives."""
        return container.is_sidecar or self.restart_policy != "Never"

    @property
    def ended_at(self) -> datetime | None:
        """When its last container did, as far as that is known."""
        ends = (one.ended.ended_at for one in self.everyone if one.ended and one.ended.ended_at)
        return max(ends, default=None)

    @property
    def was_told_to_end(self) -> bool:
        """Before it had ended by itself. Times are whole seconds; but what has ended gets no grace."""
        if self.told_at is None or self.deleted_at is None:
            return False
        if self.ended_at is None:
            return not self.over or self.told_at < self.deleted_at
        return self.ended_at > self.told_at or (self.ended_at == self.told_at < self.deleted_at)


def key_of(item: Mapping[str, Any]) -> AttemptKey | None:
    """Which attempt an object belongs to; None if it is not Muster's."""
    labels = item["metadata"].get("labels") or {}
    run_id, attempt = labels.get(RUN_LABEL), labels.get(ATTEMPT_LABEL, "")
    if not run_id or not attempt.isdecimal():
        return None
    return AttemptKey(run_id=run_id, attempt=int(attempt))


def read_pod(item: Mapping[str, Any], key: AttemptKey | None = None) -> Pod | None:
    """From the API's object; None if it is not a member of a run. `key`: whose it is, if it does not say."""
    key = key or key_of(item)
    if key is None:
        return None
    metadata, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    placed = conditions.get("PodScheduled", {})
    disrupted = conditions.get("DisruptionTarget", {})
    is_disrupted = disrupted.get("status") == "True"
    deleted_at = _maybe(metadata.get("deletionTimestamp"))
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return Pod(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        key=key,
        created=moment(metadata["creationTimestamp"]),
        index=_index(metadata),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        restart_policy=spec.get("restartPolicy", "Always"),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        told_at=deleted_at and deleted_at - grace,
        deleted_at=deleted_at,
        group=group_of(item),
        unplaced=_words(placed) if placed.get("status") == "False" else "",
        room=placed.get(ROOM, ""),
        disruption=disrupted.get("reason", "") if is_disrupted else "",
        disruption_message=disrupted.get("message", "") if is_disrupted else "",
        containers=_containers(status.get("containerStatuses"), spec.get("containers")),
        inits=_containers(status.get("initContainerStatuses"), spec.get("initContainers")),
    )


def group_of(item: Mapping[str, Any]) -> str:
    return str((item["metadata"].get("annotations") or {}).get(_GROUP_NAME, ""))


def _words(condition: Mapping[str, Any]) -> str:
    return str(condition.get("message") or condition.get("reason") or "")


def _index(metadata: Mapping[str, Any]) -> int | None:
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    number = _first(_number(labels, numbers.label) for numbers in _NUMBERS)
    if number is None and any(numbers.name_label in labels for numbers in _NUMBERS):
        match = _LAST_NUMBER.search(metadata["name"])
        number = int(match[1]) if match else None
    job, per_job = _first(_number(labels, numbers.job_label) for numbers in _NUMBERS), _number(notes, PER_JOB)
    if job is not None and per_job is not None and (number is not None or per_job == 1):
        number = job * per_job + (number or 0)
    return None if number is None else (_number(notes, FIRST_RANK) or 0) + number


def _first(found: Iterable[int | None]) -> int | None:
    return next((number for number in found if number is not None), None)


def _number(where: Mapping[str, Any], name: str) -> int | None:
    text = str(where.get(name, ""))
    return int(text) if text.isdecimal() else None


def _containers(statuses: Any, specs: Any) -> tuple[Container, ...]:
    """In the order of the spec, whether the kubelet has spoken of them or not."""
    told = {one["name"]: one for one in statuses or ()}
    return tuple(_container(spec, told.get(spec["name"], {})) for spec in specs or ())


def _container(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Container:
    state = status.get("state") or {}
    waiting, running = state.get("waiting") or {}, state.get("running")
    return Container(
        name=spec["name"],
        is_sidecar=spec.get("restartPolicy") == "Always",
        restarts=status.get("restartCount", 0),
        waiting=waiting.get("reason", ""),
        message=waiting.get("message", ""),
        running_since=_maybe(running.get("startedAt")) if running is not None else None,
        ended=_ended(state.get("terminated")),
        before=_ended((status.get("lastState") or {}).get("terminated")),
    )


def _ended(terminated: Mapping[str, Any] | None) -> Ended | None:
    if not terminated:
        return None
    return Ended(
        exit_code=terminated.get("exitCode", 0),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
        started_at=_since_epoch(terminated.get("startedAt")),
        ended_at=_since_epoch(terminated.get("finishedAt")),
    )


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe(text: str | None) -> datetime | None:
    return None if not text else moment(text)


def _since_epoch(text: str | None) -> datetime | None:
    """The runtime says 1970 where it means never."""
    found = _maybe(text)
    return None if found is None or found.year <= 1970 else found
