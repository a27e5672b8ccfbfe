"""What rendering never does, whatever template, values and launch contain."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters import expanded, work
from muster.domain.provenance import Origins, config_sources, uniform
from muster.domain.template import bind
from muster.domain.variables import Variable
from muster.engine.kubernetes.render import render, trace

TAG = Variable.parse("tag", {"type": "string", "default": ""})
COUNT = Variable.parse("count", {"type": "integer", "default": 1})
MARKS = ["{{tag}}", "{{count}}", "${run_id}", "${run_name}", "$${run_id}", "$", "{{", "}", "$(A)", "é", "a"]
TEXT = st.lists(st.sampled_from(MARKS), max_size=4).map("".join)
KEYS = st.sampled_from(["name", "labels", "metadata", "spec", "env", "x", "y"])
#: What an owner may write anywhere: here it stands in annotations and in a field nobody knows.
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
HOSTILE = st.sampled_from(
    ["{{tag}}", "${run_id}", "$${run_id}", "$(MUSTER_RUN_ID)", "{{count}}${image_uri}", "plain", ""]
) | st.text(max_size=10)


def config_with(free: Any) -> dict[str, Any]:
    container = {"image": "${image_uri}", "resources": {"limits": {"cpu": "{{count}}"}}}
    return {"spec": {"free": free, "template": {"spec": {"containers": [container]}}}}


def outline(tree: Any) -> Any:
    """Keys and types, no values."""
    if isinstance(tree, dict):
        return {key: outline(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [outline(value) for value in tree]
    return type(tree)


@given(TREES, HOSTILE)
def test_rendering_keeps_keys_and_types_and_is_stable(free: Any, value: str) -> None:
    config = config_with(free)
    before = copy.deepcopy(config)
    bound, _ = bind(config, [TAG, COUNT], {"tag": value}, queue="q")
    given = work(bound, "echo")
    once, again = render(given), render(given)
    made = json.loads(json.dumps(once.manifest))
    typed = bind(free, [TAG, COUNT], {"tag": "t"}, queue="q")[0]
    assert outline(made["spec"]["free"]) == outline(typed)
    assert once == again
    assert config == before
    assert bound == bind(config, [TAG, COUNT], {"tag": value}, queue="q")[0]


@given(TREES, HOSTILE)
def test_nothing_in_a_value_is_read_again(free: Any, value: str) -> None:
    opaque = "OPAQUE"
    plain, _ = bind(config_with([free, "{{tag}}"]), [TAG, COUNT], {"tag": opaque}, queue="q")
    hostile, _ = bind(config_with([free, "{{tag}}"]), [TAG, COUNT], {"tag": value}, queue="q")
    wanted: Any = render(work(plain)).manifest["spec"]["free"]
    made: Any = render(work(hostile)).manifest["spec"]["free"]
    free_keys_are_safe = [replaced(item, opaque, value) for item in wanted]
    assert unnamed(made) == unnamed(free_keys_are_safe)


def replaced(tree: Any, old: str, new: str) -> Any:
    if isinstance(tree, dict):
        return {key: replaced(item, old, new) for key, item in tree.items()}
    if isinstance(tree, list):
        return [replaced(item, old, new) for item in tree]
    return tree.replace(old, new) if isinstance(tree, str) else tree


def unnamed(tree: Any) -> Any:
    """Without names and labels: those are made legal, so they are not the text that went in."""
    if isinstance(tree, dict):
        return {key: unnamed(item) for key, item in tree.items() if key not in ("metadata", "labels")}
    return [unnamed(item) for item in tree] if isinstance(tree, list) else tree


@given(TREES, st.lists(HOSTILE, max_size=3), st.dictionaries(st.sampled_from("AB"), HOSTILE))
def test_a_preview_renders_the_same_and_knows_the_source_of_every_leaf(
    free: Any, words: list[str], env: dict[str, str]
) -> None:
    config = config_with(free)
    bound, _ = bind(config, [TAG, COUNT], {}, queue="q")
    given = work(bound, "echo", *words, env=env)
    origins = Origins(config=config_sources(config, bound, (), queue="queue v1"))
    rendered, sources = trace(given, origins)
    assert rendered == render(given)
    assert uniform(sources, "x") == uniform(rendered.manifest, "x")
    assert sources["spec"]["free"] == origins.config["spec"]["free"]


@given(HOSTILE, HOSTILE)
def test_a_command_and_an_environment_arrive_as_they_were_typed(word: str, value: str) -> None:
    bound, _ = bind(config_with(None), [TAG, COUNT], {}, queue="q")
    made: Any = render(work(bound, "echo", word, env={"A": value})).manifest
    container = made["spec"]["template"]["spec"]["containers"][0]
    told = {item["name"]: item.get("value") for item in container["env"]}
    assert [expanded(text) for text in (container["command"][1], told["A"])] == [word, value]
