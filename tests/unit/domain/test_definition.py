"""A queue's file: its config alone, or that beside variables and rules; and what is found in it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.definition import read_config, read_definition
from muster.domain.document import Path
from muster.domain.errors import BadDocument
from muster.domain.suggest import suggested_type
from muster.domain.survey import survey

WHOLE = "resource: process\nlimits: {runs: 2}\nvariables: {a: {type: string}}\nconfig: {env: {A: '{{a}}'}}\n"
OBJECTS = "kind: Service\n---\n# the workload\nkind: Job\nspec: {parallelism: '{{n}}'}\n---\n"


def test_a_whole_file_is_taken_apart() -> None:
    said = read_definition(WHOLE)
    assert (said.resource, said.config) == ("process", {"env": {"A": "{{a}}"}})
    assert (said.variables, said.policy) == ({"a": {"type": "string"}}, {"limits": {"runs": 2}})
    assert said.place(("env", "A")) == (4, 19)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("env: {A: b}\n", {"env": {"A": "b"}}),
        ("kind: Thing\nconfig: {}\nspec: {}\n", {"kind": "Thing", "config": {}, "spec": {}}),
        ("{}\n", {}),
    ],
)
def test_a_file_without_these_keys_is_the_config(text: str, config: dict[str, Any]) -> None:
    said = read_definition(text)
    assert (said.config, said.resource, said.variables, said.policy) == (config, None, None, {})


def test_a_file_may_speak_of_rules_alone() -> None:
    said = read_definition("order: fifo\n")
    assert (said.config, said.policy) == (None, {"order": "fifo"})


def test_several_documents_are_a_list_of_objects() -> None:
    config = read_config(OBJECTS, resource="kubernetes")
    assert config == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"kind": "Service"}, {"kind": "Job", "spec": {"parallelism": "{{n}}"}}],
    }
    with pytest.raises(BadDocument, match="Line 4, column 1: a second document begins here"):
        read_config(OBJECTS, resource="process")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config: 3\n", "q:1:9: config is not a mapping"),
        ("config: {}\nresource: [1]\n", "q:2:11: resource is not text"),
        ("config: {}\nsecurity: tight\n", "q:2:11: security: 'tight' is not possible"),
        ("config: {}\nordr: fifo\n", "q:2:7: the queue has no key 'ordr'"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is(text: str, told: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_definition(text, name="q")
    assert told in caught.value.detail


def test_a_survey_gives_every_use_its_place() -> None:
    said = read_definition(OBJECTS, resource="kubernetes")
    found = survey(said, resource="kubernetes", declared={})
    (variable,) = found.variables
    assert (variable.uses[0].path, variable.uses[0].line) == ("items[1].spec.parallelism", 5)
    assert [item.kind for item in found.objects] == ["Service", "Job"]
    assert found.missing == [variable]


@pytest.mark.parametrize(
    ("name", "path", "kind"),
    [
        ("x", ("spec", "replicas"), "integer"),
        ("gpus", ("resources", "gpus"), "integer"),
        ("x", ("limits", "nvidia.com/gpu"), "integer"),
        ("x", ("limits", "cpu"), "quantity"),
        ("x", ("resources", "cpus"), "number"),
        ("x", ("resources", "memory"), "quantity"),
        ("mem", ("spec", "x"), "quantity"),
        ("use_spot", ("x",), "boolean"),
        ("gpus", ("env", 0, "value"), "string"),
        ("dataset", ("spec", "x"), "string"),
        ("memo", ("annotations", "note"), "string"),
    ],
)
def test_a_type_is_guessed_from_name_and_place(name: str, path: Path, kind: str) -> None:
    assert suggested_type(name, [path]) == kind
