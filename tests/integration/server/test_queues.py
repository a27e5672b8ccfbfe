"""Queues over HTTP: rules, versions, drain, parsing; and documents with a slip or a trick in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from documents import BAD, HUGE, NAMES
from door import Door, open_door
from muster.domain.document import MAX_NODES
from neighbours import all_rows

CONFIG = {"resources": {"gpus": "{{gpus}}"}}
VARIABLES = {"gpus": {"type": "integer", "default": 1, "minimum": 0, "maximum": 4}}
ASKED: dict[str, Any] = {"name": "lab", "config": CONFIG, "variables": VARIABLES}
RULES: dict[str, Any] = {
    "order": "fifo",
    "priorities": False,
    "limits": {"runs": 8, "user": {"gpus": 2}},
    "overridable": ["spec.parallelism"],
    "allow": ["image"],
    "security": "restricted",
    "default_image": "acme/train:main",
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


@pytest.fixture
def lab(door: Door) -> Door:
    """With a queue `lab`."""
    door.call("POST", "/queues", ASKED).raise_for_status()
    return door


# --- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "problem", "line", "column"), BAD, ids=NAMES)
def test_a_text_with_a_slip_or_a_trick_is_refused_where_it_is_and_nothing_is_kept(
    lab: Door, text: str, problem: str, line: int, column: int
) -> None:
    before = all_rows(lab)
    for method, path, body in (
        ("POST", "/queues", {"name": "bad", "config": text}),
        ("PATCH", "/queues/lab", {"config": text}),
    ):
        answer = lab.call(method, path, body)
        told = answer.json()
        assert (answer.status_code, told["code"]) == (422, "bad_document")
        assert problem in told["detail"]
        assert told["hint"]
        assert (told["facts"]["line"], told["facts"]["column"]) == (line, column)
    found = lab.call("POST", "/queues/parse", {"text": text}).raise_for_status().json()
    if found["errors"][0]["line"] is not None:  # several documents are Kubernetes objects, for all it knows
        assert problem in found["errors"][0]["message"]
        assert found["errors"][0]["line"] == line
    assert not found["usable"]
    assert all_rows(lab) == before


def deep(levels: int) -> Any:
    tree: Any = "x"
    for _ in range(levels):
        tree = {"a": tree}
    return tree


@pytest.mark.parametrize(
    ("content", "status", "told"),
    [
        (json.dumps({"name": "bad", "config": HUGE}), 413, "passed at line 1, column"),
        (json.dumps({"name": "bad", "config": {"env": {"A": HUGE}}}), 413, "larger than"),
        (json.dumps({"name": "bad", "config": {"env": {"A": "x" * 1_100_000}}}), 413, "config is larger"),
        ('{"name": "bad", "config": {"env": {"A": "1", "A": "2"}}}', 422, "The key 'A' is there twice"),
        ('{"name": "bad", "name": "worse", "config": {}}', 422, "The key 'name' is there twice"),
        (
            json.dumps({"name": "bad", "config": {"env": {"A": "x\0y"}}}),
            422,
            "config.env.A: the character U+0000",
        ),
        (json.dumps({"name": "bad", "config": {"env": {"A\x07": "y"}}}), 422, "the character U+0007"),
        (json.dumps({"name": "bad", "config": {"env": {"A": "\ud800"}}}), 422, "U+D800"),
        ('{"name": "bad", "config": {"stop_grace": 1e999}}', 422, "config.stop_grace is inf"),
        (json.dumps({"name": "bad", "config": deep(101)}), 422, "nested more than 100 levels deep"),
        (json.dumps({"name": "bad", "config": {"a": [0] * MAX_NODES}}), 422, "more than 20000 values"),
        (json.dumps({"name": "bad", "config": {}, "variables": {"a": deep(101)}}), 422, "nested more than"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
def test_data_meets_the_same_limits_as_text(door: Door, content: str, status: int, told: str) -> None:
    before = all_rows(door)
    headers = {"Content-Type": "application/json"}
    answer = door.call("POST", "/queues", content=content.encode(), headers=headers)
    assert answer.status_code == status, answer.text
    assert told in answer.json()["detail"]
    assert all_rows(door) == before


def test_a_config_may_be_sent_as_text(door: Door) -> None:
    text = "# ours\nresources:\n  gpus: '{{gpus}}'  # of each node\n"
    made = door.call("POST", "/queues", {**ASKED, "config": text}).raise_for_status().json()
    assert made["config"] == CONFIG
    edited = door.call("PATCH", "/queues/lab", {"config": '{"resources": {"gpus": "{{gpus}}"}, "env": {}}'})
    assert edited.json()["config"] == {**CONFIG, "env": {}}


# --- rules -----------------------------------------------------------------------------------------


def test_rules_are_kept_with_the_version_and_what_an_edit_does_not_name_stays(door: Door) -> None:
    made = door.call("POST", "/queues", {**ASKED, **RULES}).raise_for_status().json()
    told = {**RULES, "limits": {"runs": 8, "gpus": None, "user": {"runs": None, "gpus": 2}}}
    assert {key: made[key] for key in RULES} == told
    edited = door.call("PATCH", "/queues/lab", {"order": "share"}).json()
    assert (edited["version"], edited["order"], edited["config"]) == (2, "share", CONFIG)
    assert {key: edited[key] for key in RULES if key != "order"} == {
        k: v for k, v in told.items() if k != "order"
    }
    reset = door.call("PATCH", "/queues/lab", {"overridable": None, "limits": None}).json()
    assert (reset["version"], reset["overridable"], reset["limits"]["runs"]) == (3, None, None)
    assert door.call("PATCH", "/queues/lab", {"order": "share"}).json()["version"] == 3


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"order": "random"}, "order"),
        ({"limits": {"runs": -1}}, "limits.runs"),
        ({"limits": {"cpus": 1}}, "unknown key 'limits.cpus'"),
        ({"allow": ["everything"]}, "allow"),
        ({"priority": False}, "unknown key 'priority'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(door: Door, rules: dict[str, Any], told: str) -> None:
    answer = door.call("POST", "/queues", {**ASKED, **rules})
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        ("local-container", "has no engine 'docker' yet, which 'local-container' needs"),
        ("slurm", "has no engine 'slurm' yet."),
    ],
)
def test_an_engine_that_is_to_come_is_named(door: Door, resource: str, told: str) -> None:
    answer = door.call("POST", "/queues", {**ASKED, "resource": resource})
    assert (answer.status_code, told in answer.json()["detail"]) == (422, True)


def test_the_name_that_wandb_gives_the_process_engine_is_taken(door: Door) -> None:
    assert (
        door.call("POST", "/queues", {**ASKED, "resource": "local-process"}).json()["resource"] == "process"
    )


# --- versions --------------------------------------------------------------------------------------


def test_versions_are_listed_shown_compared_and_brought_back(lab: Door) -> None:
    lab.call("PATCH", "/queues/lab", {"config": {**CONFIG, "stop_grace": 5}}).raise_for_status()
    lab.call("PATCH", "/queues/lab", {"limits": {"gpus": 4}, "order": "fifo"}).raise_for_status()
    listed = lab.call("GET", "/queues/lab/versions").json()["items"]
    assert [(item["version"], item["changed"]) for item in listed] == [
        (3, ["limits", "order"]),
        (2, ["config"]),
        (1, []),
    ]
    page = lab.call("GET", "/queues/lab/versions", limit=2).json()
    assert ([item["changed"] for item in page["items"]], page["next"]) == (
        [["limits", "order"], ["config"]],
        "2",
    )
    rest = lab.call("GET", "/queues/lab/versions", limit=2, cursor=page["next"]).json()
    assert ([item["version"] for item in rest["items"]], rest["next"]) == ([1], None)

    first = lab.call("GET", "/queues/lab/versions/1").json()
    assert (first["version"], first["newest"], first["config"], first["order"]) == (1, 3, CONFIG, "share")
    wide: dict[str, Any] = {"from": 1, "to": 3}
    diff = lab.call("GET", "/queues/lab/diff", **wide).json()
    assert diff["changed"] == ["config", "limits", "order"]
    lines = diff["diff"].splitlines()
    assert lines[:2] == ["--- lab v1", "+++ lab v3"]
    assert {"+order: fifo", "+limits:", "+  gpus: 4", "+  stop_grace: 5"} <= set(lines)
    narrow: dict[str, Any] = {"from": 2, "to": 2}
    assert lab.call("GET", "/queues/lab/diff", **narrow).json()["diff"] == ""

    back = lab.call("POST", "/queues/lab/rollback", {"version": 1}).json()
    assert (back["version"], back["config"], back["order"], back["limits"]["gpus"]) == (
        4,
        CONFIG,
        "share",
        None,
    )
    assert lab.call("POST", "/queues/lab/rollback", {"version": 4}).json()["version"] == 4
    for method, path, body in (
        ("GET", "/queues/lab/versions/9", None),
        ("POST", "/queues/lab/rollback", {"version": 9}),
    ):
        answer = lab.call(method, path, body)
        assert (answer.status_code, answer.json()["detail"]) == (404, "There is no version 'v9'.")
        assert "v1 … v4" in answer.json()["hint"]


def test_a_member_may_look_at_versions_and_not_bring_one_back(lab: Door) -> None:
    key = lab.user("bob", ann="member")
    assert lab.call("GET", "/queues/lab/versions/1", key=key, entity="ann").status_code == 200
    for path, body in (("rollback", {"version": 1}), ("drain", None)):
        assert lab.call("POST", f"/queues/lab/{path}", body, key=key, entity="ann").status_code == 403


# --- drain -----------------------------------------------------------------------------------------


def test_a_draining_queue_takes_no_launches_until_it_is_resumed(lab: Door) -> None:
    agent = lab.agent(queues=["lab"])
    lab.launch(queue="lab")
    drained = lab.call("POST", "/queues/lab/drain").json()
    assert drained["draining_at"] is not None
    asked = {"command": ["true"], "queue": "lab"}
    for path, body in (
        ("/launches", asked),
        ("/launches/batch", {"launches": [asked]}),
        ("/launches/preview", asked),
    ):
        answer = lab.call("POST", path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert "'lab' is draining" in answer.json()["detail"]
    assert len(agent.poll()["claims"]) == 1  # what waits goes on
    lab.call("POST", "/queues/lab/pause").raise_for_status()
    opened = lab.call("POST", "/queues/lab/resume").json()
    assert (opened["paused_at"], opened["draining_at"]) == (None, None)
    assert lab.launch(queue="lab")["state"] == "queued"


def test_a_queue_without_priorities_refuses_a_launch_that_names_one(lab: Door) -> None:
    lab.call("PATCH", "/queues/lab", {"priorities": False}).raise_for_status()
    assert lab.launch(queue="lab")["priority"] == "medium"
    answer = lab.call("POST", "/launches", {"command": ["true"], "queue": "lab", "priority": "medium"})
    assert (answer.status_code, answer.json()["hint"]) == (422, "Launch without --priority.")


# --- limits of entities ----------------------------------------------------------------------------


def test_only_the_servers_admin_limits_an_entity(door: Door) -> None:
    key = door.user("bob")
    answer = door.call("PUT", "/entities/bob/limits", {"gpus": 4})
    assert answer.json()["limits"] == {"runs": None, "gpus": 4}
    assert door.call("GET", "/entities/bob", key=key).json()["limits"]["gpus"] == 4
    assert door.call("PUT", "/entities/bob/limits", {}, key=key).status_code == 403
    assert door.call("PUT", "/entities/bbo/limits", {}).json()["hint"] == "Did you mean 'bob'?"
    assert door.call("PUT", "/entities/bob/limits", {}).json()["limits"] == {"runs": None, "gpus": None}


# --- parsing ---------------------------------------------------------------------------------------

FILE = """\
order: fifo
variables:
  cpus: {type: number, default: 9, maximum: 4}
  spare: {type: string}
