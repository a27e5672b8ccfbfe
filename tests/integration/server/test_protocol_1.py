"""Agents that speak protocol 1 keep working: what they once said and heard is said again to today's server.

The recordings (see `recordings/record.py`) are what such agents really sent, byte for byte. The server must
take all of it, and answer with every field that was there then, of the same type. It may add fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from door import Door, open_door
from muster.service import sweep
from muster.wire.base import PROTOCOL_HEADER

RECORDINGS = sorted((Path(__file__).parent / "recordings" / "protocol-1").glob("*.jsonl"))
_SYMBOL = re.compile(r"\{(?:run|agent|token|epoch)\.\d+\}")
#: Fields whose very value an agent acts upon.
MEANT = frozenset(
    "state attempt adopt report_seq reason rank length code nodes kind exit_code signal".split()
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


@dataclass
class Replay:
    """Says what was recorded, with today's ids in place of those of then."""

    door: Door
    bound: dict[str, str] = field(default_factory=dict)  #: symbol → what it stands for today

    def play(self, line: dict[str, Any]) -> None:
        if "seconds" in line:
            self.door.clock.advance(line["seconds"])
            now = self.door.clock.now()
            self.door.context.db.write_now(lambda tx: sweep.sweep(tx, now=now))
            return
        method = line.get("agent") or line["user"]
        answer = self._send(method, line)
        where = f"{method} {line['path']}"
        assert answer.status_code == line.get("status", answer.status_code), (where, answer.text)
        assert not answer.is_error or "status" in line, (where, answer.text)
        if line["answer"] is not None:
            self._compare(line["answer"], answer.json(), where)

    def _send(self, method: str, line: dict[str, Any]) -> httpx.Response:
        headers = line.get("headers") or {"content-type": "application/json"}
        content = self._said(self._filled(line["body"]), headers)
        return self.door.run(self._ask(method, self._filled(line["path"]), content.encode(), headers))

    def _said(self, body: str, headers: dict[str, str]) -> str:
        return body

    async def _ask(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        """Exactly these headers: what was not sent then is not sent now."""
        transport = httpx.ASGITransport(self.door.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8700/api/v1") as client:
            signed = {**headers, **self.door.sign("")}
            return await client.request(method, path, content=content, headers=signed)

    def _filled(self, text: str) -> str:
        return _SYMBOL.sub(lambda match: self.bound[match[0]], text)

    def _compare(self, then: Any, now: Any, where: str) -> None:
        match then:
            case None:
                return
            case dict():
                assert isinstance(now, dict), where
                assert then.keys() <= now.keys(), f"{where} has lost {then.keys() - now.keys()}"
                for name, value in then.items():
                    self._compare_field(name, value, now[name], f"{where}.{name}")
            case list():
                assert isinstance(now, list), where
                assert len(now) == len(then), (where, now)
                for number, (old, new) in enumerate(zip(then, now, strict=True)):
                    self._compare(old, new, f"{where}[{number}]")
            case str() if _SYMBOL.fullmatch(then):
                assert self.bound.setdefault(then, now) == now, where
            case _:
                assert type(now) is type(then), f"{where} was {then!r} and is {now!r}"

    def _compare_field(self, name: str, then: Any, now: Any, where: str) -> None:
        if name == "epoch":
            then = f"{{epoch.{then}}}"
            assert type(now) is int, where
            assert self.bound.setdefault(then, str(now)) == str(now), where
            return
        if name in MEANT and not isinstance(then, dict | list):
            assert now == then, f"{where} was {then!r} and is {now!r}"
        self._compare(then, now, where)


def lines_of(recording: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recording.read_text().splitlines()]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_an_agent_of_protocol_1_is_understood_and_understands(door: Door, recording: Path) -> None:
    replay = Replay(door)
    for line in lines_of(recording):
        replay.play(line)


class NewerReplay(Replay):
    """Says more than was recorded."""

    more: int = 0  #: bodies with more in them

    def _said(self, body: str, headers: dict[str, str]) -> str:
        is_agents = PROTOCOL_HEADER in headers and headers.get("content-type") == "application/json"
        if not body or not is_agents:
            return body
        self.more += 1
        return json.dumps(extended(json.loads(body)))


def extended(said: Any) -> Any:
    """Every object of it has a key more."""
    if isinstance(said, list):
        return [extended(item) for item in said]
    if isinstance(said, dict):
        free = ("manifest", "devices")  # may hold anything already
        known = {name: item if name in free else extended(item) for name, item in said.items()}
        return {**known, "since_next_year": {"of": [1]}}
    return said


def test_a_newer_agent_that_says_more_is_understood(door: Door) -> None:
    """It is upgraded before its server, and speaks the same protocol."""
    for recording in RECORDINGS:
        replay = NewerReplay(door.begin_anew())
        for line in lines_of(recording):
            replay.play(line)
        assert replay.more


def test_the_recordings_have_all_that_an_agent_says() -> None:
    lines = [line for recording in RECORDINGS for line in lines_of(recording) if "agent" in line]
    said = {
        (line["agent"], re.sub(r"\{\w+\.\d+\}|[0-9a-f]{64}", "*", line["path"].partition("?")[0]))
        for line in lines
    }
    assert said == {
        ("POST", "/agents"),
        ("POST", "/agents/*/poll"),
        ("POST", "/agents/*/reports"),
        ("POST", "/agents/*/logs"),
        ("POST", "/agents/*/usage"),
        ("POST", "/agents/*/leave"),
        ("GET", "/runs/*"),
        ("GET", "/snapshots/*"),
        ("GET", "/snapshots/*/archive"),
    }
    text = "\n".join(line["body"] for line in lines)
    facts = set(re.findall(r'"fact":\{"type":"(\w+)"', text))
    assert facts == {"phase", "replica", "note", "end", "failure", "manifest"}
    heard = json.dumps([line["answer"] for line in lines])
    for word in (
        '"adopt": true',
        '"adopt": false',
        '"reason": "stale"',
        '"length": null',
        '"stops": [{',
        '"drops": [{',
    ):
        assert word in heard
    assert {line["status"] for line in lines} == {200, 201, 204, 409}


# --- other protocols -------------------------------------------------------------------------------

HELLO: dict[str, Any] = {
    "name": "a1",
    "incarnation": "incarnation",
    "engine": "process",
    "host": "h",
    "locality": "l",
    "version": "1",
    "max_jobs": 1,
    "total": {},
    "queues": ["local"],
}


@pytest.mark.parametrize("protocol", ["0", "2", "1.0", "", "one"])
@pytest.mark.parametrize("body", [HELLO, {"of": "another shape"}], ids=["same shape", "other shape"])
def test_an_agent_of_another_protocol_is_told_so(door: Door, protocol: str, body: dict[str, Any]) -> None:
    agent = door.agent()
    for path in ("/agents", *(f"/agents/{agent.id}/{word}" for word in ("poll", "reports", "logs", "usage"))):
        answer = door.call("POST", path, body, headers={PROTOCOL_HEADER: protocol})
        assert answer.status_code == 409, path
        assert answer.json()["detail"] == f"This server speaks agent protocol 1, not {protocol!r}."
        assert answer.json()["hint"]


def test_an_agent_must_say_which_protocol_it_speaks(door: Door) -> None:
    answer = door.run(Replay(door)._ask("POST", "/agents", json.dumps(HELLO).encode(), {}))
    assert answer.status_code == 422
    assert PROTOCOL_HEADER in answer.json()["detail"]
