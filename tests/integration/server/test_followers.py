"""Many who follow one log: what is common to them is done once, and none depends on another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from door import Agent, Door, Stream, open_door, replica
from muster.server import eventstream, logshare
from muster.server.eventstream import PING
from muster.server.logshare import LogShare, Piece
from muster.server.routes import streams
from muster.service.bus import run_topic
from muster.store.logs import LogKey
from muster.wire.runs import LogChunk


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


class Printing:
    """A run whose output is sent by hand."""

    def __init__(self, door: Door, *, nodes: int = 1) -> None:
        self.id: str = door.launch(training={"nodes": nodes})["id"]
        self.path = f"/runs/{self.id}/logs/stream"
        self.agent: Agent = door.agent()
        self.claim = self.agent.claim()
        self.agent.report(self.claim, *(replica("running", rank) for rank in range(nodes)))
        self.sent = 0

    async def say(self, text: bytes) -> None:
        self.sent += len(text)
        assert await self.agent.send_log_soon(self.claim, self.sent - len(text), text) == self.sent

    async def end(self) -> None:
        await self.agent.report_soon(self.claim, replica("succeeded", log_bytes=self.sent))


class Reads:
    """Counts reads of log files that go on to happen."""

    def __init__(self, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[int] = []
        read = door.context.logs.read

        def counting(key: LogKey, offset: int, limit: int) -> bytes:
            self.places.append(offset)
            return read(key, offset, limit)

        monkeypatch.setattr(door.context.logs, "read", counting)


def test_what_is_read_for_one_serves_all(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Printing(door)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            followers = [await stack.enter_async_context(door.stream(run.path)) for _ in range(20)]
            await run.say(b"first\n")
            assert await texts(followers) == ["first\n"] * 20
            reads = Reads(door, monkeypatch)
            await run.say(b"second\n")
            assert await texts(followers) == ["second\n"] * 20
            assert len(reads.places) < 4, "not one for each of them"
            await run.end()
            assert {(await follower.next()).event for follower in followers} == {"end"}

    door.run(scene())


async def texts(followers: list[Stream]) -> list[str]:
    return [(await follower.next()).data["text"] for follower in followers]


def test_the_state_of_the_run_is_not_read_for_every_line(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Printing(door)
    monkeypatch.setattr(logshare, "_VIEW_SECONDS", 3600.0)
    looks: list[str] = []
    look = logshare._look

    def counting(conn: Any, run_id: str, since: int) -> Any:
        looks.append(run_id)
        return look(conn, run_id, since)

    monkeypatch.setattr(logshare, "_look", counting)

    async def scene() -> None:
        async with door.stream(run.path) as one, door.stream(run.path) as other:
            for number in range(5):
                await run.say(b"%d\n" % number)
                assert await texts([one, other]) == [f"{number}\n"] * 2
            assert looks == [run.id]
            await run.end()
            assert ((await one.next()).event, (await other.next()).event) == ("end", "end")
            assert looks == [run.id] * 2

    door.run(scene())


def test_one_that_floods_keeps_no_other_waiting(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logshare, "CHUNK", 4)
    run = Printing(door, nodes=2)
    run.agent.send_log(run.claim, 0, b"0" * 40)
    run.agent.send_log(run.claim, 0, b"1" * 4, rank=1)

    async def scene() -> None:
        async with door.stream(run.path) as stream:
            events = [await stream.next() for _ in range(11)]
            assert [event.data["rank"] for event in events] == [0, 1] + [0] * 9

    door.run(scene())


def test_only_the_newest_pieces_are_kept_in_memory(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    key = LogKey(run_id="a123456789", attempt=1, rank=0)
    door.context.logs.write(key, 0, b"x" * 100, at_micros=0)
    monkeypatch.setattr(logshare, "CHUNK", 10)
    share = LogShare(door.context.db, door.context.bus, door.context.logs, kept=300)
    reads = Reads(door, monkeypatch)

    async def scene() -> None:
        with share.watch(key.run_id), share.watch(key.run_id):
            for offset in range(0, 100, 10):
                piece = await share.piece(key, offset, whole=None)
                assert isinstance(piece, Piece)
                assert (piece.end, len(piece.event) < 100) == (offset + 10, True)
            reads.places.clear()
            await share.piece(key, 90, whole=None)
            assert reads.places == [], "the newest is there"
            await share.piece(key, 0, whole=None)
            assert reads.places == [0], "the oldest is read from the file"

    door.run(scene())


def test_who_hangs_up_during_a_read_takes_it_from_nobody(door: Door) -> None:
    key = LogKey(run_id="a123456789", attempt=1, rank=0)
    door.context.logs.write(key, 0, b"for all\n", at_micros=0)

    async def scene() -> None:
        share = door.context.log_share
        first = asyncio.create_task(share.piece(key, 0, whole=None))
        second = asyncio.create_task(share.piece(key, 0, whole=None))
        await asyncio.sleep(0)
        first.cancel()
        piece = await second
        assert piece is not None
        assert b"for all" in piece.event
        assert first.cancelled()

    door.run(scene())


def test_a_revoked_key_ends_a_followed_log(door: Door) -> None:
    run = Printing(door)
    made = door.call("POST", "/keys", {"label": "laptop"}).json()

    async def scene() -> None:
        async with door.stream(run.path, key=made["key"]) as stream:
            await run.say(b"seen\n")
            assert (await stream.next()).data["text"] == "seen\n"
            await door.ask("DELETE", f"/keys/{made['id']}")
            last = await stream.next()
            assert (last.event, last.data["status"]) == ("error", 401)
            assert await stream.next_or_end() is None

    door.run(scene())


def test_who_leaves_the_entity_sees_no_more_of_its_logs(door: Door) -> None:
    run = Printing(door)
    eve = door.user("eve", ann="viewer")

    async def scene() -> None:
        async with door.stream(run.path, key=eve) as stream:
            await run.say(b"seen\n")
            assert (await stream.next()).data["text"] == "seen\n"
            await door.ask("DELETE", "/entities/ann/members/eve")
            await run.say(b"not for her\n")
            last = await stream.next()
            assert (last.event, last.data["status"]) == ("error", 404)
            assert await stream.next_or_end() is None

    door.run(scene())


def test_a_key_that_expires_ends_a_followed_log(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit tells of it: it is found out at the next look that is due anyway."""
    run = Printing(door)
    made = door.call("POST", "/keys", {"label": "for a day", "days": 1}).json()
    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    monkeypatch.setattr("muster.server.auth._REMEMBER", 0.0)

    async def scene() -> None:
        async with door.stream(run.path, key=made["key"]) as stream:
            await run.say(b"seen\n")
            assert (await stream.next()).data["text"] == "seen\n"
            door.clock.advance(timedelta(days=2))
            assert (await stream.next()).data["status"] == 401

    door.run(scene())


