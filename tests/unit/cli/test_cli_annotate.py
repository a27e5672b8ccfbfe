"""YAML with the source of each value."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cli import yamlfile
from muster.cli.annotate import annotated
from muster.domain.provenance import pointers, uniform

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30) | st.sampled_from(
    ["# no comment", "a\nb\n", "x " * 200, "'", '"', "- a", "key: value", "", "~", "true", "7", "a\n\n b"]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def test_every_value_has_its_source_behind_it() -> None:
    tree = {"a": {"nvidia.com/gpu": 2}, "b": ["x", {}], "c": "one\ntwo\n"}
    sources = {"/a/nvidia.com~1gpu": "variable gpus", "/b/0": "queue v1", "/b/1": "launch", "/c": "override"}
    assert [" ".join(line.split()) for line in annotated(tree, sources).splitlines()] == [
        "a:",
        "nvidia.com/gpu: 2 # variable gpus",
        "b:",
        "- x # queue v1",
        "- {} # launch",
        "c: | # override",
        "one",
        "two",
    ]


@settings(max_examples=30)  # reading YAML takes its time
@given(st.dictionaries(TEXT, TREES, max_size=4))
def test_it_is_the_same_yaml_whatever_is_in_it(tree: dict[str, Any]) -> None:
    assert yamlfile.parse(annotated(tree, pointers(uniform(tree, "x"))), name="x") == tree
