"""What is known of one job, put together from watches and from answers to our own requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.operator.job import TrainingJob
from muster.operator.pod import ReplicaPod, read_pod
from muster.operator.reconcile import Refusal, Seen


@dataclass(kw_only=True)
class Desk:
    job: TrainingJob | None = None  #: None: only things of it have been seen so far
    pods: dict[str, ReplicaPod] = field(default_factory=dict)  #: by uid
    services: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)  #: uids
    refusal: Refusal | None = None
    failures: int = 0  #: in a row
    last: float = float("-inf")  #: when it was looked at
    timer: asyncio.TimerHandle | None = None  #: when it will be
    task: asyncio.Task[None] | None = None  #: it is being looked at
    again: bool = False  #: and must be once more
    _versions: dict[str, str] = field(default_factory=dict)  #: uid of a pod → the newest seen

    @property
    def empty(self) -> bool:
        return self.job is None and not self.pods

    def seen(self, job: TrainingJob) -> Seen:
        return Seen(
            pods=sorted(self.pods.values(), key=lambda pod: pod.name),
            service=job.service in self.services,
            group=job.service in self.groups,
            gone=frozenset(self.gone),
            refusal=self.refusal,
        )

    def take_job(self, job: TrainingJob) -> bool:
        """Is it news?"""
        if self.job is not None and not is_newer(job.version, self.job.version):
            return False
        self.job = job
        return True

    def take_pod(self, item: Mapping[str, Any]) -> bool:
        """Does it change anything? Most of what happens to a pod is of no concern here."""
        uid, version = item["metadata"]["uid"], item["metadata"]["resourceVersion"]
        if uid in self.gone or not is_newer(version, self._versions.get(uid)):
            return False
        pod = read_pod(item)
        if pod is None:
            return False
        self._versions[uid] = version
        changed = self.pods.get(uid) != pod
        self.pods[uid] = pod
        return changed

    def lose_pod(self, uid: str) -> bool:
        known = uid not in self.gone
        self.pods.pop(uid, None)
        self._versions.pop(uid, None)
        self.gone.add(uid)
        return known

    def told_to_end(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is not None:
            self.pods[uid] = replace(pod, deleting=True)

    def forget(self) -> None:
        """Of what is gone, only what the status speaks of is still of use."""
        if self.job is not None:
            tasks = self.job.status.tasks
            self.gone &= {one.uid for task in tasks for one in task.replicas}


def is_newer(version: str, known: str | None) -> bool:
    """Watches and answers come in any order."""
    if known is None:
        return True
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known
