"""Putting a run into the cluster: whoever dies in between, no half of it stays and nothing runs twice.

1. The workload is created first, held back where its kind can be (`suspend`).
2. What goes with it — its Secret, a Service, a ConfigMap — is created with an owner reference to it: when
   the workload goes, they go.
3. Then it is released. Every step may be repeated; until all are done the workload is marked as partial,
   and whoever takes the run over goes on with the steps.

The workload bears the run, the attempt and the epoch. One that is there already is settled by these: the same
attempt is gone on with, an older one is removed first, a newer one means that this agent is overtaken, and
one that is not the run's is left alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster._failpoint import failpoint
from muster.domain.errors import BadTemplate, CannotPlace, ClusterRefused, Overtaken
from muster.domain.observation import AttemptKey
from muster.domain.path import at
from muster.engine.kubernetes import config, pods
from muster.engine.kubernetes.api import SECRETS, Api, ApiError, Object, Resource, Unreachable
from muster.engine.kubernetes.attempt import Workload
from muster.engine.kubernetes.course import Status
from muster.engine.kubernetes.kinds import UNKNOWN, Kind, kind_of, unknown
from muster.engine.kubernetes.names import secret_name
from muster.engine.kubernetes.pod import ATTEMPT_LABEL, RUN_LABEL, key_of
from muster.engine.kubernetes.render import GANG
from muster.engine.port import Rendered

EPOCH, AGENT, REPLICAS = "muster.dev/epoch", "muster.dev/agent", "muster.dev/replicas"
AT_ONCE = "muster.dev/at-once"  #: on a workload that has fewer replicas at a time
PARTIAL = "muster.dev/partial"  #: on a workload until all that goes with it is there
SUSPENDED = "It is suspended: somebody, or what admits it to the cluster, releases it later."
_ADMITTED_ELSEWHERE = "kueue.x-k8s.io/queue-name"  #: a label: Kueue itself releases it


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a rendered run consists of."""

    workload: Object
    companions: tuple[Object, ...]

    @classmethod
    def of(cls, rendered: Rendered) -> Parts:
        layout = config.read(rendered.manifest)
        return cls(
            workload=at(rendered.manifest, layout.workload),
            companions=tuple(
                at(rendered.manifest, place) for place in layout.objects if place != layout.workload
            ),
        )


def read_workload(resource: Resource, item: Mapping[str, Any]) -> Workload:
    metadata = item["metadata"]
    notes = metadata.get("annotations") or {}
    epoch, members = notes.get(EPOCH, ""), notes.get(REPLICAS, "")
    at_once = notes.get(AT_ONCE, members)
    return Workload(
        resource=resource,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        version=metadata.get("resourceVersion", ""),
        epoch=int(epoch) if epoch.isdecimal() else 0,
        members=int(members) if members.isdecimal() else 1,
        at_once=int(at_once) if at_once.isdecimal() else 1,
        partial=PARTIAL in notes,
        gang=notes.get(GANG) == "true",
        status=_status(kind_of(resource.api_version, resource.kind), item, partial=PARTIAL in notes),
    )


def _status(kind: Kind, item: Mapping[str, Any], *, partial: bool) -> Status:
    status = unknown.read_as_told(item) or kind.read(item)
    if kind.suspend is not None and not partial and at(item, kind.suspend) is True:
        return replace(status, waits=SUSPENDED)
    return status


