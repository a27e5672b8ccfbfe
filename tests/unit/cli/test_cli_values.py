from __future__ import annotations

from typing import Any

import pytest

from muster.cli.usage import BadUsage
from muster.cli.values import inputs, pairs


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.01", 0.01),
        ("1e-3", 0.001),
        ("-2", -2),
        ("true", True),
        ("null", None),
        ("adam", "adam"),
        ("no", "no"),
        ("", ""),
        ("-", "-"),
        ("#fff", "#fff"),
        ("a: b", "a: b"),
        ("x=y", "x=y"),
        ("2024-01-01", "2024-01-01"),
        (".nan", ".nan"),
        ("'5'", "5"),
        ("[64, 64]", [64, 64]),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_inputs_are_read_as_yaml_scalars(text: str, value: object) -> None:
    assert inputs([f"k={text}"]) == {"k": value}


def test_dotted_names_nest() -> None:
    given = ["lr=0.1", "optim.name=adam", "optim.betas=[0.9, 0.999]", "a.b.c=1"]
    expected: dict[str, Any] = {
        "lr": 0.1,
        "optim": {"name": "adam", "betas": [0.9, 0.999]},
        "a": {"b": {"c": 1}},
    }
    assert inputs(given) == expected


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["lr"], "--config lr: this is not NAME=VALUE."),
        (["=1"], "this is not NAME=VALUE"),
        (["a=1", "a=2"], "gives 'a' twice"),
        (["a=1", "a.b=2"], "'a' is a value already"),
        (["a.b=2", "a=1"], "it has a value already"),
        (["a..b=2"], "a part of the name is empty"),
        (["p=[INST] hi"], "Quote it to make it text: --config p=\"'[INST] hi'\""),
    ],
)
def test_inputs_that_cannot_be_meant_are_bad_usage(given: list[str], told: str) -> None:
    with pytest.raises(BadUsage) as caught:
        inputs(given)
    assert told in str(caught.value)


def test_values_keep_everything_behind_the_first_equals_sign() -> None:
    assert pairs("--env", ["A=b=c", "B="], example="A=b") == {"A": "b=c", "B": ""}
