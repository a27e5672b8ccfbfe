"""Inputs: how a job declares them, what a launch may give, how they reach the program."""

from __future__ import annotations

import time
from typing import Any

import pytest

from muster.domain.errors import BadDeclaration, BadInputValue, MusterError, UnknownKey
from muster.domain.inputs import (
    InputDeclaration,
    check_defaults,
    checked_inputs,
    deliver,
    flattened,
    merged,
    nested,
    selected,
)
from muster.domain.schema import MAX_NODES, Schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "lr": {"type": "number", "default": 0.1, "minimum": 0, "maximum": 1},
        "seed": {"type": "integer"},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "optimizer": {"$ref": "#/$defs/Optimizer"},
        "layers": {"type": "array", "items": {"$ref": "#/$defs/Layer"}, "maxItems": 3},
        "data": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "stop": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "additionalProperties": False,
    "$defs": {
        "Optimizer": {
            "type": "object",
            "properties": {
                "name": {"enum": ["adam", "sgd"], "default": "adam"},
                "betas": {"type": "array", "items": {"type": "number"}},
            },
            "additionalProperties": False,
        },
        "Layer": {"type": "object", "properties": {"size": {"type": "integer", "default": 64}}},
    },
}
DECLARED = InputDeclaration.parse({"schema": SCHEMA})


