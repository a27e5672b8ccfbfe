"""The HTTP door without a socket: the application itself, called through ASGI, with its lifespan."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from muster.server import setup
from muster.server.app import create_app
from muster.server.context import Context, Settings
from muster.service import sweep
from muster.service.accounts import server_secret
from muster.service.bus import KEYS
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER
from world import DAWN, MACHINE, READY, Clock, wipe

T = TypeVar("T")

DEADLINE = 10.0
URL = "http://127.0.0.1:8700"
API = "/api/v1"
#: Paths below the API may be written without its prefix.
_RELATIVE = re.compile(
    r"/(launches|runs|jobs|events|queues|agents|clusters|snapshots|me|session|keys|users|entities|audit)(/|$)"
)


@dataclass(frozen=True, kw_only=True)
class StreamEvent:
    event: str
    id: str | None
    data: Any


class Door:
    """A server in the test's own thread. Its loop runs while a request is made, and not in between."""

    def __init__(self, folder: Path, *, database: str = "sqlite", **given: Any) -> None:
        settings = Settings(database_url=READY[database](folder), data_dir=folder, **given)
        self.clock = Clock()
        self.context = Context.open(settings)
        self.context.now = self.clock.now
        self.key = ""  #: of the server's admin
        self.app: FastAPI = create_app(self.context)
        self.begin_anew()
        self._runner = asyncio.Runner()
        self._life = self.app.router.lifespan_context(self.app)
        self.run(self._life.__aenter__())

    def begin_anew(self) -> Door:
        """Forget everything but `ann`, admin of the server, and her queue `local`."""
        self.clock.at = DAWN
        for name in ("logs", "usage", "code"):
            shutil.rmtree(self.context.settings.data_dir / name, ignore_errors=True)
        self.context.db.write_now(wipe)
        setup.prepare(self.context)
        self.context.db.write_now(lambda tx: sweep.set_time(tx, now=DAWN))
        self.key = setup.create_admin(self.context, "ann")
        self.context.secret = self.context.db.write_now(lambda tx: server_secret(tx.conn))
        self.context.closing = False
        self.context.bus.publish([KEYS])
        return self

    def close(self) -> None:
        self.run(self._life.__aexit__(None, None, None))
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(asyncio.wait_for(work, DEADLINE))

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        **params: Any,
    ) -> httpx.Response:
        """One request; as the admin, unless another key (or None) is given."""
        return self.run(self.ask(method, path, body, key=key, headers=headers, content=content, **params))

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        **params: Any,
    ) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=URL) as client:
            return await client.request(
                method,
                API + path if _RELATIVE.match(path) else path,
                json=body if content is None else None,
                content=content,
                params=params,
                headers={**self.sign(key), PROTOCOL_HEADER: PROTOCOL, **(headers or {})},
            )

    def sign(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"Authorization": f"Bearer {key or self.key}"}

    @asynccontextmanager
    async def stream(
        self, path: str, *, key: str | None = "", headers: Mapping[str, str] | None = None, query: str = ""
    ) -> AsyncIterator[Stream]:
        """A request whose answer is read as it comes; left, the client hangs up."""
        stream = Stream()
        sent = {"host": "127.0.0.1:8700", **self.sign(key), **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": API + path,
            "raw_path": (API + path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 12345),
            "server": ("127.0.0.1", 8700),
        }
        task = asyncio.create_task(self.app(scope, stream.receive, stream.send))  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(DEADLINE):
                await stream.begun.wait()
            yield stream
        finally:
            stream.gone.set()
            async with asyncio.timeout(DEADLINE):
                await task

    # what tests begin with

    def user(self, name: str, **roles: str) -> str:
        """A further user with roles in other entities; returns the key."""
        key: str = self.call("POST", "/users", {"name": name}).raise_for_status().json()["key"]
        for entity, role in roles.items():
            self.call("PUT", f"/entities/{entity}/members/{name}", {"role": role}).raise_for_status()
        return key

    def launch(self, key: str | None = "", **asked: Any) -> dict[str, Any]:
        answer = self.call("POST", "/launches", {"command": ["sleep", "1"], **asked}, key=key)
        made: dict[str, Any] = answer.raise_for_status().json()
        return made

    def agent(self, name: str = "a1", *, key: str | None = "", queues: Sequence[str] = ("local",)) -> Agent:
        asked = {
            "name": name,
            "incarnation": f"{name}-incarnation",
            "engine": "process",
            "host": "host-1",
            "locality": "host-1",
            "version": "1",
            "max_jobs": 8,
            "total": MACHINE.__dict__,
            "queues": list(queues),
        }
        made = self.call("POST", "/agents", asked, key=key).raise_for_status().json()
        return Agent(door=self, id=made["id"], incarnation=asked["incarnation"], key=key)  # type: ignore[arg-type]


