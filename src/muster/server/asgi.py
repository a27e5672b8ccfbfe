"""The HTTP server itself: uvicorn with the application."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from muster.server.app import create_app
from muster.server.context import Context


class Server(uvicorn.Server):
    """Says when it is ready, and leaves signals to `serve`: what follows must still run."""

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


def make_server(context: Context) -> Server:
    return Server(
        uvicorn.Config(
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
    )