def schema(**rule: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": rule}}


def test_defaults_are_filled_in_at_every_level_and_in_the_order_declared() -> None:
    inputs = checked_inputs(DECLARED, {"layers": [{}, {"size": 8}], "seed": 1})
    assert list(inputs.items()) == [
        ("lr", 0.1),
        ("seed", 1),
        ("optimizer", {"name": "adam"}),
        ("layers", [{"size": 64}, {"size": 8}]),
        ("stop", None),
    ]


def test_an_object_that_needs_more_than_defaults_is_not_made_up() -> None:
    assert "data" not in checked_inputs(DECLARED, {})


def test_what_was_given_and_the_declaration_stay_as_they_are() -> None:
    given: dict[str, Any] = {"layers": [{}]}
    first = checked_inputs(DECLARED, given)
    first["layers"][0]["size"] = 0
    assert given == {"layers": [{}]}
    assert checked_inputs(DECLARED, given)["layers"] == [{"size": 64}]


@pytest.mark.parametrize(
    ("given", "name", "rule", "said"),
    [
        ({"lr": 3}, "lr", "maximum", "lr=3 is above the maximum of 1. Use --config lr=0 … 1."),
        ({"lr": -1}, "lr", "minimum", "lr=-1 is below the minimum of 0."),
        ({"lr": "fast"}, "lr", "type", "lr=fast is not of type number."),
        ({"seed": 1.5}, "seed", "type", "seed=1.5 is not of type integer."),
        ({"name": 7}, "name", "type", "Quote what looks like a number"),
        ({"name": "A!"}, "name", "pattern", "name=A! is not of the form ^[a-z]+$."),
        (
            {"optimizer": {"name": "adan"}},
            "optimizer.name",
            "enum",
            "is not among the choices adam, sgd. Use --config optimizer.name=adam or sgd.",
        ),
        ({"optimizer": {"betas": [1, "b"]}}, "optimizer.betas[1]", "type", "optimizer.betas[1]=b is not"),
        (
            {"optimizer": {"nam": "sgd"}},
            "optimizer.nam",
            "additionalProperties",
            "There is no input 'optimizer.nam'. Did you mean 'optimizer.name'?",
        ),
        ({"lrr": 1}, "lrr", "additionalProperties", "There is no input 'lrr'. Did you mean 'lr'?"),
        (
            {"data": {}},
            "data.path",
            "required",
            "The input 'data.path' is missing. Give it: --config data.path=…",
        ),
        (
            {"stop": "never"},
            "stop",
            "anyOf",
            "of none of the forms allowed: not of type integer, not of type null",
        ),
        ({"layers": [{}] * 4}, "layers", "maxItems", "more than 3 items"),
    ],
)
def test_a_refusal_names_the_input_its_value_the_rule_and_what_is_allowed(
    given: dict[str, Any], name: str, rule: str, said: str
) -> None:
    with pytest.raises(BadInputValue) as refused:
        checked_inputs(DECLARED, given)
    assert said in str(refused.value)
    assert (refused.value.facts["name"], refused.value.facts["rule"]) == (name, rule)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInputValue, match="Wrong as well: ") as refused:
        checked_inputs(DECLARED, {"lr": 2, "seed": "x", "zzz": 1})
    assert {item["name"] for item in refused.value.facts["problems"]} == {"lr", "seed", "zzz"}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ([], "inputs is not a mapping"),
        ({"shema": {}}, "Did you mean 'schema'?"),
        ({"schema": []}, "inputs.schema is not a mapping"),
        ({"schema": {"type": "array"}}, 'inputs.schema.type is "array"'),
        (
            {"schema": schema(type="numbr")},
            "inputs.schema.properties.a.type: 'numbr' is not a type. Did you mean",
        ),
        ({"schema": schema(minimum="x")}, 'inputs.schema.properties.a.minimum: "x" is not of type'),
        ({"schema": schema(maximum=1, default=2)}, "inputs.schema.properties.a.default breaks its own rule"),
        ({"schema": schema(pattern="(?=x)")}, "inputs.schema.properties.a.pattern: '(?=x)' is not a pattern"),
        ({"schema": schema(pattern=r"(a)\1")}, "no look-around and no back-references"),
        ({"schema": schema(pattern="((a{99}){99}){99}")}, "is not a pattern that can be used"),
        ({"schema": schema(**{"$ref": "https://example.org/x.json"})}, "which is not in $defs"),
        ({"schema": schema(**{"$ref": "#"})}, "which is not in $defs"),
        ({"schema": schema(**{"$ref": "#/$defs/x"})}, "which is not in $defs"),
        ({"schema": schema(**{"$id": "https://example.org/"})}, "properties.a uses $id"),
        ({"schema": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "is written in"),
        ({"schema": {"$schema": 7}}, "is written in"),
        ({"schema": {"title": float("nan")}}, "what JSON cannot write"),
        ({"schema": {"title": "\ud800"}}, "what JSON cannot write"),
        ({"schema": {"title": "x" * 200_000}}, "128 KiB are allowed"),
        ({"schema": SCHEMA, "arguments": ["lrr"]}, "Did you mean 'lr'?"),
        ({"schema": SCHEMA, "arguments": ["optimizer.nam"]}, "Did you mean 'optimizer.name'?"),
        ({"arguments": ["a", "a"]}, "twice"),
        ({"arguments": "lr"}, "neither a list"),
        ({"arguments": {"lr": "--learning rate"}}, "not the name of an option"),
        ({"arguments": {"lr": 1}}, "not the name of an option"),
        ({"arguments": ["a..b"]}, "not the name of an input"),
        ({"files": ["/etc/passwd.yaml"]}, "does not lead to a file within the code"),
        ({"files": ["../x.yaml"]}, "does not lead to a file within the code"),
        ({"files": ["a/./x.yaml"]}, "does not lead to a file within the code"),
        ({"files": ["x.ini"]}, "no known format"),
        ({"files": {"x.yaml": "lr"}}, "neither a list of inputs nor true"),
        ({"files": [f"{n}.yaml" for n in range(21)]}, "at most 20"),
        ({"schema": SCHEMA, "files": {"x.yaml": ["sed"]}}, "Did you mean 'seed'?"),
    ],
    ids=str,
)
def test_a_declaration_that_cannot_be_used_is_refused_with_its_path(declared: Any, said: str) -> None:
    with pytest.raises((BadDeclaration, UnknownKey)) as refused:
        InputDeclaration.parse(declared)
    assert said in str(refused.value)


def test_references_do_not_run_in_circles() -> None:
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"properties": {"x": {"$ref": "#/$defs/a"}}}}
    with pytest.raises(BadDeclaration, match="leads back to"):
        Schema.parse({"$defs": loop}, where="s")


def test_references_do_not_blow_up() -> None:
    doubled = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(BadDeclaration, match=f"more than {MAX_NODES:,} rules"):
        Schema.parse({"$ref": "#/$defs/a0", "$defs": {**doubled, "a40": {}}}, where="s")


def test_nesting_has_an_end() -> None:
    deep: dict[str, Any] = {}
    given: Any = 1
    for _ in range(2000):
        deep, given = {"not": deep}, [given]
    with pytest.raises(BadDeclaration, match="nested"):
        Schema.parse(deep, where="s")
    with pytest.raises(BadInputValue, match="nested"):
        checked_inputs(None, {"a": given})