def open_door(folder: Path, **given: Any) -> Iterator[Door]:
    """For fixtures."""
    door = Door(folder, **given)
    yield door
    door.close()


@dataclass(kw_only=True)
class Agent:
    """An agent that speaks HTTP."""

    door: Door
    id: str
    incarnation: str
    key: str | None
    seq: int = 0

    def poll(self, *held: Mapping[str, Any], slots: int = 8, wait: float = 0) -> dict[str, Any]:
        answer: dict[str, Any] = self.door.run(self.poll_soon(*held, slots=slots, wait=wait))
        return answer

    async def poll_soon(self, *held: Mapping[str, Any], slots: int = 8, wait: float = 0) -> dict[str, Any]:
        body = {
            "incarnation": self.incarnation,
            "held": list(held),
            "slots": slots,
            "free": MACHINE.__dict__,
            "wait": wait,
        }
        answer = await self.door.ask("POST", f"/agents/{self.id}/poll", body, key=self.key)
        made: dict[str, Any] = answer.raise_for_status().json()
        return made

    def claim(self) -> dict[str, Any]:
        """The one run that waits."""
        claims = self.poll()["claims"]
        assert len(claims) == 1
        claim: dict[str, Any] = claims[0]
        return claim

    def report(self, claim: Mapping[str, Any], *facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self.door.run(self.report_soon(claim, *facts))

    async def report_soon(self, claim: Mapping[str, Any], *facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        reports = []
        for fact in facts:
            self.seq += 1
            reports.append({**held(claim), "seq": self.seq, "fact": dict(fact)})
        body = {"incarnation": self.incarnation, "reports": reports}
        answer = await self.door.ask("POST", f"/agents/{self.id}/reports", body, key=self.key)
        refused: list[dict[str, Any]] = answer.raise_for_status().json()["refused"]
        return refused

    def send_log(self, claim: Mapping[str, Any], offset: int, data: bytes, *, rank: int = 0) -> int | None:
        return self.door.run(self.send_log_soon(claim, offset, data, rank=rank))

    async def send_log_soon(
        self, claim: Mapping[str, Any], offset: int, data: bytes, *, rank: int = 0
    ) -> int | None:
        piece = {**held(claim), "rank": rank, "offset": offset, "length": len(data)}
        index = {"incarnation": self.incarnation, "pieces": [piece]}
        body = json.dumps(index).encode() + b"\n" + data
        answer = await self.door.ask("POST", f"/agents/{self.id}/logs", content=body, key=self.key)
        length: int | None = answer.raise_for_status().json()["lengths"][0]["length"]
        return length


def held(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {"run_id": claim["run"]["id"], "attempt": claim["attempt"], "epoch": claim["epoch"]}


def replica(state: str, rank: int = 0, **known: Any) -> dict[str, Any]:
    return {"type": "replica", "rank": rank, "state": state, **known}


@dataclass
class Stream:
    """The receiving end of server-sent events."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)  #: the server has begun to answer
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 0
    _asked: bool = False
    _text: str = ""
    _parts: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)

    async def receive(self) -> Mapping[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.begun.set()
            return
        if message.get("body"):
            self._parts.put_nowait(message["body"])
        if not message.get("more_body"):
            self._parts.put_nowait(None)

    async def next(self) -> StreamEvent:
        found = await self.next_or_end()
        assert found is not None, "the stream has ended"
        return found

    async def next_or_end(self) -> StreamEvent | None:
        """The next event; None once the answer is over. Pings are passed over."""
        while True:
            block, found, rest = self._text.partition("\r\n\r\n")
            if found:
                self._text = rest
                event = _parse(block)
                if event is not None:
                    return event
                continue
            async with asyncio.timeout(DEADLINE):
                part = await self._parts.get()
            if part is None:
                return None
            self._text += part.decode()

    async def collect(self, enough: Callable[[list[StreamEvent]], bool]) -> list[StreamEvent]:
        found: list[StreamEvent] = []
        while not enough(found):
            found.append(await self.next())
        return found


def _parse(block: str) -> StreamEvent | None:
    fields: dict[str, str] = {}
    for line in block.split("\r\n"):
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
    if "data" not in fields:
        return None
    return StreamEvent(
        event=fields.get("event", "message"), id=fields.get("id"), data=json.loads(fields["data"])
    )
