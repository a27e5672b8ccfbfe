"""Running the server: bind, say so, serve until told to stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import uvicorn
import uvloop

from muster.domain.errors import LocalProblem, PortInUse
from muster.server.app import create_app
from muster.server.context import Context


class _Server(uvicorn.Server):
    """Says when it is ready, and leaves signals to us: what follows `serve` must still run."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is started: a taken port is found out first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
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
    """Something that runs beside the server, from ready to the last moment it can still be reached."""

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
    config = uvicorn.Config(
        create_app(context),
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whom a request comes from decides who is signed in: take nobody's word
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
        lifespan="on",
        ws="none",
        server_header=False,
    )
    server = _Server(config)
    uvloop.run(_serve(server, context, listener, on_ready, companion))


async def _serve(
    server: _Server,
    context: Context,
    listener: socket.socket,
    on_ready: Callable[[], None],
    companion: Companion | None,
) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def on_signal() -> None:
        server.force_exit = asked.is_set()
        asked.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, on_signal)
    serving = asyncio.create_task(server.serve([listener]))
    started = asyncio.create_task(server.ready.wait())
    await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        if companion is not None:
            await companion.start()
        # What was made up to here stays. To look through all of it for garbage now and then would hold
        # up every request for a tenth of a second.
        gc.collect()
        gc.freeze()
        on_ready()
        ended = asyncio.create_task(asked.wait())
        await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
        if companion is not None:
            await companion.stop()
    server.should_exit = True
    context.begin_closing()
    await serving