def test_a_pattern_takes_no_longer_than_its_text() -> None:
    declared = InputDeclaration.parse({"schema": schema(pattern="^(a+)+$")})
    begun = time.thread_time()
    with pytest.raises(BadInputValue):
        checked_inputs(declared, {"a": "a" * 50_000 + "!"})
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize(
    "given", [{"a": "x" * 130_000}, {"a": float("inf")}, {"a": object()}], ids=["long", "inf", "?"]
)
def test_inputs_that_no_program_could_be_given_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInputValue):
        checked_inputs(None, given)


def test_a_declaration_comes_back_as_it_was() -> None:
    for declared in (
        {"schema": SCHEMA, "arguments": ["lr"], "files": {"a.yaml": ["optimizer"], "b.toml": True}},
        {"arguments": True, "files": ["a.json"]},
        {"arguments": {"lr": "-l"}},
        {},
    ):
        parsed = InputDeclaration.parse(declared)
        assert InputDeclaration.parse(parsed.to_data()) == parsed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (None, []),
        (["lr", "optimizer.name"], ["--lr=0.5", "--optimizer.name=sgd"]),
        (["optimizer"], ["--optimizer.name=sgd", "--optimizer.betas=[0.9, 1]"]),
        ({"lr": "--learning-rate"}, ["--learning-rate=0.5"]),
        ({"lr": "-l"}, ["-l", "0.5"]),
        ({"optimizer": "opt"}, ["opt.name=sgd", "opt.betas=[0.9, 1]"]),
        (["stop", "seed"], []),
        (
            True,
            ["--lr=0.5", "--optimizer.name=sgd", "--optimizer.betas=[0.9, 1]"],
        ),
    ],
    ids=str,
)
def test_inputs_become_arguments_where_the_job_says_so(arguments: Any, words: list[str]) -> None:
    declared = InputDeclaration.parse({"schema": SCHEMA, "arguments": arguments})
    given = {"lr": 0.5, "optimizer": {"name": "sgd", "betas": [0.9, 1]}}
    assert list(deliver(declared, given).arguments) == words


def test_an_option_that_was_typed_stands() -> None:
    declared = InputDeclaration.parse({"arguments": ["lr", "steps", "amp"]})
    found = deliver(declared, {"lr": 1, "steps": 2, "amp": True}, ["train.py", "--lr", "3", "--steps=4"])
    assert found.arguments == ("--amp=true",)


def test_names_select_a_part_of_the_inputs() -> None:
    inputs = {"a": {"b": 1, "c": {"d": 2}}, "e": 3, "f": None}
    assert selected(inputs, ("a.c", "e", "x.y", "e.z", "f")) == {"a": {"c": {"d": 2}}, "e": 3, "f": None}
    assert selected(inputs, True) == inputs


def test_recorded_inputs_may_lack_what_a_launch_gives_but_not_break_a_rule() -> None:
    schema = {
        "type": "object",
        "properties": {"lr": {"type": "number"}, "seed": {"type": "integer", "default": 0}},
        "required": ["lr"],
    }
    declared = InputDeclaration.parse({"schema": schema})
    check_defaults(declared, {})
    check_defaults(declared, {"lr": 1})
    with pytest.raises(BadInputValue, match="lr=fast is not of type number"):
        check_defaults(declared, {"lr": "fast"})


def test_flat_names_and_nested_ones_are_the_same_thing() -> None:
    tree = {"a": {"b": 1, "c": {}}, "d": [{"e": 1}], "f": None}
    flat = dict(flattened(tree))
    assert flat == {"a.b": 1, "a.c": {}, "d": [{"e": 1}], "f": None}
    assert nested(flat.items()) == tree
    assert dict(flattened({})) == {}
    assert merged(tree, {"a": {"b": 2}, "d": {}}) == {"a": {"b": 2, "c": {}}, "d": {}, "f": None}


def test_a_schema_made_by_pydantic_is_taken_as_it_is() -> None:
    from pydantic import BaseModel, Field

    class Optimizer(BaseModel):
        name: str = "adam"

    class Config(BaseModel):
        lr: float = Field(default=0.1, gt=0)
        optimizer: Optimizer = Optimizer()

    declared = InputDeclaration.parse({"schema": Config.model_json_schema()})
    assert checked_inputs(declared, {}) == {"lr": 0.1, "optimizer": {"name": "adam"}}
    with pytest.raises(MusterError, match="lr=0 is not above 0"):
        checked_inputs(declared, {"lr": 0})
