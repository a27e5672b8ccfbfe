"""An agent that starts nothing: it registers, claims over HTTP, and says that all went well.

It speaks HTTP by hand, over one connection of its own: the time of a claim is to be the server's, not
that of a client library on the other core.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from muster.client.settings import ClientSettings
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER

_ROOM = {"millicpus": 10**9, "memory": 2**50, "gpus": 0}
_LENGTH = b"content-length:"


class Wire:
    """One connection that asks and is answered in JSON."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader, self._writer, self._head = reader, writer, head

    @classmethod
    async def open(cls, settings: ClientSettings) -> Self:
        place = urlsplit(settings.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        head = (
            f"Host: {place.netloc}\r\nAuthorization: Bearer {settings.api_key}\r\n"
            f"{PROTOCOL_HEADER}: {PROTOCOL}\r\nContent-Type: application/json\r\n"
        )
        return cls(reader, writer, head)

    async def post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(asked).encode()
        head = f"POST /api/v1{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next(int(line[len(_LENGTH) :]) for line in lines if line.startswith(_LENGTH))
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        if not lines[0].split()[1].startswith(b"2"):
            raise RuntimeError(f"the server refused: {answer}")
        return answer

    def close(self) -> None:
        self._writer.close()


@dataclass(kw_only=True)
class PlayedAgent:
    wire: Wire
    id: str
    incarnation: str
    held: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    async def register(cls, settings: ClientSettings, name: str) -> PlayedAgent:
        wire = await Wire.open(settings)
        incarnation = os.urandom(8).hex()
        asked = {
            "name": name,
            "incarnation": incarnation,
            "engine": "process",
            "host": name,
            "locality": name,
            "version": "bench",
            "max_jobs": 10_000,
            "total": _ROOM,
            "queues": ["local"],
        }
        agent = await wire.post("/agents", asked)
        return cls(wire=wire, id=agent["id"], incarnation=incarnation)

    async def claim(self, slots: int) -> int:
        """One request for work; how many runs it brought."""
        asked = {
            "incarnation": self.incarnation,
            "held": self.held,
            "slots": slots,
            "free": _ROOM,
            "wait": 0,
        }
        answer = await self.wire.post(f"/agents/{self.id}/poll", asked)
        self.held += [
            {"run_id": claim["run"]["id"], "attempt": claim["attempt"], "epoch": claim["epoch"]}
            for claim in answer["claims"]
        ]
        return len(answer["claims"])

    async def end_all(self) -> None:
        """Report that everything it holds has succeeded."""
        done = {"type": "replica", "rank": 0, "state": "succeeded", "exit_code": 0, "log_bytes": 0}
        reports = [{**item, "seq": 1, "fact": done} for item in self.held]
        self.held = []
        await self.wire.post(
            f"/agents/{self.id}/reports", {"incarnation": self.incarnation, "reports": reports}
        )
