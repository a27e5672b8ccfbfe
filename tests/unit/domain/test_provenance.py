"""Where values come from, as a preview tells it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.provenance import Origins, config_sources, pointers, uniform

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("plain", "queue v3"),
        ("{{gpus}}", "variable gpus"),
        ("${run_id}", "macro run_id"),
        ("train-${run_id}", "queue v3, macro run_id"),
        ("{{a}}{{b}}", "variable a, variable b"),
        ("{{a}} {{b}}", "queue v3, variable a, variable b"),
        ("${image_uri}:{{tag}}", "queue v3, variable tag, macro image_uri"),
        ("$${run_id}", "queue v3"),
        ("$$${run_id}", "queue v3, macro run_id"),
        (7, "queue v3"),
        ({}, "queue v3"),
        (None, "queue v3"),
    ],
)
def test_a_value_names_all_it_was_made_of(text: object, source: str) -> None:
    assert config_sources({"a": [text]}, {"a": [text]}, (), queue="queue v3") == {"a": [source]}


def test_what_an_override_put_there_is_the_overrides() -> None:
    template = {"a": {"b": "{{x}}"}, "c": 1}
    bound = {"a": {"b": 2, "new": [1, 2]}, "c": 1}
    assert config_sources(template, bound, [(("a",), "override")], queue="q") == {
        "a": {"b": "override", "new": ["override", "override"]},
        "c": "q",
    }


@given(TREES)
def test_every_leaf_has_one_source(tree: Any) -> None:
    assert len(pointers(config_sources(tree, tree, (), queue="q"))) == leaves(tree)
    assert set(pointers(uniform(tree, "x")).values()) == {"x"}


def leaves(tree: Any) -> int:
    """Scalars, and mappings and lists that are empty."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return sum(leaves(value) for value in inner) or 1


def test_a_pointer_is_written_as_the_standard_says() -> None:
    assert pointers({"limits": {"nvidia.com/gpu": [{"a~b": "x"}]}}) == {"/limits/nvidia.com~1gpu/0/a~0b": "x"}


def test_what_was_made_of_a_part_of_the_config_names_all_its_sources() -> None:
    origins = Origins(config={"resources": {"gpus": "variable gpus", "cpus": "queue v1"}})
    assert origins.of_config("resources") == "variable gpus, queue v1"
    assert origins.of_config("resources", "gpus") == "variable gpus"
    assert origins.of_config("workdir") == "injected"
