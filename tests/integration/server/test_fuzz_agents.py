"""Agents that send rubbish, late, twice and out of order: the server stays up and its books stay right."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from door import Door, held, open_door, replica
from muster.domain.run import RunState, may_move
from muster.service import sweep

FEW = settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MANY = settings(FEW, max_examples=8 * int(os.environ.get("MUSTER_FUZZ_EXAMPLES", "10")))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


# --- rubbish ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raw:
    """JSON that no Python value stands for."""

    text: str


def dumps(value: Any) -> bytes:
    """JSON with NaN, Infinity and half characters in it, as a bad client writes it."""
    raws: list[str] = []

    def keep(raw: object) -> str:
        assert isinstance(raw, Raw)
        raws.append(raw.text)
        return f"@raw{len(raws) - 1}@"

    text = json.dumps(value, default=keep)
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text.encode()


DEEP = "[" * 2000 + "]" * 2000
RUBBISH: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "\0",
    "a\0b",
    "\ud800",
    "\U0001f600\u202e",
    "'; DROP TABLE runs; --",
    "../../etc/passwd",
    "x" * 200,
    "x" * 100_000,
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+23:59",
    "-999999999",
    [],
    [[]],
    [None],
    {},
    {"": None},
    {"\0": "\0"},
    {"\ud800": 1},
    {"a": float("nan")},
    {"a": 10**400},
    Raw(DEEP),
    Raw('{"a":' * 500 + "1" + "}" * 500),
    Raw("1e999"),
    Raw("-0"),
    Raw('{"a": 1, "a": 2}'),
]
rubbish = st.sampled_from(RUBBISH) | st.text(max_size=20) | st.integers() | st.floats()


@st.composite
def spoiled(draw: st.DrawFn, good: Any) -> Any:
    """What is right, with up to three places of it replaced, left out or added to."""
    value = good
    for _ in range(draw(st.integers(0, 3))):
        value = draw(_spoiled_once(value))
    return value


@st.composite
def _spoiled_once(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["deeper", "deeper", "replace", "leave out", "add"])):
            case "deeper":
                return {**value, name: draw(_spoiled_once(value[name]))}
            case "replace":
                return {**value, name: draw(rubbish)}
            case "leave out":
                return {key: item for key, item in value.items() if key != name}
            case _:
                return {**value, draw(st.sampled_from(["extra", "", "\0", "rank", "type"])): draw(rubbish)}
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        match draw(st.sampled_from(["deeper", "twice", "leave out"])):
            case "deeper":
                return [*value[:at], draw(_spoiled_once(value[at])), *value[at + 1 :]]
            case "twice":
                return [*value, value[at]]
            case _:
                return [*value[:at], *value[at + 1 :]]
    return draw(rubbish)


# --- what agents say -------------------------------------------------------------------------------

MOMENT = "2026-01-01T00:00:00Z"
FACTS: list[dict[str, Any]] = [
    {"type": "phase", "phase": "preparing", "detail": "code"},
    {"type": "phase", "phase": "pending", "detail": ""},
    {"type": "phase", "phase": "starting"},
    {"type": "note", "message": "half way", "level": "warning"},
    {"type": "manifest", "manifest": {"command": ["x"]}},
    {"type": "failure", "kind": "out_of_memory", "summary": "s", "evidence": "e", "rank": 0, "exit_code": 1},
    {"type": "end", "end": "could_not_start", "reason": "r"},
    {"type": "end", "end": "preempted"},
    {"type": "end", "end": "lost", "reason": "gone"},
    *(
        {
            **replica(state, rank, node="n", handle="1", devices=["g"], reason="r", restarts=0),
            "started_at": MOMENT,
            "ended_at": MOMENT if state in ("succeeded", "failed", "stopped", "lost") else None,
            "log_bytes": 3,
            "exit_code": 0 if state == "succeeded" else None,
            "signal": 9 if state == "failed" else None,
        }
        for state in ("pending", "starting", "running", "succeeded", "failed", "stopped", "lost")
        for rank in (0, 1)
    ),
]


REQUESTS = ("register", "poll", "reports", "usage", "logs", "leave")


class Story:
    """Two agents on one machine and three runs; `first` has one of them in hand, of two members."""

    def __init__(self, door: Door) -> None:
        self.door = door.begin_anew()
        self.agent = door.agent("first")
        self.second = door.agent("second")
        self.runs = [door.launch(training={"nodes": 2}, retry={"max": 2})["id"]]
        self.claim = self.agent.claim()
        self.runs += [door.launch()["id"] for _ in range(2)]
        self.sent: list[tuple[str, bytes]] = []
        self.ended: dict[str, str] = {}
        self.seq = 0

    def good(self, request: str) -> tuple[str, Any]:
        """The path of a request and a body that is right."""
        at, incarnation = held(self.claim), {"incarnation": self.agent.incarnation}
        where = f"/agents/{self.agent.id}/{request}"
        size = {"millicpus": 1000, "memory": 2**30, "gpus": 1}
        hello = {"name": "first", "engine": "process", "host": "h", "locality": "host-1", "version": "1"}
        kit = {"max_jobs": 2, "total": size, "devices": [{"name": "gpu"}], "queues": ["local"]}
        work = {"held": [{**at, "stopping": False}], "slots": 1, "draining": False, "free": size, "wait": 0}
        used = dict.fromkeys(("cpu", "memory", "gpu", "gpu_memory", "disk_read", "net_sent"), 1)
        sample = {"run_id": at["run_id"], "attempt": at["attempt"], "rank": 0, "at": 1.0, **used}
        bodies: Mapping[str, Mapping[str, Any]] = {
            "register": {**hello, **kit, "entity": "ann"},
            "poll": work,
            "reports": {"reports": [{**at, "seq": self.seq + 1, "fact": FACTS[0]}]},
            "usage": {"samples": [sample]},
            "logs": {"pieces": [{**at, "rank": 0, "offset": 0, "length": 3}]},
            "leave": {},
        }
        return "/agents" if request == "register" else where, {**incarnation, **bodies[request]}

    def send(self, path: str, body: bytes) -> httpx.Response:
        self.sent.append((path, body))
        answer = self.door.call("POST", path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 201, 204, 404, 409, 413, 422), answer.text
        return answer

    # what may happen next

    def spoiled_request(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(REQUESTS))
        path, good = self.good(request)
        body = data.draw(spoiled(good))
        if isinstance(body, dict) and isinstance(body.get("wait"), int | float):
            body["wait"] = min(body["wait"], 0)  # or it would be held
        self.send(path, dumps(body) + (b"\nabc" if request == "logs" else b""))

    def spoiled_fact(self, data: st.DataObject) -> None:
        path, body = self.good("reports")
        self.seq += 1
        body["reports"][0]["fact"] = data.draw(spoiled(data.draw(st.sampled_from(FACTS))))
        self.send(path, dumps(body))

    def facts(self, data: st.DataObject) -> None:
        """Some facts, under numbers, attempts and epochs that may be wrong."""
        path, body = self.good("reports")
        at, near = held(self.claim), st.sampled_from([0, 0, 0, 0, -1, 1, 2])
        body["reports"] = []
        for fact in data.draw(st.lists(st.sampled_from(FACTS), min_size=1, max_size=4)):
            self.seq += 1
            wrong = {name: max(1, at[name] + data.draw(near)) for name in ("attempt", "epoch")}
            run_id = data.draw(st.sampled_from([at["run_id"]] * 5 + self.runs))
            seq = max(1, self.seq + data.draw(near))
            body["reports"].append({"run_id": run_id, **wrong, "seq": seq, "fact": fact})
        self.send(path, dumps(body))

    def again(self, data: st.DataObject) -> None:
        """Something that was sent before comes once more."""
        if self.sent:
            self.send(*data.draw(st.sampled_from(self.sent)))

    def poll(self, data: st.DataObject) -> None:
        """An honest request for work; what it brings is reported on from now on."""
        self.agent, self.second = data.draw(st.permutations([self.agent, self.second]))
        path, body = self.good("poll")
        answer = self.send(path, dumps({**body, "held": []}))
        for claim in answer.json()["claims"] if answer.status_code == 200 else ():
            self.claim, self.seq = claim, claim["report_seq"]

    def start_again(self, data: st.DataObject) -> None:
        self.agent.incarnation = f"incarnation-{len(self.sent)}"
        path, body = self.good("register")
        self.send(path, dumps(body))

    def time_passes(self, data: st.DataObject) -> None:
        self.door.clock.advance(data.draw(st.sampled_from([1.0, 20.0, 700.0])))
        now = self.door.clock.now()
        self.door.context.db.write_now(lambda tx: sweep.sweep(tx, now=now))

    def stop(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(self.runs))
        assert self.door.call("POST", f"/runs/{run_id}/stop").status_code == 200

    # what holds throughout

    def check(self) -> None:
        for run in strict(self.door.call("GET", "/runs"))["items"]:
            assert self.ended.get(run["id"], run["state"]) == run["state"], "an end stays as it is"
            if RunState(run["state"]).terminal:
                self.ended[run["id"]] = run["state"]

    def check_all(self) -> None:
        """All that people and programs look at is still there, and is JSON as others read it."""
        for path in ("/agents", "/queues", "/queues/local", "/audit"):
            strict(self.door.call("GET", path))
        assert self.door.call("GET", "/metrics").status_code == 200
        for run_id in self.runs:
            for part in ("why", "replicas", "manifest", "usage"):
                strict(self.door.call("GET", f"/runs/{run_id}/{part}"))
            assert self.door.call("GET", f"/runs/{run_id}/logs").status_code == 200
            self._check_books(run_id)
        self.door.agent("third").poll()

    def _check_books(self, run_id: str) -> None:
        """The run's events have no gap, each move is allowed, and they add up to its state."""
        run = strict(self.door.call("GET", f"/runs/{run_id}"))
        events = strict(self.door.call("GET", f"/runs/{run_id}/events"))["items"]
        assert [event["seq"] for event in events] == list(range(1, run["version"] + 1))
        state = None
        for data in (event["data"] for event in events if event["type"] == "state"):
            assert data.get("from") == state
            assert state is None or may_move(RunState(state), RunState(data["to"])), data
            state = data["to"]
        assert run["state"] == state


