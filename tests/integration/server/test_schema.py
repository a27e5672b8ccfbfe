"""The HTTP door under fuzz: every operation of the OpenAPI document, driven by what the document says.

`fay` with her key, then nobody at all, call every operation with right and wrong data. Now and then they
name things that are there: hers, and those of `zed`, which must neither be seen nor changed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import requests
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, Response
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from door import DEADLINE, URL, Door, open_door
from muster.server.routes import (
    accounts,
    agents,
    clusters,
    code,
    groups,
    health,
    jobs,
    launches,
    lines,
    loglines,
    queues,
    runs,
    session,
    streams,
    versions,
    work,
)
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER
from neighbours import MARK, Neighbours, all_rows

DEEP = int(os.environ.get("MUSTER_FUZZ_EXAMPLES", "10"))  #: examples of each operation, right and wrong
SHALLOW = 4
IDLE = 0.1  #: seconds after which a stream that says nothing is left
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MODULES: Sequence[ModuleType] = (
    *(accounts, agents, clusters, code, groups, health, jobs),
    *(launches, lines, loglines, queues, runs, session, streams, versions, work),
)
OPERATIONS = [
    route.name
    for module in MODULES
    for route in module.router.routes
    if isinstance(route, APIRoute) and route.include_in_schema
]
OPEN = {"healthz", "readyz"}
LOOKS = {
    "read_log",
    "map_logs",
    "find_in_logs",
    "follow_logs",
    "follow_events",
    "get_manifest",
    "list_replicas",
    "explain_run",
}
#: What `{name}` stands for.
NAMED = {
    "queue": "queue",
    "queue_versions": "queue",
    "queue_version": "queue",
    "queue_line": "queue",
    "queue_history": "queue",
    "back_queue": "queue",
    "entity_limits": "entity",
    "job": "job",
    "job_alias": "job",
    "job_version": "job",
    "job_versions": "job",
    "agent": "agent_name",
    "entity": "entity",
    "member": "entity",
}
Operation = APIOperation[Any, Any, Any, Any]
Asking = Case[Any]
Choose = Callable[[Sequence[Any]], Any]  #: one of these


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbours]:
    for door in open_door(tmp_path_factory.mktemp("door"), database=request.param):
        yield Neighbours.move_in(door)


@pytest.fixture(scope="module")
def operations(house: Neighbours) -> Mapping[str, Operation]:
    document = house.door.call("GET", "/api/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.generation.update(with_security_parameters=False)
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(found) == len(OPERATIONS)
    return {operation.definition.raw["operationId"]: operation for operation in found}


# --- sending ---------------------------------------------------------------------------------------


def send(door: Door, case: Asking, *, key: str | None) -> Response:
    asked = case.as_transport_kwargs(base_url=URL)
    asked["headers"] = {**asked["headers"], **door.sign(key)} if key else asked["headers"]
    return door.run(_send(door, requests.Request(**asked).prepare()))


async def _send(door: Door, request: requests.PreparedRequest) -> Response:
    """Through the application itself. From a stream is read what comes at once; then the caller hangs up."""
    url = urlsplit(str(request.url))
    body = request.body.encode() if isinstance(request.body, str) else (request.body or b"")
    headers = [(_latin(name).lower(), _latin(value)) for name, value in request.headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(url.path),
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "root_path": "",
        "headers": [(b"host", url.netloc.encode()), *headers],
        "client": ("127.0.0.1", 12345),
        "server": ("127.0.0.1", 8700),
    }
    told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
    gone = asyncio.Event()
    asked = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Mapping[str, Any]:
        for message in asked:
            return message
        await gone.wait()
        return {"type": "http.disconnect"}

    task = asyncio.create_task(door.app(scope, receive, told.put))  # type: ignore[arg-type]
    task.add_done_callback(lambda _: told.put_nowait({"type": "over"}))
    start, content = await told.get(), b""
    if start["type"] == "over":
        await task
    answered: dict[str, list[str]] = {}
    for name, value in start["headers"]:
        answered.setdefault(name.decode(), []).append(value.decode("latin-1"))
    endless = answered.get("content-type", [""])[0].startswith("text/event-stream")
    while (message := await _next(told, IDLE if endless else DEADLINE))["type"] == "http.response.body":
        content += message.get("body", b"")
    gone.set()
    await task
    return Response(start["status"], answered, content, request, elapsed=0.0, verify=False)


async def _next(told: asyncio.Queue[Mapping[str, Any]], patience: float) -> Mapping[str, Any]:
    try:
        return await asyncio.wait_for(told.get(), patience)
    except TimeoutError:
        return {"type": "over"}


def _latin(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


# --- what is said ----------------------------------------------------------------------------------


def honest(house: Neighbours, name: str) -> Any:
    """A body that the operation takes, if it takes one."""
    fay, queue = house.fay, house.fay.things["queue"][0]
    held = {"run_id": fay.things["run_id"][2], "attempt": 1, "epoch": 1}
    seen = {"type": "replica", "rank": 0, "state": "running"}
    hello = {"name": "a2", "engine": "process", "host": "h", "locality": "one-host", "version": "1"}
    file = {"path": "train.py", "mode": 0o644, "size": 1, "sha256": "0" * 64}
    bodies: Mapping[str, Any] = {
        "launch": {"command": ["true"], "queue": queue},
        "launch_batch": {"launches": [{"command": ["true"], "queue": queue}]},
        "launch_grid": {"launch": {"command": ["true"], "queue": queue}, "grid": {"lr": [0.1, 0.2]}},
        "preview_launch": {"command": ["true"], "queue": queue},
        "create_job": {"image": "acme/train:main", "command": ["true"]},
        "rename_job": {"name": "renamed"},
        "set_job_alias": {"version": "v0"},
        "preview_rerun": {"config": {"lr": 1}},
        "rerun_run": {"config": {"lr": 1}},
        "create_queue": {"name": "new", "config": {}},
        "edit_queue": {"config": {}, "order": "fifo", "limits": {"runs": 2}},
        "roll_back_queue": {"version": 1},
        "parse_queue": {"text": "env: {A: '{{a}}'}"},
        "preview_queue": {"text": "env: {A: '{{a}}'}", "variables": {"a": {"type": "string"}}},
        "place_run": {"priority": "high"},
        "set_entity_limits": {"gpus": 4},
        "register_agent": {**hello, "max_jobs": 1, "total": {}, "queues": [queue]},
        "poll_work": {"held": [held], "slots": 1, "free": {}, "wait": 0},
        "send_reports": {"reports": [{**held, "seq": 100, "fact": seen}]},
        "send_usage": {"samples": [{"run_id": held["run_id"], "attempt": 1, "rank": 0, "at": 2.0}]},
        "send_cluster": {"namespace": "ml", "nodes": [{"name": "n1", "total": {}, "free": {}}], "claims": []},
        "leave_agent": {},
        "create_snapshot": {"manifest": {"files": [file]}},
        "create_key": {"label": "another"},
        "create_user": {"name": "newcomer"},
        "create_entity": {"name": "newcomers"},
        "set_member": {"role": "viewer"},
    }
    if name in (
        "register_agent",
        "poll_work",
        "send_reports",
        "send_usage",
        "send_cluster",
        "leave_agent",
    ):
        return {"incarnation": fay.agent.incarnation, **bodies[name]}
    return bodies.get(name)


@dataclass(frozen=True, kw_only=True)
class Filler:
    """Puts things there are into what was generated, and sees to it that nobody waits."""

    house: Neighbours
    operation: str
    choose: Choose

    def fill(self, case: Asking) -> None:
        case.path_parameters = self._filled(case.path_parameters)
        case.query = self._filled(case.query)
        if isinstance(case.body, dict | list):
            case.body = self._filled(self._mixed(case.body))
        if PROTOCOL_HEADER in (case.headers or {}):
            case.headers[PROTOCOL_HEADER] = self.choose([PROTOCOL] * 9 + [case.headers[PROTOCOL_HEADER]])
        if "Last-Event-ID" in (case.headers or {}) and self.choose([True, False]):
            del case.headers["Last-Event-ID"]  # hardly any is right, and then nothing follows

    def _mixed(self, body: Any) -> Any:
        """As generated; or what is right, with no or one part of it as generated."""
        good = honest(self.house, self.operation)
        if not isinstance(good, dict) or not isinstance(body, dict) or self.choose([True, False, False]):
            return body
        part = self.choose([None, *body])
        return good if part is None else {**good, part: body[part]}

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if isinstance(value, dict):
            return {name: self._one(name, item) for name, item in value.items()}
        return value

    def _one(self, name: str, item: Any) -> Any:
        if name == "wait" and isinstance(item, int | float):
            return min(item, 0)
        known = self._known(name)
        if isinstance(item, str) and known:
            return self.choose([item, *known])
        if name == "queues" and isinstance(item, list):
            return self.choose([item, *([queue] for queue in self._known("queue"))])
        return self._filled(item)

    def _known(self, name: str) -> list[str]:
        """Hers come more often than his, but for what is only looked at."""
        named = NAMED.get(self.operation.partition("_")[2], "")
        kinds = {"name": named, "run": "run_id", "group": "group_id", "snapshot": "snapshot_id"}
        kind = kinds.get(name, name)
        hers, his = self.house.fay.things.get(kind, []), self.house.zed.things.get(kind, [])
        return hers + his if self.operation in LOOKS else hers * 3 + his


def by_chance(seed: str) -> Choose:
    """The same chance every time."""
    return random.Random(seed).choice  # noqa: S311 - it has to repeat


# --- what comes back -------------------------------------------------------------------------------


def judge(case: Asking, response: Response, *, may_see_all: bool = False) -> None:
    if case.method.upper() == case.operation.method.upper():
        case.validate_response(response, checks=CHECKS)
    else:
        assert response.status_code == 405, (case, response.content)
        assert response.headers["content-type"] == ["application/problem+json"]
    if not may_see_all:
        assert MARK.encode() not in response.content + str(response.headers).encode(), case


def edges(operation: Operation, *modes: GenerationMode) -> Iterator[Asking]:
    """The limits of all that the operation takes, one by one."""
    schema = operation.schema
    config = schema.config.generation_for(operation=operation)
    yield from schema.iter_coverage_cases(operation, generation_modes=list(modes), generation_config=config)


RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


def fuzz(house: Neighbours, operation: Operation, examples: int, *, key: str, admin: bool = False) -> None:
    name = operation.definition.raw["operationId"]
    generated = st.one_of([operation.as_strategy(generation_mode=mode) for mode in (RIGHT, WRONG)])

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=generated, data=st.data())
    def visit(case: Asking, data: st.DataObject) -> None:
        choose: Choose = lambda options: data.draw(st.sampled_from(options))  # noqa: E731
        Filler(house=house, operation=name, choose=choose).fill(case)
        judge(case, send(house.door, case, key=key), may_see_all=admin)

    visit()


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_keeps_to_the_document_and_to_its_callers_things(
    house: Neighbours, operations: Mapping[str, Operation], name: str
) -> None:
    house.begin_anew()
    before = house.of_zed()
    filler = Filler(house=house, operation=name, choose=by_chance(name))
    for case in edges(operations[name], RIGHT, WRONG):
        filler.fill(case)
        judge(case, send(house.door, case, key=house.fay.key))
    fuzz(house, operations[name], SHALLOW, key=house.fay.key)
    assert house.of_zed() == before


@pytest.mark.parametrize("name", OPERATIONS)
def test_nobody_is_let_in_without_a_key(
    house: Neighbours, operations: Mapping[str, Operation], name: str
) -> None:
    house.begin_anew()
    before = all_rows(house.door)
    filler = Filler(house=house, operation=name, choose=by_chance(name))
    for case in edges(operations[name], RIGHT):
        filler.fill(case)
        response = send(house.door, case, key=None)
        judge(case, response)
        assert (response.status_code == 401) == (name not in OPEN), case
    assert all_rows(house.door) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("who", ["user", "agent", "run", "admin"])
def test_whoever_calls_for_long_an_operation_keeps_to_the_document(
    house: Neighbours, operations: Mapping[str, Operation], name: str, who: str
) -> None:
    house.begin_anew()
    before = house.of_zed()
    fuzz(house, operations[name], DEEP, key=house.key_of(who), admin=who == "admin")
    if who != "admin":
        assert house.of_zed() == before
