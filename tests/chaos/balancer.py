"""A TCP load balancer as small as one can be: round robin, no stickiness, past servers that refuse."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

_CHUNK = 65536


class Balancer:
    """Listens in a thread of its own; `ports` may change their servers at any time."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._turns = count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(self._turns)
        for offset in range(len(self._ports)):
            port = self._ports[(turn + offset) % len(self._ports)]
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.close()
            return
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side ends, then end the other."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with suppress(OSError, RuntimeError):
            writer.close()