class Submitter:
    def __init__(self, api: Api, *, agent: str) -> None:
        self._api = api
        self._agent = agent

    async def check(self, rendered: Rendered) -> None:
        """Ask the cluster whether it would take all of it. Nothing is made."""
        parts = Parts.of(rendered)
        for item in (parts.workload, *parts.companions):
            resource, namespace = await self._where(item)
            with translated(f"{item['kind']} {item['metadata']['name']}"):
                try:
                    await self._api.create(resource, namespace, item, dry_run=True)
                except ApiError as error:
                    if error.reason != "AlreadyExists":  # settled when it is created
                        raise

    async def create(self, rendered: Rendered, *, epoch: int, secrets: Mapping[str, str]) -> Workload:
        parts, key = Parts.of(rendered), rendered.key
        resource, namespace = await self._where(parts.workload)
        kind = kind_of(resource.api_version, resource.kind)
        with translated(f"{resource.kind} {parts.workload['metadata']['name']}"):
            workload, held = await self._create_workload(rendered, resource, namespace, epoch)
            for item in (_secret(key, secrets), *parts.companions):
                await self._create_companion(key, item, workload)
            if workload.partial:
                failpoint("kube.release.before")
                workload = await self._release(workload, kind if held else UNKNOWN)
                failpoint("kube.release.after")
        return workload

    async def take(self, workload: Workload, key: AttemptKey, *, epoch: int) -> Workload:
        """Write our epoch on it, unless a newer one is there."""
        while True:
            if workload.epoch > epoch:
                raise Overtaken(f"Attempt {key.attempt} of run {key.run_id} has a newer owner.")
            if workload.epoch == epoch:
                return workload
            change = {
                "metadata": {
                    "resourceVersion": workload.version,
                    "annotations": {EPOCH: str(epoch), AGENT: self._agent},
                }
            }
            try:
                done = await self._api.patch(workload.resource, workload.namespace, workload.name, change)
                return read_workload(workload.resource, done)
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
                workload = await self._again(workload)

    async def remove(self, workload: Workload, *, epoch: int | None = None) -> bool:
        """Delete it, and all it owns after it. With an epoch: only if no newer one is on it.
        False: it was gone."""
        while True:
            if epoch is not None and workload.epoch > epoch:
                raise Overtaken(f"{workload.resource.kind} {workload.name} has a newer owner.")
            try:
                return await self._api.delete(
                    workload.resource,
                    workload.namespace,
                    workload.name,
                    uid=workload.uid,
                    version=workload.version if epoch is not None else "",
                )
            except ApiError as error:
                if error.reason != "Conflict":
                    raise
            found = await self._api.get(workload.resource, workload.namespace, workload.name)
            if found is None or found["metadata"]["uid"] != workload.uid:
                return False
            workload = read_workload(workload.resource, found)

    async def _again(self, workload: Workload) -> Workload:
        found = await self._api.get(workload.resource, workload.namespace, workload.name)
        if found is None or found["metadata"]["uid"] != workload.uid:
            raise CannotPlace(f"{workload.resource.kind} {workload.name} went away just now.")
        return read_workload(workload.resource, found)

    async def _where(self, item: Object) -> tuple[Resource, str]:
        with translated(f"the kind {item['kind']}"):
            resource = await self._api.resource(item["apiVersion"], item["kind"])
        connection = self._api.connection
        namespace = item["metadata"].get("namespace", connection.namespace)
        if not resource.namespaced:
            raise BadTemplate(
                f"A {item['kind']} belongs to the whole cluster, not to a run.",
                hint="Create it once by hand, and take it out of the queue's config.",
            )
        if namespace not in connection.namespaces:
            raise BadTemplate(
                f"The queue's config names namespace {namespace!r}; this agent serves "
                f"{', '.join(connection.namespaces)}.",
                hint="Take it out of the config, or add it to `namespaces:` of the agent.",
            )
        return resource, namespace

    async def _create_workload(
        self, rendered: Rendered, resource: Resource, namespace: str, epoch: int
    ) -> tuple[Workload, bool]:
        """The workload, and whether it is held back."""
        key, kind = rendered.key, kind_of(resource.api_version, resource.kind)
        body = copy.deepcopy(Parts.of(rendered).workload)
        replicas, at_once = rendered.replicas, sum(pod.count for pod in pods.find(body))
        notes = {EPOCH: str(epoch), AGENT: self._agent, REPLICAS: str(replicas), PARTIAL: "true"}
        if 0 < at_once < replicas:
            notes[AT_ONCE] = str(at_once)
        body["metadata"].setdefault("annotations", {}).update(notes)
        held = _hold_back(body, kind)
        try:
            failpoint("kube.create.before")
            made = await self._api.create(resource, namespace, body)
            failpoint("kube.create.after")
            return read_workload(resource, made), held
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        found = await self._api.get(resource, namespace, body["metadata"]["name"])
        if found is None:
            raise CannotPlace(f"{resource.kind} {body['metadata']['name']} went away just now.")
        await self._settle(resource, found, key)
        taken = await self.take(read_workload(resource, found), key, epoch=epoch)
        return taken, held and _is_held(found, kind)

    async def _settle(self, resource: Resource, found: Object, key: AttemptKey) -> None:
        """Something of that name is there. Returns if it is this attempt's own."""
        name, other = found["metadata"]["name"], key_of(found)
        if other is None or other.run_id != key.run_id:
            whose = f"belongs to run {other.run_id}" if other else "is not Muster's"
            raise ClusterRefused(
                f"{resource.kind} {name!r} is there already, and {whose}.",
                hint="Put ${run_id} into the name in the queue's config, or leave the name out.",
            )
        if other.attempt > key.attempt:
            raise Overtaken(f"Attempt {other.attempt} of run {key.run_id} is there already.")
        if other.attempt < key.attempt:
            await self.remove(read_workload(resource, found))
            raise CannotPlace(f"Attempt {other.attempt} of run {key.run_id} is still going away.")
        if found["metadata"].get("deletionTimestamp"):
            raise CannotPlace(f"{resource.kind} {name!r} is still going away.")

    async def _create_companion(self, key: AttemptKey, item: Object, workload: Workload) -> None:
        resource = (
            SECRETS
            if item["kind"] == "Secret" and item["apiVersion"] == "v1"
            else await self._api.resource(item["apiVersion"], item["kind"])
        )
        owner = {
            "apiVersion": workload.resource.api_version,
            "kind": workload.resource.kind,
            "name": workload.name,
            "uid": workload.uid,
        }
        metadata = {**item["metadata"], "ownerReferences": [owner]}
        body = {**item, "metadata": metadata}
        for _ in range(2):
            try:
                failpoint("kube.companion.before")
                await self._api.create(resource, workload.namespace, body)
                failpoint("kube.companion.after")
                return
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            if resource is SECRETS:  # never read, so only its name tells whose it is
                if key.run_id not in metadata["name"]:
                    raise ClusterRefused(
                        f"Secret {metadata['name']!r} is there already, and may be somebody else's.",
                        hint="Put ${run_id} into its name in the queue's config.",
                    )
            else:
                found = await self._api.get(resource, workload.namespace, metadata["name"])
                owners = (found or {"metadata": {}})["metadata"].get("ownerReferences") or ()
                if any(one["uid"] == workload.uid for one in owners):
                    return
                other = key_of(found) if found is not None else key
                if other is None or other.run_id != key.run_id:
                    whose = f"belongs to run {other.run_id}" if other else "is not Muster's"
                    raise ClusterRefused(
                        f"{item['kind']} {metadata['name']!r} is there already, and {whose}.",
                        hint="Put ${run_id} into its name in the queue's config.",
                    )
            await self._api.delete(resource, workload.namespace, metadata["name"])
        raise CannotPlace(f"{item['kind']} {metadata['name']!r} is still going away.")

    async def _release(self, workload: Workload, kind: Kind) -> Workload:
        """All is there: let it start, and say so on it."""
        change: dict[str, Any] = {"metadata": {"annotations": {PARTIAL: None}}}
        if kind.suspend is not None:
            node = change
            for part in kind.suspend[:-1]:
                node = node.setdefault(part, {})
            node[kind.suspend[-1]] = False
        done = await self._api.patch(workload.resource, workload.namespace, workload.name, change)
        return read_workload(workload.resource, done)


