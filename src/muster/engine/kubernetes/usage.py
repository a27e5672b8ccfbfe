"""How much the members use: the metrics API where there is one, the kubelet's summary where it is allowed.

One request for each namespace and pass, and one for each node where the kubelets may be asked, however many
runs there are; none while nothing runs. What is not there or not allowed is looked for again now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.domain.errors import BadQuantity
from muster.domain.observation import ReplicaState
from muster.domain.resources import parse_quantity
from muster.engine.kubernetes.api import Api, ApiError, Object, Unreachable
from muster.engine.kubernetes.attempt import Attempt
from muster.engine.kubernetes.pod import RUN_LABEL, Pod
from muster.engine.port import Sample

LOOK_AGAIN = 300.0  #: seconds until something that was not there, or not allowed, is asked for again
SILENT_AGAIN = 60.0  #: the same for a node that does not answer
PATIENCE = 5.0  #: seconds for one answer: a pass waits for nobody longer
AT_ONCE = 8  #: kubelets asked at a time


@dataclass(frozen=True, kw_only=True)
class Use:
    """Of one pod; None where it is not told."""

    cpu: float | None = None  #: cores
    memory: int | None = None  #: bytes
    net_received: int | None = None
    net_sent: int | None = None
    disk_used: int | None = None  #: what it wrote outside of volumes that outlive it, and its logs


@dataclass(frozen=True, kw_only=True)
class Member:
    rank: int
    pod: Pod


NOTHING = Use()


class UsageMeter:
    """Remembers what cannot be had, so that it is not asked for at every pass."""

    def __init__(self, api: Api, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._not_before: dict[str, float] = {}  #: path, or KUBELETS → when it is asked again

    async def measure(self, attempts: Iterable[Attempt], *, at: float) -> list[Sample]:
        """One sample for each member that runs and of which something is known."""
        members = [member for attempt in attempts for member in running(attempt)]
        if not members:
            return []
        by_name, by_uid = await asyncio.gather(self._metrics(members), self._summaries(members))
        samples = []
        for member in members:
            pod = member.pod
            asked = by_name.get((pod.namespace, pod.name), NOTHING)
            seen = by_uid.get(pod.uid, NOTHING)
            if asked != NOTHING or seen != NOTHING:
                samples.append(
                    Sample(
                        key=pod.key,
                        rank=member.rank,
                        at=at,
                        cpu=seen.cpu if asked.cpu is None else asked.cpu,
                        memory=seen.memory if asked.memory is None else asked.memory,
                        net_received=seen.net_received,
                        net_sent=seen.net_sent,
                        disk_used=seen.disk_used,
                    )
                )
        return samples

    async def _metrics(self, members: Sequence[Member]) -> Mapping[tuple[str, str], Use]:
        namespaces = sorted({member.pod.namespace for member in members})
        paths = [f"/apis/metrics.k8s.io/v1beta1/namespaces/{name}/pods" for name in namespaces]
        answers = await asyncio.gather(*(self._ask(path, {"labelSelector": RUN_LABEL}) for path in paths))
        return {pod: use for answer in answers if answer for pod, use in read_metrics(answer).items()}

    async def _summaries(self, members: Sequence[Member]) -> Mapping[str, Use]:
        """By the uid of the pod."""
        nodes = sorted({member.pod.node for member in members})
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(node: str) -> Object | None:
            async with gate:
                path = f"/api/v1/nodes/{node}/proxy/stats/summary"
                return await self._ask(path, right=KUBELETS, wait=SILENT_AGAIN)

        answers = await asyncio.gather(*map(ask, nodes))
        return {uid: use for answer in answers if answer for uid, use in read_summary(answer).items()}

    async def _ask(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        right: str | None = None,
        wait: float = LOOK_AGAIN,
    ) -> Object | None:
        """None: it cannot be had now. `right` stands for all paths that need the same permission."""
        now = self._clock()
        if any(self._not_before.get(what, now) > now for what in (path, right or path)):
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._api.call("GET", path, params=params)
        except ApiError as error:
            if error.status in (401, 403):
                self._not_before[right or path] = now + LOOK_AGAIN
            elif error.status != 429:
                self._not_before[path] = now + wait
        except (Unreachable, TimeoutError):
            if right:  # one node of many; for the API server itself the next pass is soon enough
                self._not_before[path] = now + wait
        return None


KUBELETS = "kubelets"


def running(attempt: Attempt) -> list[Member]:
    if attempt.over:
        return []
    told = {rank for rank, one in attempt.told.items() if one.state is ReplicaState.RUNNING}
    return [Member(rank=rank, pod=pods[-1]) for rank, pods in attempt.ranked().items() if rank in told]


def read_metrics(answer: Object) -> dict[tuple[str, str], Use]:
    """(namespace, name of the pod) → its containers together."""
    found = {}
    for item in answer.get("items") or ():
        usages = [container.get("usage") or {} for container in item.get("containers") or ()]
        cpu, memory = _sum(usages, "cpu"), _sum(usages, "memory")
        name = (item["metadata"]["namespace"], item["metadata"]["name"])
        found[name] = Use(cpu=cpu, memory=None if memory is None else int(memory))
    return found


def read_summary(answer: Object) -> dict[str, Use]:
    """By the uid of the pod. CPU and memory are the containers' own: the pod's may be minutes old."""
    found = {}
    for item in answer.get("pods") or ():
        containers = item.get("containers") or ()
        cpu = _sum([one.get("cpu") or {} for one in containers], "usageNanoCores")
        memory = _sum([one.get("memory") or {} for one in containers], "workingSetBytes")
        network = item.get("network") or {}
        found[item["podRef"]["uid"]] = Use(
            cpu=None if cpu is None else cpu / 1e9,
            memory=None if memory is None else int(memory),
            net_received=network.get("rxBytes"),
            net_sent=network.get("txBytes"),
            disk_used=(item.get("ephemeral-storage") or {}).get("usedBytes"),
        )
    return found


def _sum(parts: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Of those that tell it; None if none does."""
    known = []
    for part in parts:
        try:
            known.append(float(parse_quantity(part[name])))
        except (KeyError, BadQuantity):
            continue
    return sum(known) if known else None
