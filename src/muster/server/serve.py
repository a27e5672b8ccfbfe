"""Running the server: bind, say so, serve until told to stop."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import uvloop

from muster._start import settle
from muster.domain.errors import LocalProblem, PortInUse
from muster.server.context import Context

if TYPE_CHECKING:
    from muster.server.asgi import Server


def bind(host: str, port: int, *, listen: bool = True) -> socket.socket:
    """A socket, before anything else is started: a taken port is found out first.

    Who connects while the server still loads waits at it. With `listen` off he is refused until the
    server can answer: where there are others behind the same balancer, they take him.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        if listen:
            listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(host, port) from error
        raise LocalProblem(
            f"Cannot listen on {host}:{port}: {error.strerror}.", hint="Choose another --host or --port."
        ) from error
    listener.set_inheritable(False)
    return listener


class Companion(Protocol):
    """Something that runs beside the server, to the last moment it can still be reached.

    It is started while the server still loads: what it asks meanwhile waits at the listener.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class _Alone:
    """No companion."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def serve(
    context: Context,
    listener: socket.socket,
    *,
    on_ready: Callable[[], None],
    companion: Companion | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. A second one does not wait for anybody."""
    uvloop.run(_serve(context, listener, on_ready, companion or _Alone()))


async def _serve(
    context: Context, listener: socket.socket, on_ready: Callable[[], None], companion: Companion
) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    server: Server | None = None

    def on_signal() -> None:
        if server is not None:
            server.force_exit = asked.is_set()
        asked.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, on_signal)
    beside = asyncio.create_task(companion.start())
    try:
        server = await asyncio.to_thread(_load, context)
        serving = asyncio.create_task(server.serve([listener]))
        started = asyncio.create_task(server.ready.wait())
        await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await beside
            settle()
            on_ready()
            ended = asyncio.create_task(asked.wait())
            await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await companion.stop()
    server.should_exit = True
    context.begin_closing()
    await serving


def _load(context: Context) -> Server:
    from muster.server.asgi import make_server  # with FastAPI, which takes half of the time of a start

    return make_server(context)
