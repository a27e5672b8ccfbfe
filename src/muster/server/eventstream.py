"""Answers that go on: server-sent events as plain bytes, so that one encoding serves many followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import StreamingResponse
from starlette.types import Send

PING_SECONDS = 15.0  #: a connection is never silent for twice as long: each side sees the other is there
PING = b": ping\r\n\r\n"


class EventStream(StreamingResponse):
    """Sends what the generator makes, no faster than the client takes it, until one of them ends.

    The generator gives None each time it looked and had nothing to say, which is at least once in
    `PING_SECONDS`; whether a ping is due then depends on when something was sent, not on when it looked.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes | None, None]) -> None:
        self._events = _with_pings(events)
        super().__init__(self._events, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._events):
            await super().stream_response(send)


async def _with_pings(events: AsyncGenerator[bytes | None, None]) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    spoke = loop.time()
    async with aclosing(events):
        async for event in events:
            if event is None and loop.time() < spoke + PING_SECONDS:
                continue
            yield PING if event is None else event
            spoke = loop.time()


async def woken(wake: asyncio.Event, seconds: float) -> None:
    """Wait to be told, for so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # `wait_for` would make a task of it, every time
            await wake.wait()
