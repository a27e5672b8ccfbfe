"""Requests and answers: headers, errors, event streams. Knows HTTP, knows no operation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from muster._failpoint import failpoint
from muster._version import __version__
from muster.client.settings import ClientSettings
from muster.domain.errors import MusterError, ServerUnreachable, Unavailable, by_code

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM_TIMEOUT = httpx.Timeout(None, connect=5.0, read=45.0)  # the server pings every 15 s
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=60)
RECONNECT_SECONDS = 30.0  #: a stream that broke is taken up again for so long


@dataclass(frozen=True, kw_only=True)
class StreamEvent:
    event: str
    data: str
    id: str | None


@dataclass(kw_only=True)
class _EventParser:
    """Lines of a text/event-stream become events."""

    event: str = "message"
    data: list[str] = field(default_factory=list)
    id: str | None = None

    def feed(self, line: str) -> StreamEvent | None:
        if not line:
            if not self.data:
                return None
            made = StreamEvent(event=self.event, data="\n".join(self.data), id=self.id)
            self.event, self.data = "message", []
            return made
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self.event = value
        elif name == "data":
            self.data.append(value)
        elif name == "id":
            self.id = value
        return None


class Transport:
    """One connection pool to one server."""

    def __init__(self, settings: ClientSettings) -> None:
        headers = {"User-Agent": f"muster/{__version__}"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        self.url = settings.url
        self._http = httpx.AsyncClient(
            base_url=f"{settings.url}/api/v1",
            headers=headers,
            timeout=_TIMEOUT,
            limits=_LIMITS,
            verify=settings.url.startswith("https:"),  # a TLS context takes 50 ms to make; http needs none
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self,
        method: str,
        path: str,
        *,
        json_body: bytes | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """One request, one answer; anything but success is raised as the error it names."""
        merged = dict(headers or {})
        if json_body is not None:
            content = json_body
            merged["Content-Type"] = "application/json"
        elif content is not None:
            merged.setdefault("Content-Type", "application/octet-stream")
        failpoint("request.before")
        with _reachable(self.url):
            response = await self._http.request(
                method,
                path,
                content=content,
                params=_given(params),
                headers=merged,
                timeout=_TIMEOUT if timeout is None else timeout,
            )
        failpoint("request.after")
        if response.is_error:
            raise problem(response.status_code, response.content)
        return response

    @asynccontextmanager
    async def download(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[httpx.Response]:
        with _reachable(self.url):
            async with self._http.stream("GET", path, params=_given(params)) as response:
                if response.is_error:
                    raise problem(response.status_code, await response.aread())
                yield response

    async def events(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[StreamEvent]:
        """A stream of events that survives broken connections: taken up after the last one received."""
        last: str | None = None
        loop = asyncio.get_running_loop()
        broken_since: float | None = None
        while True:
            try:
                async for event in self._events_once(path, params, last):
                    broken_since = None
                    last = event.id or last
                    if event.event == "error":
                        raise problem(0, event.data.encode())
                    yield event
                    if event.event == "end":
                        return
            except (ServerUnreachable, Unavailable):
                now = loop.time()
                broken_since = broken_since or now
                if last is None or now - broken_since > RECONNECT_SECONDS:
                    raise
            await asyncio.sleep(0.2)

    async def _events_once(
        self, path: str, params: Mapping[str, Any], last: str | None
    ) -> AsyncIterator[StreamEvent]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        parser = _EventParser()
        with _reachable(self.url):
            async with self._http.stream(
                "GET", path, params=_given(params), headers=headers, timeout=_STREAM_TIMEOUT
            ) as response:
                if response.is_error:
                    raise problem(response.status_code, await response.aread())
                async for line in _lines(response.aiter_text()):
                    if event := parser.feed(line):
                        yield event


async def _lines(pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    """Lines as an event stream has them. (httpx would also cut at U+2028 and others inside the data.)"""
    rest = ""
    async for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        for line in lines:
            yield line.removesuffix("\r")


def problem(status: int, body: bytes) -> MusterError:
    """The error that a problem document stands for."""
    try:
        document = json.loads(body)
        kind = by_code(document["code"])
        if kind is MusterError and status >= 500:
            kind = Unavailable
        return kind.rebuild(document["detail"], document.get("hint", ""), document.get("facts", {}))
    except (ValueError, KeyError, TypeError):
        if status >= 500:
            return Unavailable(f"The server answered with {status}.", hint="Look at its log, or try again.")
        return MusterError(
            f"The server answered with {status}, and not as Muster does.", hint="Is MUSTER_URL right?"
        )


class _reachable:  # noqa: N801 - reads as a statement: `with _reachable(url): …`
    """Network errors become `ServerUnreachable`."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise ServerUnreachable(self._url, reason="connection refused or no such host") from error
        if isinstance(error, httpx.TransportError):
            late = isinstance(error, httpx.TimeoutException)
            reason = "no answer in time" if late else "the connection broke"
            raise ServerUnreachable(self._url, reason=reason, sent=True) from error


def _given(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}
