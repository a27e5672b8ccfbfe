"""Records what today's agent and server say to each other, for `test_protocol_1.py` to replay.

    python tests/integration/server/recordings/record.py tests/integration/server/recordings/protocol-1

Agent and server are the real ones; the engine does as it is told, and the clock is moved by hand. A
recording is made once for a protocol, when it is new, and never again: old agents do not change.

A line is one exchange, in the order in which they were answered. Lines with `user` are what people asked
meanwhile, lines with `seconds` let time pass. Ids and tokens are symbols: `{run.1}`, `{agent.1}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[3]))

import door as door_module
from door import API, URL, Door
from muster.agent import agent as agent_module
from muster.agent.agent import Agent, AgentOvertaken
from muster.agent.config import AgentConfig
from muster.client.api import AsyncClient
from muster.client.settings import ClientSettings
from muster.domain.errors import CannotPlace
from muster.domain.observation import (
    AttemptKey,
    End,
    EndSeen,
    Fact,
    Noted,
    Observation,
    Replica,
    ReplicaSeen,
    ReplicaState,
)
from muster.domain.resources import Resources
from muster.engine.port import NO_CONFIG, NO_LOGS, Device, Inventory, LogEnd, Place, Rendered, Sample
from muster.engine.process.render import render
from muster.service import sweep
from muster.wire.base import PROTOCOL_HEADER
from muster.wire.frames import header
from world import DAWN

PATIENCE = 30.0
WAIT = timedelta(seconds=0.2)  #: that polls are held for, so that a replay need not wait long


class ToldEngine:
    """An engine that does as the script says. It keeps logs, so that the agent can send them."""

    kind = "process"
    marks_logs = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: asyncio.Queue[Observation] = asyncio.Queue()
        self.room = True
        self.members: dict[AttemptKey, int] = {}
        self.found: set[AttemptKey] = set()  #: what it can adopt

    def say(self, key: AttemptKey, fact: Fact) -> None:
        self._said.put_nowait(Observation(key=key, at=DAWN, fact=fact))

    def member(self, key: AttemptKey, state: str, rank: int = 0, **known: Any) -> None:
        if ReplicaState(state).ended:
            known |= {"ended_at": DAWN, "log_bytes": self._length(key, rank)}
        known |= {"node": "host-1", "handle": "4711", "started_at": DAWN}
        self.say(key, ReplicaSeen(replica=Replica(rank=rank, state=ReplicaState(state), **known)))

    def print(self, key: AttemptKey, text: str, rank: int = 0) -> None:
        path = self.log_path(key, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(text.encode())

    def _length(self, key: AttemptKey, rank: int) -> int:
        path = self.log_path(key, rank)
        return path.stat().st_size if path.exists() else 0

    async def inventory(self) -> Inventory:
        gpu = Device(uuid="GPU-1", index=0, name="Some GPU", memory=8 * 2**30)
        return Inventory(host="host-1", locality="locality-1", total=await self.free(), devices=(gpu,))

    async def cluster(self) -> None:
        return None

    async def free(self) -> Resources:
        return Resources(millicpus=8000, memory=64 * 2**30, gpus=1)

    async def check(self, rendered: Rendered) -> None:
        return None

    async def submit(self, rendered: Rendered, place: Place) -> None:
        if not self.room:
            raise CannotPlace("All GPUs are taken.")
        self.members[rendered.key] = rendered.replicas
        for rank in range(rendered.replicas):
            self.member(rendered.key, "running", rank)

    async def observe(self) -> AsyncIterator[Observation]:
        while True:
            yield await self._said.get()

    def log_length(self, key: AttemptKey, rank: int) -> None:
        return None

    def log_mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        return None

    async def adopt(
        self,
        key: AttemptKey,
        epoch: int,
        logs: Mapping[int, LogEnd] = NO_LOGS,
        config: Mapping[str, Any] = NO_CONFIG,
    ) -> bool:
        if key in self.found:
            self.members[key] = 1
            self.member(key, "running")
        return key in self.found

    async def stop(self, key: AttemptKey) -> None:
        for rank in range(self.members[key]):
            self.member(key, "stopped", rank, signal=15)

    async def forget(self, key: AttemptKey) -> None:
        return None

    async def usage(self) -> list[Sample]:
        numbers = {"cpu": 0.5, "memory": 2**20, "gpu": 0.25, "gpu_memory": 2**30, "disk_read": 1}
        return [Sample(key=key, rank=0, at=1.0, **numbers) for key in self.members]  # type: ignore[arg-type]

    def log_path(self, key: AttemptKey, rank: int) -> Path:
        return self._folder / key.run_id / str(key.attempt) / str(rank)

    async def clean(self, key: AttemptKey) -> None:
        self.members.pop(key, None)

    async def leftovers(self) -> list[AttemptKey]:
        return sorted(self.found - set(self.members))

    async def discard(self, key: AttemptKey) -> None:
        self.found.discard(key)

    def error_files(self, key: AttemptKey, rank: int) -> list[Path]:
        return []

    async def close(self) -> None:
        return None


class Recorder(httpx.AsyncBaseTransport):
    """Takes down what one agent says and hears. Its gate can be shut, as a cut cable would."""

    def __init__(self, inner: httpx.AsyncBaseTransport, lines: list[dict[str, Any]]) -> None:
        self._inner = inner
        self._lines = lines
        self._open = asyncio.Event()
        self._open.set()
        self._under_way: set[asyncio.Task[httpx.Response]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self._open.wait()
        body = await request.aread()
        response = await asyncio.shield(self._serve(request))  # a server goes on when its caller is gone
        content = await response.aread()
        kept = {
            name: request.headers[name]
            for name in ("content-type", PROTOCOL_HEADER)
            if name in request.headers
        }
        self._lines.append(
            {
                "agent": request.method,
                "path": request.url.raw_path.decode().removeprefix(API),
                "headers": kept,
                "body": body.decode(),
                "status": response.status_code,
                "answer": _readable(response, content),
            }
        )
        return httpx.Response(
            response.status_code, headers=response.headers, content=content, request=request
        )

    def _serve(self, request: httpx.Request) -> asyncio.Task[httpx.Response]:
        task = asyncio.create_task(self._inner.handle_async_request(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def idle(self) -> None:
        await until(lambda: not self._under_way)

    async def shut(self) -> None:
        self._open.clear()
        await self.idle()

    def open(self) -> None:
        self._open.set()


def _readable(response: httpx.Response, content: bytes) -> Any:
    kind = response.headers.get("content-type", "")
    return json.loads(content) if kind.endswith("json") else None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - it looks at a tape that others write
            await asyncio.sleep(0.005)


@dataclass
class Stage:
    """A server, the agents on it, and the tape."""

    door: Door
    folder: Path
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def user(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> Any:
        answer = (await self.door.ask(method, path, body, content=content)).raise_for_status()
        said = content.decode() if content is not None else json.dumps(body) if body is not None else ""
        made = answer.json()
        self.lines.append({"user": method, "path": path, "body": said, "answer": made})
        return made

    async def launch(self, **asked: Any) -> AttemptKey:
        made = await self.user("POST", "/launches", {"command": ["train"], **asked})
        return AttemptKey(run_id=made["id"], attempt=1)

    async def pass_time(self, seconds: float) -> None:
        self.door.clock.advance(seconds)
        now = self.door.clock.now()
        await self.door.context.db.write(lambda tx: sweep.sweep(tx, now=now))
        self.lines.append({"seconds": seconds})

    async def reached(self, key: AttemptKey, *states: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                run = (await self.door.ask("GET", f"/runs/{key.run_id}")).json()
                if run["state"] in states and run["attempt"] >= key.attempt:
                    return
                await asyncio.sleep(0.005)

    def heard(self, part: str, count: int = 1) -> Callable[[], bool]:
        """Did an agent say, or hear, this?"""
        return lambda: sum(part in json.dumps(line) for line in self.lines if "agent" in line) >= count

    def agent(self, name: str = "agent-1") -> Hand:
        settings = ClientSettings(url=URL, api_key=self.door.key)
        client = AsyncClient(settings=settings)
        recorder = Recorder(httpx.ASGITransport(self.door.app), self.lines)
        client._transport._http = httpx.AsyncClient(
            transport=recorder,
            base_url=f"{URL}{API}",
            headers={"Authorization": f"Bearer {self.door.key}"},
        )
        config = AgentConfig(data_dir=self.folder / name, name=name, max_jobs=4)
        return Hand(client, ToldEngine(self.folder / "logs"), config, recorder)


class Hand:
    """One agent that runs."""

    def __init__(
        self, client: AsyncClient, engine: ToldEngine, config: AgentConfig, recorder: Recorder
    ) -> None:
        self.engine, self.recorder, self._client = engine, recorder, client
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        agent = Agent(config, client, engine, render)
        self._task = asyncio.create_task(agent.run(self._stop, on_ready=lambda _: self._ready.set()))

    async def ready(self) -> Hand:
        await asyncio.wait_for(self._ready.wait(), PATIENCE)
        return self

    async def leave(self) -> None:
        self._stop.set()
        await self._task
        await self.recorder.idle()
        await self._client.close()

    async def overtaken(self) -> None:
        try:
            await asyncio.wait_for(self._task, PATIENCE)
        except AgentOvertaken:
            await self._client.close()


# --- the scenes ------------------------------------------------------------------------------------


async def a_run_to_its_end(stage: Stage) -> None:
    hand = await stage.agent().ready()
    key = await stage.launch(name="first", env={"A": "1"}, config={"lr": 0.1}, training={"nodes": 2})
    await stage.reached(key, "running")
    hand.engine.print(key, "epoch 1\n")
    hand.engine.print(key, "epoch 1\n", 1)
    hand.engine.say(key, Noted(message="A warning from the engine.", level="warning"))
    await until(stage.heard("/usage"))
    hand.engine.print(key, "done\n")
    hand.engine.member(key, "succeeded", 1, exit_code=0)
    hand.engine.member(key, "succeeded", 0, exit_code=0)
    await stage.reached(key, "succeeded")
    await hand.leave()


async def a_run_that_fails(stage: Stage) -> None:
    hand = await stage.agent().ready()
    key = await stage.launch()
    await stage.reached(key, "running")
    hand.engine.print(key, "Traceback (most recent call last):\nValueError: no such column\n")
    hand.engine.member(key, "failed", exit_code=1, reason="exit status 1")
    await stage.reached(key, "failed")
    await hand.leave()


async def a_run_with_code(stage: Stage) -> None:
    text = b"print(1)\n"
    sha256 = hashlib.sha256(text).hexdigest()
    file = {"path": "train.py", "mode": 0o644, "size": len(text), "sha256": sha256}
    made = await stage.user("POST", "/snapshots", {"manifest": {"files": [file]}})
    frames = header(sha256, len(text)) + text
    await stage.user("POST", f"/snapshots/{made['id']}/blobs", content=frames)
    hand = await stage.agent().ready()
    key = await stage.launch(command=["train.py"], snapshot=made["id"])
    await stage.reached(key, "running")
    hand.engine.member(key, "succeeded", exit_code=0)
    await stage.reached(key, "succeeded")
    await hand.leave()


async def a_run_that_is_stopped(stage: Stage) -> None:
    hand = await stage.agent().ready()
    key = await stage.launch()
    await stage.reached(key, "running")
    await stage.user("POST", f"/runs/{key.run_id}/stop")
    await stage.reached(key, "stopped")
    await hand.leave()


async def a_run_that_never_starts(stage: Stage) -> None:
    hand = await stage.agent().ready()
    hand.engine.room = False
    key = await stage.launch()
    await stage.reached(key, "pending")
    await stage.user("POST", f"/runs/{key.run_id}/stop")
    await stage.reached(key, "stopped")
    await hand.leave()


async def a_run_that_is_preempted_and_lost(stage: Stage) -> None:
    hand = await stage.agent().ready()
    key = await stage.launch()
    await stage.reached(key, "running")
    hand.engine.say(key, EndSeen(end=End.PREEMPTED, reason="Somebody more important came."))
    again = AttemptKey(run_id=key.run_id, attempt=2)
    await stage.reached(again, "running")
    hand.engine.say(again, EndSeen(end=End.LOST, reason="Its node is gone."))
    last = AttemptKey(run_id=key.run_id, attempt=3)
    await stage.reached(last, "running")
    hand.engine.member(last, "lost", reason="No trace of it.")
    await stage.reached(AttemptKey(run_id=key.run_id, attempt=4), "running")
    await hand.leave()


async def an_agent_that_is_started_again(stage: Stage) -> None:
    """The first one leaves, its run goes on, the next one adopts it."""
    first = await stage.agent().ready()
    key = await stage.launch()
    await stage.reached(key, "running")
    first.engine.print(key, "hello\n")
    await until(stage.heard("/logs"))
    await first.leave()
    second = stage.agent()
    second.engine.found.add(key)
    second.engine.print(key, "still here\n")
    await second.ready()
    await until(stage.heard('"adopt": true'))
    second.engine.member(key, "succeeded", exit_code=0)
    await stage.reached(key, "succeeded")
    await second.leave()


async def an_agent_that_was_cut_off(stage: Stage) -> None:
    """Its lease runs out, a neighbour takes the run over, and what it says then is refused."""
    first = await stage.agent("agent-1").ready()
    key = await stage.launch()
    await stage.reached(key, "running")
    first.engine.print(key, "hello\n")
    await until(stage.heard("/logs"))
    await first.recorder.shut()
    first.engine.say(key, Noted(message="Said too late."))
    first.engine.print(key, "printed too late\n")
    second = stage.agent("agent-2")
    second.engine.found.add(key)
    await stage.pass_time(20)
    await second.ready()
    await until(stage.heard('"adopt": true'))
    first.recorder.open()
    await until(stage.heard('"stale"'))
    await first.leave()
    second.engine.member(key, "succeeded", exit_code=0)
    await stage.reached(key, "succeeded")
    await second.leave()


async def an_agent_whose_name_was_taken(stage: Stage) -> None:
    first = await stage.agent().ready()
    second = await stage.agent().ready()
    await first.overtaken()
    await second.leave()


SCENES: tuple[Callable[[Stage], Awaitable[None]], ...] = (
    a_run_to_its_end,
    a_run_that_fails,
    a_run_with_code,
    a_run_that_is_stopped,
    a_run_that_never_starts,
    a_run_that_is_preempted_and_lost,
    an_agent_that_is_started_again,
    an_agent_that_was_cut_off,
    an_agent_whose_name_was_taken,
)


# --- the tape --------------------------------------------------------------------------------------


def symbols(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Value → symbol, for all that another server would have chosen otherwise."""
    found: dict[str, str] = {}

    def name(kind: str, value: str) -> None:
        found.setdefault(value, f"{{{kind}.{sum(s.startswith('{' + kind) for s in found.values()) + 1}}}")

    for line in lines:
        answer = line.get("answer")
        if not isinstance(answer, dict):
            continue
        if "user" in line and line["path"] == "/launches":
            name("run", answer["id"])
        if line.get("agent") == "POST" and line["path"] == "/agents":
            name("agent", answer["id"])
        for claim in answer.get("claims", ()):
            name("token", claim["token"])
    return found


