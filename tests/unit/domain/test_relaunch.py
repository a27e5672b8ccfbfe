"""Launching again with some things replaced, and saying which."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.relaunch import Change, Recipe, changes, replaced
from muster.domain.training import Training

BASE = Recipe(
    entrypoint=("train.py",),
    arguments=("--epochs", "3"),
    config={"lr": 0.1, "optim": {"name": "sgd", "decay": 0}},
    training=Training(nodes=2, procs_per_node=4),
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"arguments": ("--epochs", "3")}, []),
        ({"arguments": ()}, [("arguments", ["--epochs", "3"], [])]),
        ({"entrypoint": ("eval.py",)}, [("entrypoint", ["train.py"], ["eval.py"])]),
        ({"config": {"lr": 0.01}}, [("config.lr", 0.1, 0.01)]),
        ({"config": {"optim": {"name": "adam"}}}, [("config.optim.name", "sgd", "adam")]),
        ({"config": {"seed": 1}}, [("config.seed", None, 1)]),
        ({"config": {"optim": None}}, [("config.optim", {"name": "sgd", "decay": 0}, None)]),
        ({"training": Training(nodes=4), "given": frozenset({"nodes"})}, [("training.nodes", 2, 4)]),
        (
            {"training": Training(nodes=4)},
            [("training.nodes", 2, 4), ("training.procs_per_node", 4, 1)],
        ),
    ],
)
def test_what_is_given_replaces_and_is_named(given: dict[str, Any], expected: list[Any]) -> None:
    after = replaced(BASE, **given)
    assert changes(BASE, after) == tuple(
        Change(what=what, before=before, after=new) for what, before, new in expected
    )


def test_the_rest_stays() -> None:
    after = replaced(BASE, config={"optim": {"name": "adam"}})
    assert after.command == ("train.py", "--epochs", "3")
    assert after.config == {"lr": 0.1, "optim": {"name": "adam", "decay": 0}}
    assert BASE.config["optim"]["name"] == "sgd"
