"""The process engine's queue config."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.errors import BadQuantity, BadTemplate, MusterError, UnknownKey
from muster.domain.resources import Resources
from muster.engine.process.config import ProcessConfig


def test_an_empty_config_asks_for_nothing() -> None:
    assert ProcessConfig.parse({}) == ProcessConfig(
        resources=Resources(), env={}, workdir=None, stop_grace=30.0, python=None
    )


def test_all_keys_are_read() -> None:
    config = ProcessConfig.parse(
        {
            "resources": {"cpus": "1500m", "memory": "2Gi", "gpus": 1},
            "env": {"TEXT": "x", "NUMBER": 3, "SHARE": 0.5, "ON": True, "OFF": False},
            "workdir": "src",
            "stop_grace": "5",
            "python": "/opt/python",
        }
    )
    assert config == ProcessConfig(
        resources=Resources(millicpus=1500, memory=2 * 2**30, gpus=1),
        env={"TEXT": "x", "NUMBER": "3", "SHARE": "0.5", "ON": "true", "OFF": "false"},
        workdir="src",
        stop_grace=5.0,
        python="/opt/python",
    )


@pytest.mark.parametrize(
    ("given", "nearest"),
    [({"resorces": {}}, "resources"), ({"resources": {"gpu": 1}}, "gpus"), ({"stopgrace": 3}, "stop_grace")],
)
def test_an_unknown_key_names_the_nearest(given: dict[str, Any], nearest: str) -> None:
    with pytest.raises(UnknownKey) as refused:
        ProcessConfig.parse(given)
    assert refused.value.facts["nearest"] == nearest


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"resources": 3}, BadTemplate),
        ({"resources": {"cpus": "many"}}, BadQuantity),
        ({"resources": {"gpus": 0.5}}, BadQuantity),
        ({"env": ["A=1"]}, BadTemplate),
        ({"env": {"A": None}}, BadTemplate),
        ({"env": {"A": [1]}}, BadTemplate),
        ({"env": {"": "x"}}, BadTemplate),
        ({"env": {"A=B": "x"}}, BadTemplate),
        ({"workdir": 3}, BadTemplate),
        ({"python": ["python"]}, BadTemplate),
        ({"stop_grace": -1}, BadTemplate),
        ({"stop_grace": "soon"}, BadTemplate),
        ({"stop_grace": True}, BadTemplate),
        ({"stop_grace": float("nan")}, BadTemplate),
    ],
)
def test_what_cannot_be_right_is_refused(given: dict[str, Any], error: type[MusterError]) -> None:
    with pytest.raises(error):
        ProcessConfig.parse(given)
