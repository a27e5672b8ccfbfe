"""The door is closed unless it is opened on purpose: every route, every role."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from door import Door, held, open_door, replica
from muster.domain.access import KeyKind
from muster.server.setup import DataDir, ensure_local_user
from muster.service.accounts import code_token

OPEN = {"/healthz", "/readyz", "/{page:page}", "/api/docs"}  #: and /api/openapi.json, which is no API route
READS = {"GET", "HEAD"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


@dataclass(frozen=True, kw_only=True)
class Operation:
    name: str
    method: str
    path: str

    def filled(self, **places: str) -> str:
        return re.sub(r"{(\w+)}", lambda match: places.get(match[1], "x"), self.path)


def operations(door: Door) -> list[Operation]:
    """All that the application answers to, whether its OpenAPI document says so or not."""
    found = list(walk(door.app.routes))
    assert len(found) > 35
    return found


def walk(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[Operation]:
    for route in routes:
        if isinstance(route, APIRoute):
            for method in sorted(route.methods or ()):
                yield Operation(name=route.name, method=method, path=prefix + route.path)
        elif included := getattr(route, "include_context", None):  # a router that was included whole
            yield from walk(included.included_router.routes, prefix + included.prefix)
        else:
            assert getattr(route, "path", None) == "/api/openapi.json", route


def test_without_a_key_everything_is_closed_but_what_is_open_on_purpose(door: Door) -> None:
    for operation in operations(door):
        answer = door.call(operation.method, operation.filled(), {}, key=None)
        if operation.path in OPEN:
            assert answer.status_code == 200, operation
            continue
        assert answer.status_code == 401, operation
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["code"] == "not_signed_in"


@pytest.mark.parametrize("path", ["/api/openapi.json", "/healthz", "/readyz", "/api/docs"])
def test_what_is_open_is_open(door: Door, path: str) -> None:
    assert door.call("GET", path, key=None).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/runs", "/api/v1/runs/x/y/z"])
def test_a_path_that_is_not_there_is_a_problem_document(door: Door, path: str) -> None:
    answer = door.call("GET", path, key=None)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.headers["content-type"] == "application/problem+json"


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


def test_a_method_that_is_not_there_is_a_problem_document_that_names_those_that_are(door: Door) -> None:
    there: dict[str, set[str]] = {"/api/openapi.json": READS}
    for operation in operations(door):
        there.setdefault(operation.filled(), set()).add(operation.method)
    for name in ("parse", "preview"):  # a queue may be called so
        there[f"/api/v1/queues/{name}"] |= {"GET", "PATCH", "DELETE"}
    for path, methods in there.items():
        for method in (method for method in METHODS if method not in methods):
            answer = door.call(method, path, key=None)
            assert answer.status_code == 405, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert set(answer.headers["allow"].split(", ")) == methods, (method, path)


def test_every_route_is_an_operation_with_a_name_of_its_own(door: Door) -> None:
    names = [operation.name for operation in operations(door)]
    assert len(set(names)) == len(names)
    document = door.call("GET", "/api/openapi.json").json()
    described = {
        (method.upper(), path): operation["operationId"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    hidden = {"web", "docs"}
    assert described == {(o.method, o.path): o.name for o in operations(door) if o.name not in hidden}


#: What a viewer may do: change things of his own, and what changes nothing.
OWN = {"create_key", "create_entity", "parse_queue", "preview_queue", "sign_in", "sign_out"}
AGENT = {
    "name": "evil",
    "incarnation": "incarnation",
    "engine": "process",
    "host": "h",
    "locality": "l",
    "version": "1",
    "max_jobs": 1,
    "total": {},
    "queues": ["local"],
    "entity": "ann",
}
FILE = {"path": "train.py", "mode": 0o644, "size": 1, "sha256": "0" * 64}
BODIES: dict[str, Any] = {
    "launch": {"command": ["true"], "entity": "ann"},
    "launch_batch": {"launches": [{"command": ["true"], "entity": "ann"}]},
    "launch_grid": {"launch": {"command": ["true"], "entity": "ann"}, "grid": {"lr": [1, 2]}},
    "preview_launch": {"command": ["true"], "entity": "ann"},
    "preview_rerun": {"config": {"lr": 1}},
    "rerun_run": {"config": {"lr": 1}},
    "create_job": {"image": "acme/train:main", "command": ["true"], "entity": "ann"},
    "rename_job": {"name": "mine"},
    "delete_job": None,
    "set_job_alias": {"version": "v0"},
    "remove_job_alias": None,
    "stop_group": None,
    "stop_run": None,
    "place_run": {"priority": "high"},
    "delete_run": None,
    "create_queue": {"name": "mine", "config": {}, "entity": "ann"},
    "edit_queue": {"config": {}},
    "delete_queue": None,
    "pause_queue": None,
    "resume_queue": None,
    "drain_queue": None,
    "roll_back_queue": {"version": 1},
    "register_agent": AGENT,
    "delete_agent": None,
    "pause_agent": None,
    "resume_agent": None,
    "poll_work": {"incarnation": "a1-incarnation", "slots": 1, "free": {}, "wait": 0},
    "send_reports": {"incarnation": "a1-incarnation", "reports": []},
    "send_logs": {"incarnation": "a1-incarnation", "pieces": []},
    "send_usage": {"incarnation": "a1-incarnation", "samples": []},
    "send_cluster": {"incarnation": "a1-incarnation", "namespace": "ml"},
    "leave_agent": {"incarnation": "a1-incarnation"},
    "create_snapshot": {"manifest": {"files": [FILE]}, "entity": "ann"},
    "upload_blobs": None,
    "revoke_key": None,
    "create_user": {"name": "friend"},
    "set_entity_limits": {"runs": 1},
    "set_member": {"role": "admin"},
    "remove_member": None,
}


NAMES = {
    **dict.fromkeys(("delete_agent", "pause_agent", "resume_agent"), "a1"),
    "set_member": "ann",
    "remove_member": "ann",
    "set_entity_limits": "ann",
    **dict.fromkeys(("rename_job", "delete_job", "set_job_alias", "remove_job_alias"), "job-acme_train"),
}  #: for `{name}`


@pytest.mark.parametrize("role", ["viewer", "stranger"])
def test_who_may_only_look_can_change_nothing(door: Door, role: str) -> None:
    """A new route that changes something must get a line in BODIES."""
    roles = {"ann": role} if role == "viewer" else {}
    key = door.user("eve", **roles)
    agent = door.agent()
    run = door.launch()
    key_id = door.call("GET", "/keys").json()["items"][0]["id"]
    agent.claim()
    grid = door.call("POST", "/launches/grid", {"launch": {"command": ["true"]}, "grid": {"lr": [1]}}).json()
    places = {"run_id": run["id"], "agent_id": agent.id, "key_id": key_id, "user": "ann", "name": "local"}
    door.call("POST", "/jobs", {"image": "acme/train:main", "command": ["true"]})
    places |= {"group_id": grid["id"], "alias": "best"}
    seen = set()
    for operation in operations(door):
        name = operation.name
        if operation.method in READS or name in OWN:
            continue
        seen.add(name)
        places["name"] = NAMES.get(name, "local")
        body = BODIES[name]
        content = json.dumps(body).encode() + b"\n" if name == "send_logs" else None
        path = operation.filled(**places)
        answer = door.call(operation.method, path, body, key=key, content=content, entity="ann")
        assert answer.status_code in (403, 404), (name, answer.status_code, answer.text)
    assert seen == set(BODIES)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/events",
        "/replicas",
        "/why",
        "/manifest",
        "/usage",
        "/logs",
        "/logs/stream",
        "/logs/map",
        "/logs/find",
    ],
)
def test_another_entitys_run_is_not_found(door: Door, path: str) -> None:
    key = door.user("eve")
    run = door.launch()
    answer = door.call("GET", f"/runs/{run['id']}{path}", key=key)
    missing = door.call("GET", f"/runs/zzzzzzzzzz{path}", key=key)
    assert answer.status_code == missing.status_code == 404
    assert answer.text.replace(run["id"], "zzzzzzzzzz") == missing.text, (
        "it cannot be told from one that is not there"
    )


def test_lists_show_only_what_one_may_see(door: Door) -> None:
    key = door.user("eve")
    door.launch()
    door.agent()
    for path in ("/runs", "/queues", "/agents", "/clusters", "/audit"):
        items = door.call("GET", path, key=key).json()["items"]
        assert all(item["entity"] == "eve" for item in items), path
        assert door.call("GET", path, key=key, entity="ann").status_code == 403
    keys = door.call("GET", "/keys", key=key).json()["items"]
    assert [item["user"] for item in keys] == ["eve"]
    entities = door.call("GET", "/entities", key=key).json()["items"]
    assert [item["name"] for item in entities] == ["eve"]
    assert b'queue="local"' not in door.call("GET", "/metrics", key=key).content


def test_a_viewer_can_look(door: Door) -> None:
    key = door.user("eve", ann="viewer")
    run = door.launch()
    assert door.call("GET", f"/runs/{run['id']}", key=key).json()["id"] == run["id"]
    assert len(door.call("GET", "/runs", key=key).json()["items"]) == 1


def test_an_agent_of_another_entity_cannot_write_a_runs_log(door: Door) -> None:
    door.launch()
    claim = door.agent().claim()
    eve = door.user("eve")
    door.call("POST", "/queues", {"name": "local", "config": {}}, key=eve).raise_for_status()
    other = door.agent(key=eve)
    assert other.send_log(claim, 0, b"forged") is None
    assert door.call("GET", f"/runs/{claim['run']['id']}/logs").content == b""


# --- keys ------------------------------------------------------------------------------------------


def test_a_revoked_key_is_refused_at_once(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "laptop"}).json()
    assert door.call("GET", "/me", key=made["key"]).json()["name"] == "ann"
    assert door.call("DELETE", f"/keys/{made['id']}").status_code == 204
    answer = door.call("GET", "/me", key=made["key"])
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")


def test_a_role_taken_away_is_gone_at_once(door: Door) -> None:
    key = door.user("eve", ann="viewer")
    run = door.launch()
    assert door.call("GET", f"/runs/{run['id']}", key=key).status_code == 200
    door.call("DELETE", "/entities/ann/members/eve")
    assert door.call("GET", f"/runs/{run['id']}", key=key).status_code == 404


def test_a_key_is_shown_once(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "laptop"}).json()
    assert made["key"] not in door.call("GET", "/keys").text
    assert made["key"] not in door.call("GET", "/audit").text


def test_a_key_that_expires_expires(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "laptop", "days": 1}).json()
    door.clock.advance(timedelta(days=1, seconds=1))
    assert door.call("GET", "/me", key=made["key"]).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Basic ???",
        "Basic bm9wZQ==",
        "Digest x",
        "Bearer mr-x-1-y",
    ],
)
def test_a_header_that_is_no_key_is_401(door: Door, header: str) -> None:
    answer = door.call(
        "GET", "/runs", key=None, headers={"Authorization": header.encode("latin-1").decode("latin-1")}
    )
    assert answer.status_code == 401


def test_a_key_may_come_as_the_password_of_basic(door: Door) -> None:
    word = base64.b64encode(f"api:{door.key}".encode()).decode()
    assert door.call("GET", "/me", key=None, headers={"Authorization": f"Basic {word}"}).status_code == 200


def test_a_server_with_a_local_user_still_wants_a_key_from_elsewhere(tmp_path: Path) -> None:
    for door in open_door(tmp_path, local_user="ann"):
        # The connection of a test is no TCP connection of this machine: nobody can tell whose it is.
        assert door.call("GET", "/me", key=None).status_code == 401


def test_the_local_user_is_the_first_whoever_comes_later(tmp_path: Path) -> None:
    place = DataDir(path=tmp_path)
    for door in open_door(tmp_path):
        place.local_key.write_text(door.key)
        door.clock.advance(1)
        door.call("POST", "/users", {"name": "abe"})
        assert ensure_local_user(door.context, place).local_user == "ann"


# --- a run's own token -----------------------------------------------------------------------------


def test_a_run_token_opens_that_run_and_nothing_else(door: Door) -> None:
    first = door.launch()
    other = door.launch()
    agent = door.agent()
    claims = {claim["run"]["id"]: claim for claim in agent.poll()["claims"]}
    token = claims[first["id"]]["token"]
    me = door.call("GET", "/me", key=token).json()
    assert (me["kind"], me["name"]) == (KeyKind.RUN, f"run/{first['id']}")
    for operation in operations(door):
        if operation.path in OPEN or operation.name in ("get_me", "follow_events", "sign_in"):
            continue
        path = operation.filled(run_id=other["id"], agent_id=agent.id)
        answer = door.call(operation.method, path, BODIES.get(operation.name, {}), key=token)
        refusals = (403, 404) if "{run_id}" in operation.path else (403,)
        assert answer.status_code in refusals, (operation, answer.text)
    for path in ("", "/events", "/why", "/logs", "/replicas", "/manifest"):
        assert door.call("GET", f"/runs/{first['id']}{path}", key=token).status_code == 200
    assert door.call("DELETE", f"/runs/{first['id']}", key=token).status_code == 403
    assert door.call("POST", f"/runs/{first['id']}/stop", key=token).json()["state"] == "stopping"
    agent.report(claims[first["id"]], replica("stopped"))
    assert door.call("GET", f"/runs/{first['id']}", key=token).status_code == 401
    assert agent.poll(held(claims[other["id"]]))["drops"] == []


def snapshot_of(door: Door, content: bytes) -> str:
    """A snapshot of one file, uploaded."""
    digest = hashlib.sha256(content).hexdigest()
    file = {"path": "train.py", "mode": 0o644, "size": len(content), "sha256": digest}
    made = door.call("POST", "/snapshots", {"manifest": {"files": [file]}}).json()
    frame = f"{digest} {len(content)}\n".encode() + content
    door.call("POST", f"/snapshots/{made['id']}/blobs", content=frame).raise_for_status()
    found: str = made["id"]
    return found


def test_a_code_key_reads_that_runs_code_and_nothing_else(door: Door) -> None:
    mine, other = snapshot_of(door, b"mine"), snapshot_of(door, b"other")
    run = door.launch(command=["train.py"], snapshot=mine)
    agent = door.agent()
    claim = agent.claim()
    key = claim["code_key"]
    archive = door.call("GET", f"/snapshots/{mine}/archive", key=key)
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as files:
        assert files.getnames() == ["train.py"]
    sums = door.call("GET", f"/snapshots/{mine}/checksums", key=key)
    assert sums.text == f"{hashlib.sha256(b'mine').hexdigest()}  train.py\n"
    for snapshot, entity in ((other, None), ("x", None), (mine, "eve")):
        for what in ("archive", "checksums"):
            params: dict[str, Any] = {"entity": entity} if entity else {}
            answer = door.call("GET", f"/snapshots/{snapshot}/{what}", key=key, **params)
            assert answer.status_code == 403
    opened = set()
    for operation in operations(door):
        places = {"run_id": run["id"], "agent_id": agent.id, "snapshot_id": mine, "name": "local"}
        body = BODIES.get(operation.name, {})
        answer = door.call(operation.method, operation.filled(**places), body, key=key)
        if operation.path not in OPEN and answer.status_code != 403:
            opened.add(operation.name)
    assert opened == {"download_snapshot", "read_checksums", "sign_in"}  # the last looks at its body alone
    assert door.call("POST", "/session", {"key": key}, key=None).status_code == 401
    assert door.call("GET", f"/snapshots/{mine}/archive", key=claim["token"]).status_code == 403
    agent.report(claim, replica("succeeded"))
    assert door.call("GET", f"/snapshots/{mine}/archive", key=key).status_code == 401


def test_a_run_without_code_has_no_code_key(door: Door) -> None:
    door.launch()
    agent = door.agent()
    claim = agent.claim()
    assert claim["code_key"] is None
    forged = code_token(door.context.secret, claim["run"]["id"], 1)
    assert door.call("GET", "/snapshots/x/archive", key=forged).status_code == 401


def test_an_agent_key_serves_one_entity_and_launches_nothing(door: Door) -> None:
    made = door.call("POST", "/keys", {"label": "node-7", "kind": "agent"}).json()
    key = made["key"]
    agent = door.agent(key=key)
    run = door.launch()
    claim = agent.claim()
    assert claim["run"]["id"] == run["id"]
    assert agent.report(claim, replica("succeeded")) == []
    refused = [
        ("POST", "/launches", {"command": ["true"]}),
        ("POST", "/keys", {"label": "more"}),
        ("POST", "/entities", {"name": "team"}),
        ("POST", "/users", {"name": "friend"}),
        ("DELETE", f"/runs/{run['id']}", None),
        ("POST", "/queues/local/pause", None),
        ("DELETE", "/agents/a1", None),
    ]
    for method, path, body in refused:
        assert door.call(method, path, body, key=key).status_code == 403, path
