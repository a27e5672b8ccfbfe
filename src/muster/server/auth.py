"""Sign-in: from a request to an `Actor`. The one place where that is decided.

A key comes as `Authorization: Bearer KEY` or as the password of Basic; a browser that signed in with one
sends the cookie of its session. A server started by `muster up`
also signs in its own user without a key, if the connection comes from this machine and from a process
of that same account, which the kernel tells (`/proc/net/tcp`). Where it cannot tell, a key is needed.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBase
from fastapi.security.base import SecurityBase

from muster.domain.access import Action, Actor, KeyKind
from muster.domain.errors import NotAllowed, NotSignedIn
from muster.server.context import Context
from muster.server.loopback import is_loopback
from muster.server.session import actor_of as session_actor
from muster.server.session import cookie_name
from muster.service import accounts
from muster.service.bus import KEYS

_ESTABLISHED = "01"  #: as /proc/net/tcp says it
_REMEMBER = 2.0  #: seconds; a revocation in this process takes effect at once


class Doorkeeper:
    """Remembers for a moment whom it let in, so that a busy agent does not cost a look-up a request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, tuple[float, Actor]] = {}
        self._changes = 0
        context.bus.on(KEYS, self._forget)

    async def admit(self, request: Request) -> Actor:
        token = _token(request)
        if token is not None:
            return await self._known_or(token, accounts.authenticate)
        cookie = request.cookies.get(cookie_name(self._context.settings))
        if cookie is None:
            return await self._local(request)
        try:
            return await self._known_or(cookie, partial(session_actor, secret=self._context.secret))
        except NotSignedIn:
            if self._context.settings.local_user is None:
                raise
            return await self._local(request)

    async def _known_or(self, token: str, look: Callable[..., Actor]) -> Actor:
        known = self._known.get(token)
        if known and time.monotonic() - known[0] < _REMEMBER:
            return known[1]
        now, changes = self._context.now(), self._changes
        actor = await self._context.db.read(lambda conn: look(conn, token, now=now))
        if actor.kind in (KeyKind.USER, KeyKind.AGENT) and changes == self._changes:
            if len(self._known) > 1000:
                self._known.clear()
            self._known[token] = (time.monotonic(), actor)
        return actor

    def _forget(self) -> None:
        """Keys or roles changed. What is being looked up just now may be out of date too."""
        self._known.clear()
        self._changes += 1

    async def _local(self, request: Request) -> Actor:
        user = self._context.settings.local_user
        if user is None or request.client is None or not is_loopback(request.client.host):
            raise NotSignedIn()
        server = request.scope.get("server") or ("", 0)
        if not _same_account(request.client.host, request.client.port, server[1]):
            raise NotSignedIn("This server belongs to another account of this machine.")
        return await self._context.db.read(lambda conn: accounts.user_actor(conn, user))


def _token(request: Request) -> str | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value:
        return value.strip()
    if scheme.lower() == "basic":
        try:
            _, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise NotSignedIn("The Authorization header cannot be read.") from error
        return password or None
    return None


def _same_account(host: str, port: int, server_port: int) -> bool:
    """Does the process at the other end of this loopback connection run as we do (or as root)?

    Only an established connection that still has its socket counts: once the peer has closed its end,
    the kernel names no owner any more and says uid 0.
    """
    table = Path("/proc/net/tcp6" if ":" in host else "/proc/net/tcp")
    remote = _kernel_address(host, port)
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return False
    for line in lines:
        fields = line.split()
        local, peer, state, uid, inode = fields[1], fields[2], fields[3], int(fields[7]), fields[9]
        if local == remote and int(peer.rpartition(":")[2], 16) == server_port:
            return state == _ESTABLISHED and inode != "0" and uid in (os.getuid(), 0)
    return False


def _kernel_address(host: str, port: int) -> str:
    packed = ipaddress.ip_address(host).packed
    words = [packed[i : i + 4][::-1].hex().upper() for i in range(0, len(packed), 4)]
    return f"{''.join(words)}:{port:04X}"


class SignIn(SecurityBase):
    """A way to sign in, as the OpenAPI document tells it. What was sent is read by the doorkeeper."""

    def __init__(self, scheme: str, description: str) -> None:
        self.scheme_name = scheme
        self.model = HTTPBase(scheme=scheme, description=description)

    async def __call__(self) -> None:
        return None


_BEARER = SignIn("bearer", "An API key, or a run's own token for that run.")
_BASIC = SignIn("basic", "Any user name, with an API key as the password.")


async def admitted(
    request: Request,
    bearer: Annotated[None, Depends(_BEARER)] = None,
    basic: Annotated[None, Depends(_BASIC)] = None,
) -> Actor:
    keeper: Doorkeeper = request.app.state.doorkeeper
    return await keeper.admit(request)


async def signed_in(
    request: Request,
    bearer: Annotated[None, Depends(_BEARER)] = None,
    basic: Annotated[None, Depends(_BASIC)] = None,
) -> Actor:
    """Anybody but the key of a run's code, which opens nothing else."""
    actor = await admitted(request)
    if actor.kind is KeyKind.CODE:
        raise NotAllowed("This key can only be used for the code of its run.")
    return actor


async def person_or_agent(actor: Annotated[Actor, Depends(signed_in)]) -> Actor:
    """Anybody but a run: a run's token opens only that run."""
    if actor.run_id is not None:
        raise NotAllowed("A run's token can only be used for that run.")
    return actor


async def code_reader(actor: Annotated[Actor, Depends(admitted)]) -> Actor:
    """Anybody but a run; also the key of a run's code."""
    return actor if actor.kind is KeyKind.CODE else await person_or_agent(actor)


async def server_admin(actor: Annotated[Actor, Depends(person_or_agent)]) -> Actor:
    if not actor.server_admin:
        raise NotAllowed(f"{actor.name} may not {Action.ADMINISTER} this server.", hint="Ask its admin.")
    return actor


async def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


Ctx = Annotated[Context, Depends(context_of)]
Visitor = Annotated[Actor, Depends(signed_in)]  #: also a run, about itself
Caller = Annotated[Actor, Depends(person_or_agent)]
CodeReader = Annotated[Actor, Depends(code_reader)]
Admin = Annotated[Actor, Depends(server_admin)]