def tape(lines: list[dict[str, Any]]) -> str:
    known = symbols(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    for value, symbol in sorted(known.items(), key=lambda item: -len(item[0])):
        text = text.replace(value, symbol)
    return re.sub(r'\\"epoch\\":(\d+)', r'\\"epoch\\":{epoch.\1}', text)


async def played(scene: Callable[[Stage], Awaitable[None]], stage: Stage) -> None:
    """The scene, and how its runs stand in the end."""
    await scene(stage)
    for line in [line for line in stage.lines if line.get("path") == "/launches"]:
        for part in ("", "/replicas"):
            await stage.user("GET", f"/runs/{line['answer']['id']}{part}")


def record(scene: Callable[[Stage], Awaitable[None]], target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        door = Door(folder)
        stage = Stage(door=door, folder=folder)
        door.run(played(scene, stage))
        door.close()
        made = tape(stage.lines)
        assert name not in made, "a path of this machine is in the recording"
        file = target / f"{scene.__name__.replace('_', '-')}.jsonl"
        file.write_text(made)
        print(f"{file.name}: {len(stage.lines)} lines")


def main(target: Path) -> None:
    agent_module.RENEW_EVERY = WAIT  # type: ignore[attr-defined] # it is imported there
    door_module.DEADLINE = 2 * PATIENCE
    agent_module.USAGE_FIRST = agent_module.USAGE_EVERY = 0.05
    target.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        record(scene, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
