"""Answers that go on: server-sent events as plain bytes, so that one encoding serves many followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Send

PING_SECONDS = 15.0  #: a connection is never silent for longer, so that each side sees the other is there
PING = b": ping\r\n\r\n"


class EventStream(StreamingResponse):
    """Sends what the generator makes, no faster than the client takes it, until one of them ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events = events

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._events):
            await super().stream_response(send)


async def woken(wake: asyncio.Event, seconds: float) -> bool:
    """Wait to be told; False: it took too long."""
    try:
        async with asyncio.timeout(seconds):  # `wait_for` would make a task of it, every time
            await wake.wait()
    except TimeoutError:
        return False
    return True
