"""A cluster with one job in it: what an operator sees of it, and what becomes of its deeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from muster.operator.job import TrainingJob
from muster.operator.pod import FAILED, RUNNING, SUCCEEDED, ContainerState, ReplicaPod
from muster.operator.reconcile import (
    Action,
    CreateGroup,
    CreatePod,
    CreateService,
    DeletePod,
    LookFor,
    Plan,
    Refusal,
    Seen,
    plan,
)
from muster.operator.spec import Slot, read_spec
from muster.operator.status import Phase, Status, read_status, write_status

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "pytorch", "image": "trainer"}]}}


def spec_of(**types: int) -> dict[str, Any]:
    """`spec_of(master=1, worker=3)`, with the policy OnFailure."""
    given = types or {"worker": 2}
    return {
        "replicaSpecs": [
            {"type": type_, "replicas": number, "restartPolicy": "OnFailure", "template": TEMPLATE}
            for type_, number in given.items()
        ]
    }


def job_of(spec: Mapping[str, Any], status: Status | None = None) -> TrainingJob:
    return TrainingJob(
        uid="5b373f10-0000-4000-8000-000000000000",
        name="mnist",
        namespace="ml",
        spec=read_spec(spec),
        version="1",
        generation=1,
        status=status or Status(),
    )


class World:
    """What is really there, and what the operator has heard of it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.job = job_of(spec)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.pods: dict[str, ReplicaPod] = {}  #: by name
        self.service = self.group = False
        self.created: list[str] = []
        self.ended: set[str] = set()  #: uids of pods that are over, or gone
        self.refusal: Refusal | None = None
        self._uids = count(1)
        self.cached: dict[str, ReplicaPod] = {}  #: by uid, as the operator knows them
        self.gone: set[str] = set()

    # The operator

    def seen(self) -> Seen:
        return Seen(
            pods=sorted(self.cached.values(), key=lambda pod: pod.name),
            service=self.service,
            group=self.group,
            gone=frozenset(self.gone),
            refusal=self.refusal,
        )

    def plan(self) -> Plan:
        return plan(self.job, self.seen(), self.now)

    def reconcile(self, *, steps: int | None = None) -> Plan:
        """Look, write, and do so many of the planned steps."""
        made = self.plan()
        self.write(made.status)
        for action in made.actions[:steps]:
            self.do(action)
        return made

    def write(self, status: Status) -> None:
        """By the way of JSON, as the cluster keeps it."""
        kept = {key: value for key, value in write_status(status).items() if value is not None}
        self.job = replace(self.job, status=read_status(json.loads(json.dumps(kept))))
        assert self.job.status == status, "what is written is not what is read"

    def do(self, action: Action) -> None:
        match action:
            case CreateService():
                self.service = True
            case CreateGroup():
                self.group = True
            case CreatePod(slot=slot, life=life):
                name = self.job.pod_name(slot, life)
                if name not in self.pods:  # else the cluster says: it is there already
                    self.created.append(name)
                    self.pods[name] = self._pod(slot, life, name)
                self.cached[self.pods[name].uid] = self.pods[name]
            case DeletePod(name=name, uid=uid):
                pod = self.pods.get(name)
                if pod is None or pod.uid != uid:
                    self._hear_gone(uid)
                else:
                    self.pods[name] = self.cached[uid] = replace(pod, deleting=True)
            case LookFor(name=name, uid=uid):
                pod = self.pods.get(name)
                if pod is None or uid not in (pod.uid, name):
                    self._hear_gone(uid)
                else:
                    self.cached[pod.uid] = pod

    def sync(self) -> None:
        """The watch tells everything there is to tell."""
        there = {pod.uid: pod for pod in self.pods.values()}
        for uid in set(self.cached) - set(there):
            self._hear_gone(uid)
        self.cached = there

    def restart_operator(self) -> None:
        self.gone, self.refusal = set(), None
        self.cached = {pod.uid: pod for pod in self.pods.values()}

    def _hear_gone(self, uid: str) -> None:
        self.cached.pop(uid, None)
        self.gone.add(uid)

    def _pod(self, slot: Slot, life: int, name: str) -> ReplicaPod:
        box = ContainerState(name="pytorch", state="Waiting")
        uid = f"uid-{next(self._uids)}"
        return ReplicaPod(uid=uid, name=name, type=slot.type, index=slot.index, life=life, containers=(box,))

    # The cluster

    def start(self, name: str) -> None:
        box = ContainerState(name="pytorch", state="Running")
        self.pods[name] = replace(self.pods[name], phase=RUNNING, containers=(box,))

    def end(self, name: str, code: int) -> None:
        box = ContainerState(name="pytorch", state="Terminated", exit_code=code)
        phase = FAILED if code else SUCCEEDED
        self.ended.add(self.pods[name].uid)
        self.pods[name] = replace(self.pods[name], phase=phase, containers=(box,))

    def evict(self, name: str) -> None:
        self.ended.add(self.pods[name].uid)
        self.pods[name] = replace(self.pods[name], phase=FAILED, reason="Evicted", disrupted=True)

    def remove(self, name: str) -> None:
        self.ended.add(self.pods.pop(name).uid)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def pause(self, on: bool) -> None:
        generation = self.job.generation + 1
        self.job = replace(self.job, spec=replace(self.job.spec, paused=on), generation=generation)

    # Shortcuts

    def settle(self, *, rounds: int = 30) -> int:
        """Until there is nothing to do; deleted pods go. How many rounds it took."""
        for number in range(rounds):
            self.sync()
            before = self.job.status
            made = self.reconcile()
            going = [name for name, pod in self.pods.items() if pod.deleting]
            for name in going:
                self.remove(name)
            if made.status == before and not made.actions and not going:
                return number
        raise AssertionError(f"not settled after {rounds} rounds: {self.plan()}")

    def start_all(self) -> None:
        """Everything is created and runs."""
        self.settle()
        for name, pod in self.pods.items():
            if pod.phase == "Pending":
                self.start(name)
        self.settle()

    @property
    def status(self) -> Status:
        return self.job.status

    def phase(self) -> Phase:
        return self.job.status.phase

    def said(self, type_: str) -> str:
        """The reason and message of a condition."""
        found = self.status.condition(type_)
        assert found is not None, f"no condition {type_}"
        return f"{found.reason}: {found.message}"