def test_a_silent_log_is_pinged(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Printing(door)
    monkeypatch.setattr(streams, "PING_SECONDS", 0.01)
    monkeypatch.setattr(eventstream, "PING_SECONDS", 0.01)

    async def scene() -> None:
        async with door.stream(run.path) as stream:
            assert await stream._parts.get() == PING
            await run.say(b"then\n")
            assert (await stream.next()).data["text"] == "then\n"

    door.run(scene())


@pytest.mark.parametrize("of", ["a log", "a run's events"])
def test_a_stream_is_pinged_though_it_is_woken_all_the_time(
    door: Door, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """By something it has nothing to say of: notes of a long preparation, events of other runs."""
    run = Printing(door)
    other = door.launch()["id"]
    path, query = (run.path, "") if of == "a log" else ("/events", f"run={other}")
    monkeypatch.setattr(eventstream, "PING_SECONDS", 0.2)  # the look itself stays at 15 s: notes must wake it

    async def scene() -> None:
        async with door.stream(path, query=query) as stream:
            pinged = asyncio.create_task(stream._parts.get())
            for number in range(1000):
                if pinged.done():
                    break
                await run.agent.report_soon(run.claim, {"type": "note", "message": f"package {number}"})
                door.context.bus.publish([run_topic(other)])
            assert await pinged == PING

    door.run(scene())


def test_followers_that_hang_up_leave_nothing_behind(door: Door) -> None:
    run = Printing(door)

    async def scene() -> None:
        async with door.stream(run.path) as one, door.stream(run.path):
            await run.say(b"seen\n")
            await one.next()
        assert not [topic for topic in door.context.bus._waiting if run.id in topic]
        assert door.context.log_share._watches == {}

    door.run(scene())


def test_a_closing_server_ends_followed_logs(door: Door) -> None:
    run = Printing(door)

    async def scene() -> None:
        async with door.stream(run.path) as stream:
            await run.say(b"seen\n")
            await stream.next()
            door.context.begin_closing()
            assert await stream.next_or_end() is None

    door.run(scene())


@given(
    raw=st.lists(st.one_of(st.binary(max_size=4), st.text(max_size=3).map(str.encode))).map(b"".join),
    cuts=st.lists(st.integers(1, 9), min_size=1),
    chunk=st.integers(4, 16),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_it_is_cut_the_text_is_that_of_the_whole(
    house: Door, raw: bytes, cuts: list[int], chunk: int
) -> None:
    """Also where it is no text at all."""
    context, key = house.context, LogKey(run_id="b123456789", attempt=1, rank=0)
    context.logs.remove_run(key.run_id)

    async def scene() -> None:
        share = LogShare(context.db, context.bus, context.logs)
        found, at, written = b"", 0, 0
        while written < len(raw):
            for size in cuts:
                context.logs.write(key, written, raw[written : written + size], at_micros=0)
                written = context.logs.length(key)
                whole = len(raw) if written == len(raw) else None
                while piece := await share.piece(key, at, whole=whole):
                    found += piece.event
                    at = piece.end
        assert at == len(raw)
        events = [part for part in found.split(b"\r\n") if part.startswith(b"data: ")]
        chunks = [LogChunk.model_validate_json(part.removeprefix(b"data: ")) for part in events]
        assert "".join(item.text for item in chunks) == raw.decode("utf-8", "replace")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logshare, "CHUNK", chunk)
        house.run(scene())