config:
  resources:
    cpus: "{{cpus}}"
    gpus: "{{gpus}}"
  env:
    TAG: "${run_name}-{{tag}} ${LAB}"
"""


def test_parsing_names_every_variable_its_place_and_what_is_wrong(door: Door) -> None:
    before = all_rows(door)
    asked = {"text": FILE, "variables": {"gpus": VARIABLES["gpus"]}}
    found = door.call("POST", "/queues/parse", asked).raise_for_status().json()
    assert (found["usable"], found["resource"]) == (False, "process")
    variables = {item["name"]: item for item in found["variables"]}
    assert list(variables) == ["cpus", "gpus", "tag"]
    assert variables["gpus"]["declared"] == VARIABLES["gpus"]
    assert variables["gpus"]["uses"] == [{"path": "resources.gpus", "line": 8, "column": 11}]
    assert (variables["tag"]["declared"], variables["tag"]["option"]) == (None, "--var tag:string")
    assert [(item["name"], item["known"]) for item in found["macros"]] == [("run_name", True), ("LAB", False)]
    assert [(item["line"], item["message"]) for item in found["errors"]] == [
        (3, 'Variable "cpus": default 9 is above the maximum of 4'),
        (4, 'Variable "spare" is declared, but the template never uses it'),
    ]
    assert all_rows(door) == before


def test_parsing_says_what_the_engine_would_refuse(door: Door) -> None:
    found = door.call("POST", "/queues/parse", {"text": "envs: {A: '{{a}}'}"}).json()
    assert [item["message"] for item in found["errors"]] == ["The process config has no key 'envs'"]
    assert found["errors"][0]["hint"] == "Did you mean 'env'?"


def test_several_documents_are_the_objects_of_a_kubernetes_queue(door: Door) -> None:
    text = "kind: Service\nmetadata: {name: a}\n---\nkind: Job\nspec: {parallelism: '{{nodes}}'}\n"
    found = door.call("POST", "/queues/parse", {"text": text}).json()
    assert found["resource"] == "kubernetes"
    assert found["config"]["kind"] == "List"
    assert [(item["kind"], item["name"], item["use"]["line"]) for item in found["objects"]] == [
        ("Service", "a", 1),
        ("Job", "", 4),
    ]
    (nodes,) = found["variables"]
    assert (nodes["uses"][0]["line"], nodes["suggested"]) == (5, {"type": "integer"})
