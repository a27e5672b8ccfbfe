"""Doing what was planned: each step can be repeated, and is harmless when it comes too late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.kubernetes.api import MANAGER, PODS, Api, ApiError, Resource
from muster.operator import objects
from muster.operator.desk import Desk
from muster.operator.job import TrainingJob, read_job
from muster.operator.pod import owner_of
from muster.operator.reconcile import (
    Action,
    CreateGroup,
    CreatePod,
    CreateService,
    DeletePod,
    LookFor,
    Refusal,
)
from muster.operator.spec import GROUP, KIND, PLURAL, VERSION
from muster.operator.status import Status, write_status

JOBS = Resource(group=GROUP, version=VERSION, plural=PLURAL, kind=KIND, namespaced=True)
SERVICES = Resource(group="", version="v1", plural="services", kind="Service", namespaced=True)
GROUPS = Resource(
    group="scheduling.volcano.sh", version="v1beta1", plural="podgroups", kind="PodGroup", namespaced=True
)
_NO_VOLCANO = (
    "The cluster knows no PodGroup: install Volcano, or create the job without scheduler.volcanoScheduler."
)


class Refused(Exception):
    """The cluster does not take an object."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Hands:
    def __init__(self, api: Api) -> None:
        self._api = api

    async def write(self, desk: Desk, job: TrainingJob, status: Status) -> TrainingJob:
        """Only over the version that the plan was made from; else a 409 is raised."""
        answer = await self._api.call(
            "PATCH",
            JOBS.path(job.namespace, job.name, "status"),
            params={"fieldManager": MANAGER},
            body={
                "metadata": {"uid": job.uid, "resourceVersion": job.version},
                "status": write_status(status),
            },
            content_type="application/merge-patch+json",
        )
        written = read_job(answer)
        desk.take_job(written)
        desk.forget()
        return written

    async def do(self, desk: Desk, job: TrainingJob, action: Action) -> None:
        match action:
            case CreateService():
                await self._create(job, SERVICES, objects.service(job))
                desk.services.add(job.service)
            case CreateGroup():
                await self._create(job, GROUPS, objects.pod_group(job))
                desk.groups.add(job.service)
            case CreatePod(slot=slot, life=life):
                desk.take_pod(await self._create(job, PODS, objects.pod(job, slot, life)))
            case DeletePod(name=name, uid=uid):
                await self._delete(desk, job, name, uid)
            case LookFor(name=name, uid=uid):
                found = await self._api.get(PODS, job.namespace, name)
                if found is None or uid not in (found["metadata"]["uid"], name):
                    desk.lose_pod(uid)
                else:
                    desk.take_pod(found)

    async def _create(
        self, job: TrainingJob, resource: Resource, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The object, made by us now or before."""
        name = body["metadata"]["name"]
        try:
            return await self._api.create(resource, job.namespace, body)
        except ApiError as error:
            if error.status != 409:
                if error.passing:
                    raise
                raise Refused(_refusal(resource, name, error)) from error
        found = await self._api.get(resource, job.namespace, name)
        if found is not None and owner_of(found) == job.uid:
            return found
        message = f"There is a {resource.kind} {name} already that is not this job's; delete it."
        raise Refused(Refusal(message=message, final=False))

    async def _delete(self, desk: Desk, job: TrainingJob, name: str, uid: str) -> None:
        try:
            there = await self._api.delete(PODS, job.namespace, name, uid=uid)
        except ApiError as error:
            if error.status != 409:
                raise
            there = False  # another pod has the name now
        if there:
            desk.told_to_end(uid)
        else:
            desk.lose_pod(uid)


def _refusal(resource: Resource, name: str, error: ApiError) -> Refusal:
    if resource is GROUPS and error.status == 404:
        return Refusal(message=_NO_VOLCANO, final=False)
    # What is not valid now never will be; quotas and rights come and go.
    final = error.status in (400, 422)
    return Refusal(message=f"{resource.kind} {name} was refused: {error.message}", final=final)
