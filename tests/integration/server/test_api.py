"""What requests are answered: problems, launches once, pages, runs from launch to end."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest

from door import Agent, Door, held, open_door, replica
from muster.wire.base import PROTOCOL_HEADER


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


@pytest.fixture(scope="module")
def shared(house: Door) -> Door:
    """For tests that leave it as it was; these come first."""
    return house.begin_anew()


# --- problems --------------------------------------------------------------------------------------

SHAPE = {"type", "title", "status", "detail", "code", "hint", "facts"}


def cursor_of(*data: object) -> str:
    """As one that somebody made up."""
    return urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


PROBLEMS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/runs/zzzzzzzzzz", None, 404, "not_found"),
    ("GET", "/runs?limit=0", None, 422, "bad_input"),
    ("GET", "/runs?cursor=abc", None, 422, "bad_input"),
    ("GET", "/runs?cursor=99999999999999999999", None, 422, "bad_input"),
    ("GET", "/runs?sort=spec", None, 422, "bad_input"),
    ("GET", "/runs?sort=name&cursor=12", None, 422, "bad_input"),
    ("GET", "/runs?sort=name&cursor=é", None, 422, "bad_input"),
    ("GET", f"/runs?sort=-created&cursor={cursor_of('name', 0, 1, 'x')}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=name&cursor={cursor_of('-name', 0, 1, 'x')}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=name&cursor={cursor_of('name', 0, 1, None)}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=name&cursor={cursor_of('name', 0, 1, chr(0))}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=name&cursor={cursor_of('name', 2**60, 1, 'x')}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=gpus&cursor={cursor_of('gpus', 0, 1, 2**63)}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=gpus&cursor={cursor_of('gpus', 0, True, 1)}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=created&cursor={cursor_of('created', 0, 1, 'x')}", None, 422, "bad_input"),
    ("GET", f"/runs?sort=created&cursor={cursor_of('created')}", None, 422, "bad_input"),
    ("GET", "/runs?state=asleep", None, 422, "bad_input"),
    ("GET", "/runs?queue=locl", None, 404, "not_found"),
    ("PUT", "/runs", None, 405, "http_error"),
    ("POST", "/launches", {"command": ["true"], "queue": "locl"}, 404, "not_found"),
    ("POST", "/launches", {"command": []}, 422, "bad_command"),
    ("POST", "/launches", {"command": "true"}, 422, "bad_input"),
    ("POST", "/launches", {"command": ["x"], "values": {"gpus": "x"}}, 422, "bad_variable"),
    ("POST", "/launches", {"command": ["x"], "training": {"nodes": 0}}, 422, "bad_training"),
    ("POST", "/launches", {"command": ["x"], "retry": {"max": 101}}, 422, "bad_input"),
    ("POST", "/launches", {"command": ["x"], "retry": {"on": ["succeeded"]}}, 422, "bad_input"),
    ("POST", "/queues", {"name": "q", "config": {"resource": {}}}, 422, "unknown_key"),
    ("POST", "/queues", {"name": "local", "config": {}}, 409, "already_exists"),
    ("POST", "/queues", {"name": "q", "resource": "proces", "config": {}}, 422, "bad_input"),
    ("POST", "/queues", {"name": "../q", "config": {}}, 422, "bad_name"),
    ("GET", "/snapshots/..%2f..%2fetc", None, 404, "not_found"),
    ("POST", "/keys", {"label": ""}, 422, "bad_input"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), PROBLEMS)
def test_what_is_wrong_is_said_as_a_problem_document(
    shared: Door, method: str, path: str, body: Any, status: int, code: str
) -> None:
    path, _, query = path.partition("?")
    params: dict[str, Any] = dict(parse_qsl(query))
    answer = shared.call(method, path, body, **params)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) == SHAPE
    assert problem["detail"].endswith(".")


@pytest.mark.parametrize(
    ("path", "body", "near"),
    [
        ("/launches", {"command": ["true"], "valeus": {}}, "values"),
        ("/launches", {"command": ["true"], "retry": {"maxx": 1}}, "max"),
        ("/launches", {"command": ["true"], "training": {"procs_per_nodes": 1}}, "procs_per_node"),
        ("/launches/batch", {"launches": [{"command": ["true"], "quue": "local"}]}, "queue"),
        ("/queues", {"name": "q", "config": {}, "resurce": "process"}, "resource"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known_one(
    shared: Door, path: str, body: Any, near: str
) -> None:
    answer = shared.call("POST", path, body)
    assert answer.status_code == 422
    assert answer.json()["hint"] == f"Did you mean {near!r}?"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"command": ["\\ud800"]}',
        b'{"command": ["x"], "config": {"a": "\\ud800"}}',
        b'{"command": ["x"], "config": {"\\ud800": 1}}',
        b'{"command": ["x"], "values": {"\\ud800": 1}}',
        b'{"command": ["x"], "\\ud800": 1}',
        b'{"command": ["x"], "config": {"a": NaN}}',
        b'{"command": ["x"], "config": {"a": 1e999}}',
        b'{"command": ["x"], "retry": {"max": 1e30}}',
        b'{"command": ["x"], "training": {"rdzv_timeout": 99999999999999999999999}}',
        b'{"command": ["x"], "config": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    ],
)
def test_a_body_that_cannot_be_used_is_the_callers_mistake(shared: Door, content: bytes) -> None:
    answer = shared.call("POST", "/launches", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (201, 400, 422), answer.text
    if answer.status_code == 201:
        assert shared.call("GET", f"/runs/{answer.json()['id']}").status_code == 200


HUGE = str(2**70)


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/replicas", {"attempt": HUGE}),
        ("/manifest", {"attempt": HUGE}),
        ("/usage", {"attempt": HUGE}),
        ("/logs", {"attempt": HUGE}),
        ("/logs", {"rank": "9" * 400}),
        ("/logs", {"offset": "9" * 400}),
        ("/logs", {"offset": str(2**63)}),
        ("", {"newer_than": HUGE}),
        ("/events", {"cursor": HUGE}),
    ],
)
def test_numbers_too_large_to_mean_anything_are_refused(
    door: Door, path: str, params: dict[str, Any]
) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"))
    agent.send_log(claim, 0, b"hello\n")
    answer = door.call("GET", f"/runs/{run['id']}{path}", **params)
    assert answer.status_code in (200, 404, 422), answer.text


@pytest.mark.parametrize(
    "last", ["", "x", "1;0=x", "-1;", "1;0=-1", "1;" + "0=9" * 3, f"1;0={'9' * 400}", HUGE]
)
def test_a_place_in_a_log_that_is_none_is_refused_or_empty(door: Door, last: str) -> None:
    agent, claim = finished(door)
    agent.send_log(claim, 0, b"hello\n")
    answer = door.call("GET", f"/runs/{claim['run']['id']}/logs/stream", headers={"Last-Event-ID": last})
    assert answer.status_code in (200, 422), answer.text


# --- launching once --------------------------------------------------------------------------------


def test_the_same_launch_under_the_same_key_is_one_run(door: Door) -> None:
    body = {"command": ["true"], "env": {"A": "1"}}
    first = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).json()
    again = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json()["id"]) == (201, first["id"])
    assert len(door.call("GET", "/runs").json()["items"]) == 1
    other = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k2"}).json()
    assert other["id"] != first["id"]


def test_another_launch_under_the_same_key_is_a_conflict(door: Door) -> None:
    door.call("POST", "/launches", {"command": ["true"]}, headers={"Idempotency-Key": "k1"})
    answer = door.call("POST", "/launches", {"command": ["false"]}, headers={"Idempotency-Key": "k1"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_mismatch")


def test_a_launch_that_was_refused_may_be_tried_again_under_its_key(door: Door) -> None:
    body = {"command": ["true"], "queue": "later"}
    refused = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"})
    assert refused.status_code == 404
    door.call("POST", "/queues", {"name": "later", "config": {}}).raise_for_status()
    assert door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).status_code == 201


def test_an_idempotency_key_is_its_users_own(door: Door) -> None:
    eve = door.user("eve", ann="member")
    body = {"command": ["true"], "entity": "ann"}
    mine = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).json()
    hers = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}, key=eve).json()
    assert mine["id"] != hers["id"]


def test_an_idempotency_key_is_forgotten_after_a_day(door: Door) -> None:
    body = {"command": ["true"]}
    first = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).json()
    door.clock.advance(timedelta(hours=25))
    later = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).json()
    assert first["id"] != later["id"]


def test_a_repeated_launch_whose_run_was_deleted_says_so(door: Door) -> None:
    body = {"command": ["true"]}
    run = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"}).json()
    door.call("POST", f"/runs/{run['id']}/stop")
    door.call("DELETE", f"/runs/{run['id']}")
    answer = door.call("POST", "/launches", body, headers={"Idempotency-Key": "k1"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_many_at_once_under_one_key_are_one_run(door: Door) -> None:
    async def all_at_once() -> set[str]:
        asks = [
            door.ask("POST", "/launches", {"command": ["true"]}, headers={"Idempotency-Key": "k1"})
            for _ in range(10)
        ]
        return {answer.json()["id"] for answer in await asyncio.gather(*asks)}

    assert len(door.run(all_at_once())) == 1
    assert len(door.call("GET", "/runs").json()["items"]) == 1


def test_a_batch_is_all_or_none(door: Door) -> None:
    good, bad = {"command": ["true"]}, {"command": ["true"], "queue": "nowhere"}
    assert door.call("POST", "/launches/batch", {"launches": [good, bad]}).status_code == 404
    assert door.call("GET", "/runs").json()["items"] == []
    made = door.call("POST", "/launches/batch", {"launches": [good] * 3}).json()["items"]
    assert len({run["id"] for run in made}) == 3


# --- pages -----------------------------------------------------------------------------------------


def test_pages_show_every_run_once_while_new_ones_come(door: Door) -> None:
    old = [door.launch(name=f"old-{i}")["id"] for i in range(25)]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = door.call("GET", "/runs", limit=7, **cursor).json()
        seen += [run["id"] for run in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
        door.launch(name="new")
    assert seen == list(reversed(old))


def test_a_list_goes_on_in_its_order(door: Door) -> None:
    long = "a" * 64
    for name in ("b", "Zoo", "a", "c", long):
        door.launch(name=name)
    newest = [long, "c", "a", "Zoo", "b"]
    for sort, wanted in (
        ("name", ["Zoo", "a", long, "b", "c"]),
        ("-name", ["c", "b", long, "a", "Zoo"]),
        ("created", newest[::-1]),
        ("-created", newest),
        ("-gpus", newest),
        ("duration", newest),
    ):
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        while cursor.get("cursor", "") is not None:
            page = door.call("GET", "/runs", sort=sort, limit=2, **cursor).json()
            seen += [run["name"] for run in page["items"]]
            cursor = {"cursor": page["next"]}
        assert seen == wanted, sort


def test_a_run_that_goes_on_is_on_one_page_only(door: Door) -> None:
    """Those that run grow longer; the list is that of the moment when it was asked for."""
    agent = door.agent()
    for name in ("long", "middle", "short"):
        door.launch(name=name)
    for claim in agent.poll()["claims"]:
        agent.report(claim, replica("running"))
        door.clock.advance(timedelta(seconds=10))
    first = door.call("GET", "/runs", sort="duration", limit=1).json()
    door.clock.advance(timedelta(seconds=15))
    rest = door.call("GET", "/runs", sort="duration", cursor=first["next"]).json()
    assert [run["name"] for run in first["items"] + rest["items"]] == ["short", "middle", "long"]


def test_a_full_last_page_has_no_next(door: Door) -> None:
    for _ in range(4):
        door.launch()
    page = door.call("GET", "/runs", limit=4).json()
    assert (len(page["items"]), page["next"]) == (4, None)


def test_lists_are_narrowed(door: Door) -> None:
    door.call("POST", "/queues", {"name": "other", "config": {}}).raise_for_status()
    a = door.launch(name="alpha_1", project="p1")
    b = door.launch(name="beta-2", queue="other")
    door.call("POST", f"/runs/{b['id']}/stop")

    def ids(**params: Any) -> list[str]:
        return [run["id"] for run in door.call("GET", "/runs", **params).json()["items"]]

    assert ids(project="p1") == [a["id"]]
    assert ids(queue="other") == [b["id"]]
    assert ids(state="stopped") == [b["id"]]
    assert ids(state=["stopped", "queued"]) == [b["id"], a["id"]]
    assert ids(text="LPHA") == [a["id"]]
    assert ids(text="%") == []
    assert ids(text="_") == [a["id"]]
    assert ids(text="\\") == []
    assert ids(text=a["id"][:6]) == [a["id"]]
    assert ids(author="nobody") == []
    assert ids(entity="ann", project="p1", state="queued") == [a["id"]]


def test_events_are_paged_in_order(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, *[{"type": "note", "message": f"line {i}"} for i in range(20)])
    seen: list[int] = []
    cursor: dict[str, Any] = {}
    while True:
        page = door.call("GET", f"/runs/{run['id']}/events", limit=6, **cursor).json()
        seen += [event["seq"] for event in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == list(range(1, 23))


# --- a run, from launch to end ---------------------------------------------------------------------


def finished(door: Door) -> tuple[Agent, dict[str, Any]]:
    door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"), replica("succeeded", exit_code=0))
    return agent, claim


def test_a_run_from_launch_to_end(door: Door) -> None:
    run = door.launch(name="first", config={"lr": 0.1}, env={"A": "1"}, training={"nodes": 2})
    assert (run["state"], run["entity"], run["project"], run["queue"]) == (
        "queued",
        "ann",
        "default",
        "local",
    )
    agent = door.agent()
    claim = agent.claim()
    assert claim["run"]["id"] == run["id"]
    assert (claim["attempt"], claim["epoch"], claim["adopt"]) == (1, 1, False)
    manifest = {"type": "manifest", "manifest": {"what": "was submitted"}}
    agent.report(claim, manifest, replica("running"), replica("running", 1))
    shown = door.call("GET", f"/runs/{run['id']}/manifest").json()
    assert (shown["manifest"], shown["submitted"]) == ({"what": "was submitted"}, True)
    assert door.call("GET", f"/runs/{run['id']}").json()["state"] == "running"
    agent.report(claim, replica("succeeded"), replica("succeeded", 1, exit_code=0))
    assert door.call("GET", f"/runs/{run['id']}").json()["state"] == "succeeded"
    members = door.call("GET", f"/runs/{run['id']}/replicas").json()["items"]
    assert [(item["rank"], item["state"]) for item in members] == [(0, "succeeded"), (1, "succeeded")]
    assert door.call("GET", f"/runs/{run['id']}/why").json()["summary"].startswith("It succeeded")


async def someone_waits(door: Door, topic: str) -> None:
    while topic not in door.context.bus._waiting:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)


def test_work_is_pushed_to_an_agent_that_waits(door: Door) -> None:
    agent = door.agent()

    async def scene() -> list[dict[str, Any]]:
        waiting = asyncio.create_task(agent.poll_soon(wait=8))
        await someone_waits(door, f"agent:{agent.id}")
        await door.ask("POST", "/launches", {"command": ["true"]})
        claims: list[dict[str, Any]] = (await waiting)["claims"]
        return claims

    assert len(door.run(scene())) == 1


def test_a_stop_is_pushed_to_the_agent_that_has_the_run(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()

    async def scene() -> list[dict[str, Any]]:
        waiting = asyncio.create_task(agent.poll_soon(held(claim), wait=8))
        await someone_waits(door, f"agent:{agent.id}")
        await door.ask("POST", f"/runs/{run['id']}/stop")
        stops: list[dict[str, Any]] = (await waiting)["stops"]
        return stops

    assert door.run(scene()) == [{"run_id": run["id"], "attempt": 1}]


def test_a_change_is_pushed_to_who_waits_for_it(door: Door) -> None:
    run = door.launch()
    agent = door.agent()

    async def scene() -> str:
        waiting = asyncio.create_task(
            door.ask("GET", f"/runs/{run['id']}", newer_than=run["version"], wait=8)
        )
        await someone_waits(door, f"run:{run['id']}")
        await agent.poll_soon()
        state: str = (await waiting).json()["state"]
        return state

    assert door.run(scene()) == "claimed"


def test_a_report_under_an_old_epoch_is_refused_by_name(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = {**agent.claim(), "epoch": 7}
    refused = {"run_id": run["id"], "attempt": 1, "epoch": 7, "reason": "stale"}
    assert agent.report(claim, replica("failed")) == [refused]
    assert door.call("GET", f"/runs/{run['id']}").json()["state"] == "claimed"


def test_ten_thousand_reports_in_one_batch(door: Door) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    ghosts = [
        {"run_id": f"z{i:09d}", "attempt": 1, "epoch": 1, "seq": 1, "fact": replica("running")}
        for i in range(9_998)
    ]
    reports = [*ghosts, {**held(claim), "seq": 1, "fact": replica("running")}]
    body = {"incarnation": agent.incarnation, "reports": reports}
    answer = door.call("POST", f"/agents/{agent.id}/reports", body).raise_for_status().json()
    assert len(answer["refused"]) == 9_998
    assert door.call("GET", f"/runs/{run['id']}").json()["state"] == "running"


@pytest.mark.parametrize(
    "odd",
    [
        {"attempt": 2**70},
        {"epoch": 2**70},
        {"epoch": -1},
        {"seq": 2**70},
        {"run_id": "\x00"},
        {"run_id": "x" * 10_000},
        {"fact": replica("running", rank=1_000_000)},
        {"fact": replica("running", restarts=2**70)},
        {"fact": replica("running", reason="\ud800")},
        {"fact": {"type": "note", "message": "\ud800"}},
        {"fact": {"type": "manifest", "manifest": {"\ud800": 1}}},
    ],
    ids=str,
)
def test_odd_reports_do_no_harm(door: Door, odd: dict[str, Any]) -> None:
    run = door.launch()
    agent = door.agent()
    claim = agent.claim()
    report = {**held(claim), "seq": 1, "fact": replica("running"), **odd}
    content = json.dumps({"incarnation": agent.incarnation, "reports": [report]}).encode()
    headers = {"Content-Type": "application/json"}
    answer = door.call("POST", f"/agents/{agent.id}/reports", content=content, headers=headers)
    assert answer.status_code in (200, 422), answer.text
    assert door.call("GET", f"/runs/{run['id']}").status_code == 200
    assert door.call("GET", f"/runs/{run['id']}/replicas").status_code == 200
    agent.seq = 10
    assert agent.report(claim, replica("succeeded")) == []


@pytest.mark.parametrize(
    "odd", [{"memory": 2**2000}, {"at": "nan"}, {"attempt": 2**70}, {"cpu": -1.0}], ids=str
)
def test_odd_samples_do_no_harm(door: Door, odd: dict[str, Any]) -> None:
    run = door.launch()
    agent = door.agent()
    agent.report(agent.claim(), replica("running"))
    sample = {"run_id": run["id"], "attempt": 1, "rank": 0, "at": 1.0, **odd}
    body = {"incarnation": agent.incarnation, "samples": [sample]}
    assert door.call("POST", f"/agents/{agent.id}/usage", body).status_code in (204, 422)
    assert door.call("GET", f"/runs/{run['id']}/usage").status_code == 200


def test_an_agent_of_another_protocol_is_told(door: Door) -> None:
    agent = door.agent()
    body = {"incarnation": agent.incarnation, "slots": 1, "free": {}, "wait": 0}
    answer = door.call("POST", f"/agents/{agent.id}/poll", body, headers={"Muster-Protocol": "2"})
    assert answer.status_code == 409
    assert "agent protocol 1" in answer.json()["detail"]


def test_a_poll_is_answered_in_any_spelling_of_json(door: Door) -> None:
    agent = door.agent()
    room = {"millicpus": 1000, "memory": 2**30, "gpus": 0}
    body = {"incarnation": agent.incarnation, "slots": 1, "free": room, "wait": 0}
    for spelling in ("application/json", "application/json; charset=utf-8", "application/vnd.x+json"):
        door.launch()
        answer = door.call(
            "POST",
            f"/agents/{agent.id}/poll",
            content=json.dumps(body).encode(),
            headers={"Content-Type": spelling},
        )
        assert (answer.status_code, len(answer.json()["claims"])) == (200, 1), spelling
        [claim] = answer.json()["claims"]
        agent.report(claim, replica("succeeded", exit_code=0))


@pytest.mark.parametrize(
    ("headers", "content", "status", "words"),
    [
        ({PROTOCOL_HEADER: ""}, b"{}", 409, "agent protocol"),
        ({"Authorization": "Bearer nobody"}, b"{}", 401, ""),
        ({}, b"{}", 422, "incarnation"),
        ({}, b'{"incarnation": "x", "slots": "many"}', 422, "slots"),
        ({}, b"{", 422, ""),
        ({}, b"\xff", 422, ""),
        ({}, b"", 422, ""),
        ({"Content-Type": "text/plain"}, b"{}", 422, ""),
    ],
)
def test_a_poll_that_is_not_as_it_should_be_is_refused_in_words(
    door: Door, headers: dict[str, str], content: bytes, status: int, words: str
) -> None:
    agent = door.agent()
    run = door.launch()
    given = {"Content-Type": "application/json", **headers}
    answer = door.call("POST", f"/agents/{agent.id}/poll", content=content, headers=given)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json()["detail"]
    assert door.call("GET", f"/runs/{run['id']}").json()["state"] == "queued"


def test_an_overtaken_agent_is_told(door: Door) -> None:
    agent = door.agent()
    agent.incarnation = "another-one"
    body = {"incarnation": agent.incarnation, "reports": []}
    answer = door.call("POST", f"/agents/{agent.id}/reports", body)
    assert (answer.status_code, answer.json()["facts"]) == (409, {"reason": "overtaken"})


def test_a_deleted_run_is_gone_with_its_files(door: Door) -> None:
    agent, claim = finished(door)
    run_id = claim["run"]["id"]
    agent.send_log(claim, 0, b"hello\n")
    folder = door.context.settings.data_dir
    assert list(folder.glob(f"*/*/{run_id}"))
    assert door.call("DELETE", f"/runs/{run_id}").status_code == 204
    assert door.call("GET", f"/runs/{run_id}").status_code == 404
    assert not list(folder.glob(f"*/*/{run_id}"))
    assert agent.send_log(claim, 6, b"late\n") is None


def test_a_live_run_cannot_be_deleted(door: Door) -> None:
    run = door.launch()
    answer = door.call("DELETE", f"/runs/{run['id']}")
    assert answer.status_code == 409
    assert answer.json()["hint"] == f"Stop it first: muster run stop {run['id']}"


def test_usage_comes_back_per_replica(door: Door) -> None:
    door.launch()
    agent = door.agent()
    claim = agent.claim()
    agent.report(claim, replica("running"))
    sample = {"run_id": claim["run"]["id"], "attempt": 1, "rank": 0, "cpu": 1.5, "memory": 1000}
    foreign = {**sample, "run_id": "zzzzzzzzzz", "at": 1.0}
    for at in (10.0, 20.0, 20.0):
        body = {"incarnation": agent.incarnation, "samples": [{**sample, "at": at}, foreign]}
        assert door.call("POST", f"/agents/{agent.id}/usage", body).status_code == 204
    series = door.call("GET", f"/runs/{claim['run']['id']}/usage").json()["items"]
    assert [(s["rank"], s["at"], s["values"]["cpu"]) for s in series] == [(0, [10.0, 20.0], [1.5, 1.5])]
    assert series[0]["values"]["gpu"] == [None, None]


def test_a_queue_from_birth_to_death(door: Door) -> None:
    made = door.call("POST", "/queues", {"name": "q", "config": {"stop_grace": 5}}).json()
    assert (made["version"], made["waiting"], made["agents_online"]) == (1, 0, 0)
    door.agent(queues=("q",))
    assert door.call("GET", "/queues/q").json()["agents_online"] == 1
    assert door.call("PATCH", "/queues/q", {"config": {"stop_grace": 6}}).json()["version"] == 2
    assert door.call("PATCH", "/queues/q", {"config": {"stop_grace": 6}}).json()["version"] == 2
    assert door.call("POST", "/queues/q/pause").json()["paused_at"] is not None
    run = door.launch(queue="q")
    assert door.call("GET", "/queues/q").json()["waiting"] == 1
    assert door.call("DELETE", "/queues/q").status_code == 409
    door.call("POST", f"/runs/{run['id']}/stop")
    door.call("DELETE", f"/runs/{run['id']}")
    assert door.call("DELETE", "/queues/q").status_code == 204
    assert door.call("GET", "/queues/q").status_code == 404


def test_metrics_count_what_waits_and_runs(door: Door) -> None:
    door.launch()
    door.launch()
    door.agent().poll(slots=1)
    text = door.call("GET", "/metrics").text
    assert 'muster_runs_waiting{entity="ann",queue="local"} 1.0' in text
    assert 'muster_runs_live{entity="ann",queue="local"} 1.0' in text
    assert 'muster_agent_online{agent="a1",entity="ann"} 1.0' in text


def test_a_server_about_to_stop_is_not_ready(door: Door) -> None:
    assert door.call("GET", "/readyz", key=None).status_code == 200
    door.context.begin_closing()
    assert door.call("GET", "/readyz", key=None).status_code == 503
    assert door.call("GET", "/healthz", key=None).status_code == 200
