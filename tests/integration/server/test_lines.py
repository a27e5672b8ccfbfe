"""Over HTTP: the line of a queue, its history, a config tried out, agents looked at and paused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from door import Door, open_door

JOB = """\
spec:
  template:
    spec:
      containers:
        - image: ${image_uri}
          resources:
            limits:
              nvidia.com/gpu: "{{gpus}}"
"""
GPUS = {"gpus": {"type": "integer", "default": 2, "minimum": 1, "maximum": 4}}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    yield from open_door(tmp_path_factory.mktemp("door"))


@pytest.fixture
def door(house: Door) -> Door:
    return house.begin_anew()


def test_what_waits_is_shown_in_order_and_moved(door: Door) -> None:
    a, b, c = (door.launch(name=name)["id"] for name in "abc")
    line = door.call("GET", "/queues/local/line").json()
    assert [run["id"] for run in line["items"]] == [a, b, c]
    assert (line["more"], line["users"]) == (0, 1)
    placed = door.call("POST", f"/runs/{c}/place", {"priority": "high"}).raise_for_status().json()
    assert placed["priority"] == "high"
    door.call("POST", f"/runs/{b}/place", {"before": a}).raise_for_status()
    short = door.call("GET", "/queues/local/line", limit=2).json()
    assert [run["id"] for run in short["items"]] == [c, b]
    assert short["more"] == 1


@pytest.mark.parametrize("body", [{}, {"priority": "high", "before": "x"}, {"before": "x", "behind": "y"}])
def test_a_place_is_exactly_one_thing(door: Door, body: dict[str, str]) -> None:
    run = door.launch()
    answer = door.call("POST", f"/runs/{run['id']}/place", body)
    assert (answer.status_code, answer.json()["detail"]) == (422, "A run has one place.")


def test_a_queue_tells_its_oldest_wait_and_its_gpus(door: Door) -> None:
    first = door.launch()
    door.launch()
    queue = door.call("GET", "/queues/local").json()
    assert queue["oldest_waiting_at"] == first["created_at"]
    assert (queue["gpus_used"], queue["gpus_total"]) == (0, 0)
    door.agent()
    queue = door.call("GET", "/queues/local").json()
    [agent] = door.call("GET", "/agents").json()["items"]
    assert queue["gpus_total"] == agent["total"]["gpus"]


def test_the_history_counts_what_waits_now(door: Door) -> None:
    door.launch()
    history = door.call("GET", "/queues/local/history", hours=1, points=4).json()
    assert len(history["at"]) == len(history["waiting"]) == 4
    assert history["waiting"] == [0, 0, 0, 1]
    assert history["whole"]


# --- a config tried out ----------------------------------------------------------------------------


def test_a_config_is_tried_out_before_it_is_a_queue(door: Door) -> None:
    asked = {"text": JOB, "resource": "kubernetes", "variables": GPUS}
    found = door.call("POST", "/queues/preview", asked).raise_for_status().json()
    [workload] = found["manifest"]["items"] if "items" in found["manifest"] else [found["manifest"]]
    container = workload["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "your/image:tag"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert "variable gpus" in found["sources"].values()
    chosen = door.call("POST", "/queues/preview", {**asked, "values": {"gpus": 4}}).json()
    assert chosen["values"] == {"gpus": 4}
    assert chosen["resources"]["gpus"] == 4
    assert [queue["name"] for queue in door.call("GET", "/queues").json()["items"]] == ["local"]


def test_a_config_for_processes_is_tried_with_a_command(door: Door) -> None:
    asked = {
        "text": "env: {DATA: '{{data}}'}",
        "variables": {"data": {"type": "string", "choices": ["tiny"]}},
    }
    found = door.call("POST", "/queues/preview", asked).raise_for_status().json()
    [replica] = found["manifest"]["replicas"]
    assert replica["command"][-1] == "train.py"
    assert replica["env"]["DATA"] == "tiny"


def test_an_image_of_the_templates_own_stays(door: Door) -> None:
    text = JOB.replace("${image_uri}", "acme/own:1")
    asked = {"text": text, "resource": "kubernetes", "variables": GPUS}
    found = door.call("POST", "/queues/preview", asked).raise_for_status()
    assert "acme/own:1" in found.text
    assert "your/image" not in found.text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"text": "env:\n  A: 1\n  A: 2\n"}, "the key 'A' is there twice"),
        ({"text": "envv: {}"}, "envv"),
        ({"text": "env: {A: '{{a}}'}"}, "which is not declared"),
        ({"text": "env: {}", "values": {"a": 1}}, 'has no variable "a"'),
        ({"text": "{}", "resource": "docker"}, "no engine 'docker' yet"),
    ],
)
def test_what_could_not_be_a_queue_is_refused(door: Door, change: dict[str, object], told: str) -> None:
    answer = door.call("POST", "/queues/preview", change)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_rules_that_a_file_states_are_told_with_what_is_in_it(door: Door) -> None:
    text = "order: fifo\nlimits: {gpus: 4}\nconfig: {env: {A: b}}\n"
    found = door.call("POST", "/queues/parse", {"text": text}).json()
    assert found["rules"] == {"order": "fifo", "limits": {"gpus": 4}}
    assert found["config"] == {"env": {"A": "b"}}


# --- agents ----------------------------------------------------------------------------------------


def test_an_agent_shows_what_it_has_and_what_it_said_last(door: Door) -> None:
    run = door.launch(name="mine")
    agent = door.agent()
    agent.claim()
    found = door.call("GET", "/agents/a1").raise_for_status().json()
    assert found["agent"]["running"] == 1
    assert [item["id"] for item in found["runs"]] == [run["id"]]
    assert found["words"][0]["run_name"] == "mine"
    assert found["words"][0]["data"]["to"] == "claimed"
    missing = door.call("GET", "/agents/nobody")
    assert missing.status_code == 404


def test_an_agent_is_paused_and_resumed_by_name(door: Door) -> None:
    agent = door.agent()
    assert door.call("POST", "/agents/a1/pause").json()["paused_at"] is not None
    door.launch()
    assert agent.poll()["claims"] == []
    assert door.call("POST", "/agents/a1/resume").json()["paused_at"] is None
    assert len(agent.poll()["claims"]) == 1
