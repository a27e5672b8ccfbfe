"""Taking runs out of the cluster: what ended, what is unwanted, what stands in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from muster.domain.errors import CannotPlace, MusterError, Overtaken
from muster.domain.observation import AttemptKey
from muster.engine.kubernetes.api import CONFIG_MAPS, PODS, SECRETS, SERVICES, Api
from muster.engine.kubernetes.attempt import Workload
from muster.engine.kubernetes.member import NODE_GONE
from muster.engine.kubernetes.names import helper_name, secret_name
from muster.engine.kubernetes.pod import Pod
from muster.engine.kubernetes.submit import Submitter, translated
from muster.engine.kubernetes.view import View

log = structlog.get_logger()
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)


class Removal:
    def __init__(self, api: Api, submitter: Submitter, view: View) -> None:
        self._api = api
        self._submitter = submitter
        self._view = view

    async def remove(self, key: AttemptKey) -> None:
        """Ask for the end of all there is of an attempt."""
        with translated(f"the end of run {key.run_id}"):
            for workload in self._view.workloads(key):
                if not await self._remove(key, workload):
                    self._view.missed(key, workload.uid)
            if self._view.workloads(key):
                return  # its pods go with it
            for pod in self._view.pods(key):
                if pod.told_at is None and not await self._api.delete(
                    PODS, pod.namespace, pod.name, uid=pod.uid
                ):
                    self._view.missed(key, pod.uid)

    async def remove_whole(self, key: AttemptKey) -> None:
        """And wait until it is gone."""
        await self.remove(key)
        await self._view.until(lambda: key not in self._view.attempts())

    async def make_room(self, key: AttemptKey) -> None:
        """Nothing of an earlier attempt may be there when a new one starts."""
        older = [
            one for one in self._view.attempts() if one.run_id == key.run_id and one.attempt < key.attempt
        ]
        for other in older:
            await self.remove(other)
        live = [pod for other in older for pod in self._view.pods(other) if not _is_beyond_reach(pod)]
        if live or any(self._view.workloads(other) for other in older):
            raise CannotPlace(f"An earlier attempt of run {key.run_id} is still going away.")

    async def remove_after(self, seconds: float, key: AttemptKey, workloads: list[Workload]) -> None:
        await asyncio.sleep(seconds)
        for workload in workloads:

            async def remove(workload: Workload = workload) -> None:
                with translated(f"{workload.resource.kind} {workload.name}"):
                    await self._remove(key, workload)

            await persist(remove)

    async def _remove(self, key: AttemptKey, workload: Workload) -> bool:
        """False: it was gone."""
        if workload.resource == PODS and not workload.epoch:
            # Not a run by itself, but the pod of a workload that somebody deleted without what it owned.
            await self._sweep(key, workload.namespace)
        return await self._submitter.remove(workload)

    async def _sweep(self, key: AttemptKey, namespace: str) -> None:
        """What has no owner any more, by name: an agent may not look for Secrets."""
        for resource, name in (
            (SECRETS, secret_name(key)),
            (SERVICES, helper_name(key, "nodes")),
            (CONFIG_MAPS, helper_name(key, "launcher")),
        ):
            await self._api.delete(resource, namespace, name)


async def persist(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Until it is done, or refused for good."""
    tries = 0
    while True:
        try:
            return await act()
        except CannotPlace:
            await asyncio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1
        except Overtaken:
            return None
        except MusterError as error:
            log.error("could not remove", reason=error.detail)
            return None


def _is_beyond_reach(pod: Pod) -> bool:
    """Ended, or on a node that does not answer: nothing can be done about it from here."""
    return pod.over or pod.disruption in NODE_GONE
