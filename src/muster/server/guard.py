"""Before any route: is the request meant for this server, and is it of a sane size?

A browser can be talked into sending requests to a server on its own machine. It cannot lie about Host
and Origin, so both are checked, on every method: Host must be a name of this server, and Origin, where
there is one, this server itself.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.domain.errors import MusterError, NotAllowed, TooLarge
from muster.domain.resources import readable_bytes
from muster.server.context import MAX_BODY
from muster.server.loopback import LOOPBACK_NAMES
from muster.server.problems import problem_response

#: Uploads that are read piece by piece and have limits of their own.
STREAMED = re.compile(r"/api/v1/snapshots/[^/]+/blobs")


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], any_host: bool) -> None:
        self._app = app
        self._hosts = hosts | LOOPBACK_NAMES
        self._any_host = any_host  # bound to a public address: keys are demanded instead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = None if STREAMED.fullmatch(scope["path"]) else MAX_BODY
        try:
            self._check(scope)
            _check_declared_size(scope, limit)
        except MusterError as error:
            await problem_response(error)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        try:
            called, page = urlsplit(f"//{host}"), urlsplit(origin or "")
        except ValueError as error:
            raise NotAllowed("Host or Origin of the request cannot be read.") from error
        if not self._any_host and called.hostname not in self._hosts:
            raise NotAllowed(
                f"This server does not go by the name {called.hostname!r}.",
                hint="Call it 127.0.0.1 or localhost; `muster server --allow-host NAME` adds a name.",
            )
        if origin is not None and page.netloc != called.netloc:
            raise NotAllowed(
                f"Requests from pages of {origin} are not taken.", hint="Use this server's pages."
            )


def _check_declared_size(scope: Scope, limit: int | None) -> None:
    for name, value in scope["headers"]:
        if name == b"content-length" and limit is not None and value.isdigit() and int(value) > limit:
            raise _too_large(limit)


def _counted(receive: Receive, limit: int | None) -> Receive:
    if limit is None:
        return receive
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counting


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The request is larger than {readable_bytes(limit)}.", hint="Send it in several smaller ones."
    )