def strict(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, (answer.request.url, answer.text)
    return json.loads(answer.content, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


STEPS = (
    *[Story.facts] * 4,
    *[Story.spoiled_fact] * 3,
    *[Story.spoiled_request] * 4,
    Story.again,
    Story.again,
    Story.poll,
    Story.poll,
    Story.start_again,
    Story.time_passes,
    Story.stop,
)


def tell(door: Door, data: st.DataObject) -> None:
    story = Story(door)
    for step in data.draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=25)):
        step(story, data)
        story.check()
    story.check_all()


@FEW
@given(data=st.data())
def test_whatever_agents_send_the_books_stay_right(house: Door, data: st.DataObject) -> None:
    tell(house, data)


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_whatever_agents_send_for_long_the_books_stay_right(house: Door, data: st.DataObject) -> None:
    tell(house, data)


@pytest.mark.parametrize(
    ("path", "spoil"),
    [
        ("register", {"total": {"memory": -1}}),
        ("register", {"total": {"memory": 10**400}}),
        ("register", {"total": {"gpus": float("inf")}}),
        ("poll", {"free": {"millicpus": -1}}),
        ("poll", {"slots": -1}),
        ("poll", {"wait": float("nan")}),
        ("usage", {"samples": [{"run_id": "x", "attempt": 1, "rank": 0, "at": float("inf")}]}),
        ("usage", {"samples": [{"run_id": "x", "attempt": 1, "rank": 0, "at": 1.0, "cpu": float("nan")}]}),
    ],
)
def test_what_no_machine_can_have_is_refused(house: Door, path: str, spoil: dict[str, Any]) -> None:
    story = Story(house)
    where, good = story.good(path)
    assert story.send(where, dumps({**good, **spoil})).status_code == 422
