"""The cluster's API, as plain data: any kind the cluster knows, found by discovery, never guessed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from lightkube.core.exceptions import ConfigError

from muster.domain.errors import BadTemplate
from muster.engine.kubernetes.connect import AT_ONCE, Connection

Object = dict[str, Any]
MANAGER = "muster"
WATCH_SECONDS = 300  #: a watch is renewed that often at the latest
_QUIET = httpx2.Timeout(30.0, read=WATCH_SECONDS + 60.0)
_FOLLOW = httpx2.Timeout(30.0, read=None)
#: Among them: the program or file that gives us our token does not.
_NO_ANSWER = (httpx2.HTTPError, ConfigError)
UNKNOWN_USER = "the credentials of this agent are not accepted (they are wrong, or have expired)"


class ApiError(Exception):
    """The API server's own answer."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason  #: such as "AlreadyExists"
        self.message = message
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Worth another try a little later; credentials too may be renewed, and no run is to blame."""
        return self.status in (401, 429) or self.status >= 500


class Unreachable(Exception):
    """The API server does not answer."""


@dataclass(frozen=True, kw_only=True)
class Resource:
    """Where objects of one kind are found."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, *rest: str) -> str:
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        return "/" + "/".join([*parts, *rest])


def _core(kind: str, plural: str) -> Resource:
    return Resource(group="", version="v1", plural=plural, kind=kind, namespaced=True)


PODS = _core("Pod", "pods")
EVENTS = _core("Event", "events")
SECRETS = _core("Secret", "secrets")
SERVICES = _core("Service", "services")
CONFIG_MAPS = _core("ConfigMap", "configmaps")
JOBS = Resource(group="batch", version="v1", plural="jobs", kind="Job", namespaced=True)


class Api:
    """Speaks to one cluster. Raises `ApiError` for what it says, `Unreachable` where it is silent."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._http = connection.http
        self._known: dict[str, dict[str, Resource]] = {}  #: apiVersion → kind → where
        self._discovery = asyncio.Lock()  #: many runs that begin at once ask once
        self._turn = asyncio.Semaphore(AT_ONCE)  #: for requests that are answered at once

    async def resource(self, api_version: str, kind: str) -> Resource:
        """Where the cluster keeps this kind."""
        async with self._discovery:
            if kind not in self._known.get(api_version, {}):
                self._known[api_version] = await self._discover(api_version)
        found = self._known[api_version].get(kind)
        if found is None:
            raise BadTemplate(
                f"The cluster does not know {kind} of {api_version}.",
                hint="Install what defines it (`kubectl api-resources` lists what there is), "
                "or change the queue's config.",
            )
        return found

    async def named(self, group: str, plural: str) -> Resource | None:
        """The same by its plural, in the version that the cluster likes best; None: it has no such kind."""
        version = "v1"
        if group:
            try:
                answer = await self.call("GET", f"/apis/{group}")
            except ApiError as error:
                if error.status == 404:
                    return None
                raise
            version = answer["preferredVersion"]["groupVersion"]
        found = await self._discover(version)
        return next((one for one in found.values() if one.plural == plural), None)

    async def _discover(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self.call("GET", f"/apis/{api_version}" if group else f"/api/{version}")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return {
            item["kind"]: Resource(
                group=group,
                version=version,
                plural=item["name"],
                kind=item["kind"],
                namespaced=item["namespaced"],
            )
            for item in answer.get("resources", ())
            if "/" not in item["name"]
        }

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> Object:
        params = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return await self.call("POST", resource.path(namespace), params=params, body=body)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object; None if there is none."""
        try:
            return await self.call("GET", resource.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def patch(self, resource: Resource, namespace: str, name: str, change: Mapping[str, Any]) -> Object:
        """By JSON merge patch; with `metadata.resourceVersion` in it, only if nothing else changed."""
        return await self.call(
            "PATCH",
            resource.path(namespace, name),
            params={"fieldManager": MANAGER},
            body=change,
            content_type="application/merge-patch+json",
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str | None = None, version: str = ""
    ) -> bool:
        """Ask for its end, and in the background for that of all it owns. False: it was gone already."""
        only_if = {"uid": uid, "resourceVersion": version}
        body = {
            "propagationPolicy": "Background",
            "preconditions": {key: value for key, value in only_if.items() if value},
        }
        try:
            await self.call("DELETE", resource.path(namespace, name), body=body)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def list(self, resource: Resource, namespace: str | None, **params: str) -> Object:
        return await self.call("GET", resource.path(namespace), params=params)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {"Content-Type": content_type} if content is not None else {}
        async with self._turn:
            try:
                response = await self._http.request(
                    method, path, params=params, content=content, headers=headers
                )
            except _NO_ANSWER as error:
                raise _silent(self.connection.server, error) from error
        if response.is_error:
            raise _refusal(response)
        answer = response.json()
        return answer if isinstance(answer, dict) else {}

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, endless: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer as it comes. `endless`: it may be silent for as long as it likes."""
        timeout = _FOLLOW if endless else _QUIET
        try:
            async with self._http.stream("GET", path, params=params, timeout=timeout) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                yield response.aiter_bytes()
        except _NO_ANSWER as error:
            raise _silent(self.connection.server, error) from error

    async def watch(
        self, resource: Resource, namespace: str | None, params: Mapping[str, str]
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes as they happen: (ADDED | MODIFIED | DELETED | BOOKMARK, the object)."""
        asked = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        rest = b""
        async with self.stream(resource.path(namespace), asked) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError(
                            status.get("code", 500), status.get("reason", ""), status.get("message", "")
                        )
                    yield event["type"], event["object"]

    async def close(self) -> None:
        await self._http.aclose()


def _refusal(response: httpx2.Response) -> ApiError:
    try:
        status = response.json()
        reason, message = str(status.get("reason", "")), str(status.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", response.text[:300]
    if response.status_code == 401:
        message = UNKNOWN_USER
    after = response.headers.get("Retry-After", "")
    return ApiError(
        response.status_code,
        reason,
        message or f"HTTP {response.status_code}",
        float(after) if after.isdecimal() else None,
    )


def _silent(server: str, error: Exception) -> Unreachable:
    return Unreachable(f"The cluster at {server} does not answer: {str(error) or type(error).__name__}.")
