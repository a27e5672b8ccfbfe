"""Running the server: bind, say so, serve until told to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import uvicorn
import uvloop

from muster.domain.errors import LocalProblem, PortInUse
from muster.server.app import create_app
from muster.server.context import Context


class _Server(uvicorn.Server):
    """Stops on our own signal handlers, so that what follows `serve` still runs."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

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


def serve(context: Context, listener: socket.socket, *, on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        create_app(context),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
        lifespan="on",
        ws="none",
        server_header=False,
    )
    server = _Server(config, on_ready)

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            server.force_exit = server.should_exit  # asked twice: do not wait for anybody
            server.should_exit = True
            context.begin_closing()

        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(signum, stop)
        await server.serve([listener])

    uvloop.run(run())


def configure_logging(*, verbose: bool) -> None:
    level = logging.DEBUG if verbose else logging.INFO
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
            if sys.stderr.isatty()
            else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
