"""A server and what is started beside it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastapi.routing
import httpx
import pytest

from door import open_door
from muster.domain.errors import PortInUse
from muster.server import asgi
from muster.server.context import Context, Settings
from muster.server.serve import bind, serve
from muster.server.setup import prepare
from muster.store.database import sqlite_url


class Neighbour:
    """Asks the server for its health when it starts, and once more when it is told to stop."""

    def __init__(self, listener: socket.socket) -> None:
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/healthz"
        self.answers: list[int] = []
        self.stopped = False

    async def start(self) -> None:
        await self._ask()

    async def stop(self) -> None:
        self.stopped = True
        await self._ask()

    async def _ask(self) -> None:
        async with httpx.AsyncClient() as client:
            self.answers.append((await client.get(self.url, timeout=20)).status_code)


class Turned(Neighbour):
    """Is refused when it starts."""

    async def start(self) -> None:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1)


class Patient(Neighbour):
    """Asks nothing when it is told to stop."""

    async def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    context = Context.open(Settings(database_url=sqlite_url(tmp_path / "muster.db"), data_dir=tmp_path))
    prepare(context)
    yield context
    context.db.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind("127.0.0.1", 0) as listener:
        yield listener


def test_what_a_companion_asks_while_the_server_loads_is_answered(
    context: Context, listener: socket.socket
) -> None:
    neighbour = Neighbour(listener)
    seen: list[list[int]] = []

    def ready() -> None:
        seen.append([*neighbour.answers])
        os.kill(os.getpid(), signal.SIGTERM)

    serve(context, listener, on_ready=ready, companion=neighbour)
    assert seen == [[200]], "ready is said once the companion is"
    assert neighbour.answers == [200, 200], "it is stopped while it can still reach the server"


def test_one_of_several_servers_lets_nobody_in_before_it_can_answer(context: Context) -> None:
    """A balancer that connects to it would wait out its start."""
    with bind("127.0.0.1", 0, listen=False) as listener:
        neighbour = Turned(listener)
        serve(context, listener, on_ready=lambda: os.kill(os.getpid(), signal.SIGTERM), companion=neighbour)
    assert neighbour.answers == [200]


@pytest.mark.parametrize(("database", "is_ready"), [("postgresql", True), ("sqlite", False)])
def test_one_of_several_servers_has_its_routes_made_before_it_is_asked(
    database: str, is_ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is alone makes them as they are asked for: so it starts sooner."""
    made: list[str] = []
    make = vars(fastapi.routing)["get_dependant"]

    def counted(*, path: str, **given: Any) -> Any:
        made.append(path)
        return make(path=path, **given)

    for door in open_door(tmp_path, database=database):
        monkeypatch.setattr(fastapi.routing, "get_dependant", counted)
        for path in ("/agents", "/runs", "/queues"):
            assert door.call("GET", path).status_code == 200
    assert (made == []) is is_ready


def test_a_taken_port_is_refused_before_anything_is_started(listener: socket.socket) -> None:
    for listen in (True, False):
        with pytest.raises(PortInUse):
            bind("127.0.0.1", listener.getsockname()[1], listen=listen)


def test_a_server_that_cannot_start_stops_its_companion(
    context: Context, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(context: Context) -> None:
        raise RuntimeError("no app today")

    monkeypatch.setattr(asgi, "create_app", fail)
    neighbour = Patient(listener)
    with pytest.raises(RuntimeError, match="no app today"):
        serve(context, listener, on_ready=lambda: pytest.fail("it is not ready"), companion=neighbour)
    assert neighbour.stopped
