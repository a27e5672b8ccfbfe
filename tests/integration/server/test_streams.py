"""Following events and logs, from where one was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from door import Door, StreamEvent, open_door, replica
from muster.server.logshare import whole_text


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


# --- events ----------------------------------------------------------------------------------------


def test_events_come_as_they_happen_and_go_on_from_the_last_one_received(door: Door) -> None:
    async def scene() -> None:
        async with door.stream("/events") as stream:
            first = await launch(door)
            event = await stream.next()
            assert (event.event, event.data["run_id"], event.data["data"]["to"]) == ("state", first, "queued")
        second, third = await launch(door), await launch(door)
        async with door.stream("/events", headers={"Last-Event-ID": str(event.id)}) as stream:
            missed = [await stream.next(), await stream.next()]
            assert [item.data["run_id"] for item in missed] == [second, third]
            fourth = await launch(door)
            assert (await stream.next()).data["run_id"] == fourth

    door.run(scene())


async def launch(door: Door, **asked: Any) -> str:
    answer = await door.ask("POST", "/launches", {"command": ["true"], **asked})
    run_id: str = answer.json()["id"]
    return run_id


def test_events_of_one_run_are_of_that_run(door: Door) -> None:
    async def scene() -> None:
        mine, other = await launch(door), await launch(door)
        async with door.stream("/events", query=f"run={mine}", headers={"Last-Event-ID": "0"}) as stream:
            assert (await stream.next()).data["run_id"] == mine
            await door.ask("POST", f"/runs/{other}/stop")
            await door.ask("POST", f"/runs/{mine}/stop")
            events = await stream.collect(lambda found: len(found) == 2)
            assert {event.data["run_id"] for event in events} == {mine}

    door.run(scene())


def test_who_wants_to_know_is_told_when_queues_or_agents_change(door: Door) -> None:
    agent = {"name": "a1", "incarnation": "a1-incarnation", "engine": "process", "host": "h", "locality": "l"}
    size = {"version": "1", "max_jobs": 1, "total": {"millicpus": 8000}, "queues": ["local"]}

    async def scene() -> None:
        async with (
            door.stream("/events", query="places=true") as stream,
            door.stream("/events") as other,
        ):
            for method, path, body in (
                ("POST", "/queues/local/pause", None),
                ("POST", "/queues", {"name": "lab", "config": {}}),
                ("DELETE", "/queues/lab", None),
                ("POST", "/agents", {**agent, **size}),
                ("POST", "/agents/a1/pause", None),
            ):
                (await door.ask(method, path, body)).raise_for_status()
                event = await stream.next()
                assert (event.event, event.id, event.data) == ("places", None, {})
            run = await launch(door)
            assert (await stream.next()).data["run_id"] == run
            assert (await other.next()).data["run_id"] == run, "who did not ask hears of runs alone"

    door.run(scene())


def test_a_deleted_run_lets_lists_be_read_again(door: Door) -> None:
    async def scene() -> None:
        run = await launch(door)
        (await door.ask("POST", f"/runs/{run}/stop")).raise_for_status()
        async with door.stream("/events", query="places=true") as stream:
            (await door.ask("DELETE", f"/runs/{run}")).raise_for_status()
            event = await stream.next()
            assert (event.event, event.id, event.data) == ("resync", None, {})

    door.run(scene())


def test_events_of_others_are_not_seen(door: Door) -> None:
    eve = door.user("eve", ann="viewer")
    mallory = door.user("mallory")
    door.call("POST", "/queues", {"name": "local", "config": {}}, key=mallory).raise_for_status()

    async def scene() -> None:
        async with door.stream("/events", key=mallory) as stream:
            await launch(door)
            answer = await door.ask("POST", "/launches", {"command": ["true"]}, key=mallory)
            assert (await stream.next()).data["run_id"] == answer.json()["id"]
        async with door.stream("/events", key=eve) as stream:
            seen = await launch(door)
            assert (await stream.next()).data["run_id"] == seen

    door.run(scene())


def test_an_id_from_another_database_is_answered_with_resync(door: Door) -> None:
    async def scene() -> None:
        async with door.stream("/events", headers={"Last-Event-ID": "999999"}) as stream:
            assert (await stream.next()).event == "resync"
            run_id = await launch(door)
            assert (await stream.next()).data["run_id"] == run_id

    door.run(scene())


def test_a_revoked_key_ends_its_streams(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "laptop"}).json()

    async def scene() -> None:
        async with door.stream("/events", key=made["key"]) as stream:
            await launch(door)
            await stream.next()
            await door.ask("DELETE", f"/keys/{made['id']}")
            last = await stream.next()
            assert (last.event, last.data["status"]) == ("error", 401)
            assert await stream.next_or_end() is None

    door.run(scene())


def test_a_closing_server_ends_its_streams(door: Door) -> None:
    async def scene() -> None:
        async with door.stream("/events") as stream:
            await launch(door)
            await stream.next()
            door.context.begin_closing()
            assert await stream.next_or_end() is None

    door.run(scene())


def test_a_follower_that_hangs_up_leaves_nothing_behind(door: Door) -> None:
    async def scene() -> None:
        async with door.stream("/events") as stream:
            await launch(door)
            await stream.next()
        assert "events" not in door.context.bus._waiting

    door.run(scene())


# --- logs ------------------------------------------------------------------------------------------

TEXT = "Grüße, 世界 🚀!\n" * 5


def test_a_log_comes_back_as_it_was_sent_however_it_was_cut(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"))
    raw = TEXT.encode()
    for offset in range(0, len(raw), 3):
        assert agent.send_log(claim, offset, raw[offset : offset + 3]) == min(offset + 3, len(raw))
    assert agent.send_log(claim, 0, raw[:10]) == len(raw), "a resend is harmless"
    assert agent.send_log(claim, len(raw) + 5, b"gap") == len(raw), "a gap is not taken"
    answer = door.call("GET", f"/runs/{run['id']}/logs")
    assert answer.content == raw
    assert answer.headers["muster-log-length"] == str(len(raw))
    part = door.call("GET", f"/runs/{run['id']}/logs", offset=5, limit=7)
    assert part.content == raw[5:12]


def test_a_log_is_followed_while_it_grows_with_characters_cut_in_two(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"))
    raw = TEXT.encode()

    async def scene() -> None:
        async with door.stream(f"/runs/{run['id']}/logs/stream") as stream:
            got: list[StreamEvent] = []
            for offset in range(0, len(raw), 7):
                await agent.send_log_soon(claim, offset, raw[offset : offset + 7])
                if offset % 21 == 0:
                    got.append(await stream.next())
            await agent.report_soon(claim, replica("succeeded", log_bytes=len(raw)))
            while (event := await stream.next()).event == "log":
                got.append(event)
            assert event.data == {"state": "succeeded"}
            assert "".join(item.data["text"] for item in got) == TEXT
            place = 0
            for item in got:
                assert item.data["offset"] == place
                place += len(item.data["text"].encode())

    door.run(scene())


def test_a_log_is_gone_on_with_from_the_last_event_received(door: Door) -> None:
    run = door.launch(training={"nodes": 2})
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"), replica("running", 1))
    agent.send_log(claim, 0, b"zero\n")
    agent.send_log(claim, 0, b"one\n", rank=1)
    path = f"/runs/{run['id']}/logs/stream"

    async def scene() -> None:
        async with door.stream(path) as stream:
            first = await stream.next()
            assert (first.data["rank"], first.data["text"]) == (0, "zero\n")
        await agent.send_log_soon(claim, 5, b"more\n")
        done = [replica("succeeded", rank, log_bytes=size) for rank, size in ((0, 10), (1, 4))]
        await agent.report_soon(claim, *done)
        async with door.stream(path, headers={"Last-Event-ID": first.id or ""}) as stream:
            rest = await stream.collect(lambda found: bool(found) and found[-1].event == "end")
            texts = {(item.data["rank"], item.data["text"]) for item in rest[:-1]}
            assert texts == {(0, "more\n"), (1, "one\n")}

    door.run(scene())


def test_the_logs_of_a_second_attempt_follow_those_of_the_first(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"))
    agent.send_log(claim, 0, b"first\n")

    async def scene() -> None:
        async with door.stream(f"/runs/{run['id']}/logs/stream") as stream:
            assert (await stream.next()).data["text"] == "first\n"
            await agent.report_soon(claim, {"type": "end", "end": "preempted"})
            again = (await agent.poll_soon())["claims"][0]
            await agent.report_soon(again, replica("running"))
            await agent.send_log_soon(again, 0, b"second\n")
            event = await stream.next()
            assert (event.data["attempt"], event.data["text"]) == (2, "second\n")

    door.run(scene())


def test_a_tail_starts_near_the_end(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.send_log(claim, 0, b"0123456789")
    agent.report(claim, replica("succeeded", log_bytes=10))
    answer = door.call("GET", f"/runs/{run['id']}/logs/stream", tail=4)
    assert '"text":"6789"' in answer.text


def test_output_that_is_no_text_comes_through(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    raw = bytes(range(256)) + b"\xf0\x9f"
    agent.send_log(claim, 0, raw)
    agent.report(claim, replica("succeeded", log_bytes=len(raw)))
    assert door.call("GET", f"/runs/{run['id']}/logs").content == raw
    answer = door.call("GET", f"/runs/{run['id']}/logs/stream")
    assert answer.text.rstrip().endswith('{"state":"succeeded"}')


def test_a_log_of_a_run_that_never_started_ends_at_once(door: Door) -> None:
    run = door.launch()
    door.call("POST", f"/runs/{run['id']}/stop")
    answer = door.call("GET", f"/runs/{run['id']}/logs/stream")
    assert 'data: {"state":"stopped"}' in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no newline",
        b"{}\n",
        b"not json\n",
        b'{"incarnation":"a1-incarnation","pieces":[{"run_id":"a"}]}\n',
        b'{"incarnation":"a1-incarnation","pieces":[]}\nbytes too many',
    ],
)
def test_an_upload_that_cannot_be_read_is_refused(door: Door, body: bytes) -> None:
    agent = door.agent()
    answer = door.call("POST", f"/agents/{agent.id}/logs", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")


@pytest.mark.parametrize("run_id", ["../../etc", "/etc/passwd", "a" * 300, "..", "\x00", "ABCDEFGHIJ"])
def test_no_path_from_an_agent_reaches_the_file_system(door: Door, run_id: str) -> None:
    agent = door.agent()
    claim = {"run": {"id": run_id}, "attempt": 1, "epoch": 1}
    before = sorted(door.context.settings.data_dir.rglob("*"))
    assert agent.send_log(claim, 0, b"x") is None
    assert sorted(door.context.settings.data_dir.rglob("*")) == before


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", b""),
        (b"abc", b"abc"),
        ("ü".encode(), "ü".encode()),
        ("ü".encode()[:1], b""),
        ("a世".encode()[:3], b"a"),
        ("a世".encode(), "a世".encode()),
        ("a🚀".encode()[:4], b"a"),
        ("🚀".encode(), "🚀".encode()),
        (b"\x80\x80\x80\x80\x80", b"\x80\x80\x80\x80\x80"),
        (b"a\xff", b"a"),
    ],
)
def test_only_whole_characters_are_sent(data: bytes, whole: bytes) -> None:
    assert whole_text(data) == whole