def _secret(key: AttemptKey, values: Mapping[str, str]) -> Object:
    labels = {RUN_LABEL: key.run_id, ATTEMPT_LABEL: str(key.attempt)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(key), "labels": labels},
        "immutable": True,
        "stringData": dict(values),
    }


def _hold_back(body: Object, kind: Kind) -> bool:
    """Create it so that nothing starts yet. False: its kind cannot, or its owner says when it starts."""
    if kind.suspend is None or _ADMITTED_ELSEWHERE in body["metadata"].get("labels", {}):
        return False
    node = body
    for part in kind.suspend[:-1]:
        node = node.setdefault(part, {})
    if node.get(kind.suspend[-1]):
        return False
    node[kind.suspend[-1]] = True
    return True


def _is_held(found: Object, kind: Kind) -> bool:
    return kind.suspend is not None and at(found, kind.suspend) is True


class translated:  # noqa: N801 - reads as a word: with translated("Job x"):
    """What the cluster says, as errors of ours: worth another try, or final."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Unreachable):
            raise CannotPlace(str(error)) from error
        if not isinstance(error, ApiError):
            return
        if error.passing or is_quota(error.message):
            raise CannotPlace(f"The cluster does not take {self._what} now: {error.message}") from error
        hint = "Correct the queue's config."
        if error.reason == "Forbidden" and "cannot " in error.message:
            hint = "Give the agent's account this right: `muster agent role` writes the whole role."
        raise ClusterRefused(f"The cluster refuses {self._what}: {error.message}", hint=hint) from error


def is_quota(message: str) -> bool:
    return "exceeded quota" in message
