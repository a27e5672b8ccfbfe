"""Binding variables, filling macros, and what neither may ever do."""

from __future__ import annotations

import copy
import time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from muster.domain.errors import BadTemplate, BadVariable
from muster.domain.template import (
    MAX_DEPTH,
    Tree,
    bind,
    check_declared,
    fill,
    fill_known,
    find_macros,
    find_variables,
)
from muster.domain.variables import Value, Variable

GPUS = Variable.parse("gpus", {"type": "integer", "default": 1, "min": 1, "max": 4})
TAG = Variable.parse("tag", {"type": "string", "default": "v1"})
RATE = Variable.parse("rate", {"type": "number", "default": 0.5})
DEBUG = Variable.parse("debug", {"type": "boolean", "default": False})
MEMORY = Variable.parse("memory", {"type": "quantity", "default": "8Gi"})
ALL = (GPUS, TAG, RATE, DEBUG, MEMORY)


def bound(tree: Tree, **values: object) -> Tree:
    return bind(tree, ALL, values, queue="q")[0]


def nested(depth: int) -> Tree:
    tree: Tree = "{{gpus}} ${x}"
    for level in range(depth):
        tree = [tree] if level % 2 else {"in": tree}
    return tree


# Finding


def test_variables_are_found_in_values_in_order_and_never_in_keys() -> None:
    tree = {
        "{{key}}": "{{b}}",
        "list": ["x {{ a }} {{b}}", 5, None, True, {"deep": "{{\tc\n}}{{d}}"}],
        "not": "{{}} {{ }} {{2x}} {{a-b}} {{a.b}} {a} {{a b}} {{é}}",
    }

    assert find_variables(tree) == ("b", "a", "c", "d")


def test_macros_are_found_when_live_and_never_in_keys() -> None:
    tree = {
        "${key}": "${b} $${escaped} $$${a}",
        "list": ["${b}", 5, "${a}-${c}"],
        "not": "${} ${a-b} ${HOME:-x} $(d) $e {{f}}",
    }

    assert find_macros(tree) == ("b", "a", "c")


# Checking a queue


def test_a_template_and_its_variables_that_name_the_same_things_pass() -> None:
    check_declared({"a": "{{gpus}}", "b": ["x-{{ tag }}"]}, [TAG, GPUS])


@pytest.mark.parametrize(
    ("tree", "variables", "sentence"),
    [
        (
            "{{gpu}}",
            [GPUS],
            (
                "The template uses {{gpu}}, which is not declared. "
                "Did you mean {{gpus}}? If not, declare it: --var gpu:integer"
            ),
        ),
        (
            "{{zone}}",
            [],
            "The template uses {{zone}}, which is not declared. Declare it: --var zone:string",
        ),
        (
            {"{{gpus}}": 1},
            [GPUS],
            (
                'Variable "gpus" is declared, but the template never uses it. '
                "Write {{gpus}} where its value belongs, or drop the variable."
            ),
        ),
        ("{{gpus}}", [GPUS, GPUS], 'Variable "gpus" is declared twice.'),
    ],
)
def test_a_template_that_does_not_fit_its_variables_is_refused(
    tree: Tree, variables: list[Variable], sentence: str
) -> None:
    with pytest.raises(BadTemplate) as caught:
        check_declared(tree, variables)

    assert str(caught.value) == sentence


# Binding


@pytest.mark.parametrize(
    ("text", "values", "result"),
    [
        ("{{gpus}}", {"gpus": "2"}, 2),
        ("{{ gpus }}", {}, 1),
        ("{{rate}}", {"rate": 1}, 1),
        ("{{rate}}", {}, 0.5),
        ("{{debug}}", {"debug": "true"}, True),
        ("{{tag}}", {"tag": "2"}, "2"),
        ("{{tag}}", {"tag": ""}, ""),
        ("{{memory}}", {"memory": 2}, "2"),
        (" {{gpus}}", {}, " 1"),
        ("{{gpus}}{{gpus}}", {}, "11"),
        ("n={{gpus}} d={{debug}} r={{rate}} m={{memory}}", {}, "n=1 d=false r=0.5 m=8Gi"),
        ("{{{gpus}}}", {}, "{1}"),
        ("{{}} {{a-b}} {gpus}", {}, "{{}} {{a-b}} {gpus}"),
    ],
)
def test_a_variable_alone_keeps_its_type_and_is_text_in_a_longer_string(
    text: str, values: dict[str, object], result: Value
) -> None:
    made = bound({"k": [text]}, **values)["k"][0]

    assert made == result
    assert type(made) is type(result)


def test_bind_also_returns_every_value_with_defaults_and_without_marks() -> None:
    tree, values = bind({"a": "{{tag}}"}, ALL, {"gpus": "2", "tag": "${x}"}, queue="q")

    assert values == {"gpus": 2, "tag": "${x}", "rate": 0.5, "debug": False, "memory": "8Gi"}
    assert tree == {"a": "$${x}"}


def test_keys_stay_as_they_are() -> None:
    tree = {"{{gpus}}": "{{gpus}}", "${x}": "${x}", 5: "{{gpus}}"}

    assert fill(bound(tree), {"x": "y"}) == {"{{gpus}}": 1, "${x}": "y", 5: 1}


def test_any_mapping_is_walked() -> None:
    tree = MappingProxyType({"a": MappingProxyType({"b": "{{gpus}} ${x}"})})

    assert fill(bound(tree), {"x": "y"}) == {"a": {"b": "1 y"}}
    assert (find_variables(tree), find_macros(tree)) == (("gpus",), ("x",))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"gpu": 1}, 'gpu=1: queue "lab" has no variable "gpu". Did you mean --set gpus=…?'),
        ({"zone": 1}, 'zone=1: queue "lab" has no variable "zone". Its variables: gpus, tag.'),
        (
            {"gpus": 8},
            (
                'gpus=8 is above the maximum of 4 that queue "lab" allows. '
                "Use --set gpus=1 … 4, or ask the queue's owner."
            ),
        ),
    ],
)
def test_values_that_the_queue_does_not_allow_are_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadVariable) as caught:
        bind({}, [GPUS, TAG], values, queue="lab")

    assert str(caught.value) == sentence


def test_a_queue_without_variables_says_that_it_has_none() -> None:
    with pytest.raises(BadVariable, match=r'has no variable "gpus"\. It has no variables at all\.'):
        bind({}, [], {"gpus": 1}, queue="lab")


def test_a_missing_value_is_refused_even_where_the_template_does_not_use_it() -> None:
    with pytest.raises(BadVariable, match=r'needed has no value, and queue "lab" has no default for it\.'):
        bind({}, [Variable.parse("needed", {"type": "string"})], {}, queue="lab")


@pytest.mark.parametrize("text", ["{{gpu}}", "n={{gpu}}"])
def test_an_undeclared_variable_is_refused_when_binding_too(text: str) -> None:
    with pytest.raises(
        BadTemplate, match=r"uses \{\{gpu\}\}, which is not declared\. Did you mean \{\{gpus\}\}"
    ):
        bound([text])


def test_a_variable_declared_twice_is_refused_when_binding_too() -> None:
    with pytest.raises(BadTemplate, match='"gpus" is declared twice'):
        bind({}, [GPUS, GPUS], {}, queue="q")


# Filling


@pytest.mark.parametrize(
    ("text", "known", "final"),
    [
        ("${x}", "X", "X"),
        ("a-${x}-${x}b", "a-X-Xb", "a-X-Xb"),
        ("${n}", "5", "5"),
        ("${other}", "${other}", "${other}"),
        ("${x}${other}", "X${other}", "X${other}"),
        ("$${x}", "$${x}", "${x}"),
        ("$$${x}", "$X", "$X"),
        ("$$$${x}", "$$$${x}", "$${x}"),
        ("$$${other}", "$$${other}", "$${other}"),
        ("${evil}", "$${x}", "${x}"),
        ("${dollar}{x}", "$${x}", "${x}"),
        ("${dollar}${other}", "$$${other}", "$${other}"),
        ("${dollar}$${x}", "$$$${x}", "$${x}"),
        ("${open}x}", "$${x}", "${x}"),
        ("$HOME $$ ${HOME:-x} $(x) $$(x) ${} $x", "$HOME $$ ${HOME:-x} $(x) $$(x) ${} $x", None),
    ],
)
def test_macros_are_filled_once_and_dollars_that_are_not_theirs_stay(
    text: str, known: str, final: str | None
) -> None:
    macros = {"x": "X", "n": "5", "evil": "${x}", "dollar": "$", "open": "${"}

    assert fill_known([text], macros) == [known]
    assert fill([text], macros) == [known if final is None else final]


@pytest.mark.parametrize(
    ("template", "value", "result"),
    [
        ("{{tag}}", "${x}", "${x}"),
        ("{{tag}}", "$${x}", "$${x}"),
        ("a {{tag}}", "${x}", "a ${x}"),
        ("{{tag}}", "{{gpus}}", "{{gpus}}"),
        ("a {{tag}}", "{{gpus}}", "a {{gpus}}"),
        ("{{tag}}gpus}} {{gpus}}", "{{", "{{gpus}} 1"),
        ("${{tag}}", "{x}", "${x}"),
        ("${{{tag}}}", "x", "${x}"),
        ("{{tag}}{x}", "$", "${x}"),
        ("{{tag}}x}", "${", "${x}"),
        ("{{tag}}${x}", "$", "$X"),
        ("{{tag}}$${x}", "$", "$${x}"),
        ("{{tag}}${x}", "$$", "$$X"),
        ("${x}{{tag}}${x}", "-$ $", "X-$ $X"),
    ],
)
def test_what_a_value_contains_is_never_evaluated(template: str, value: str, result: str) -> None:
    tree = bound([template], tag=value)

    assert fill(tree, {"x": "X"}) == [result]
    assert fill(fill_known(fill_known(tree, {}), {"x": "X"}), {"x": "no"}) == [result]


def test_a_macro_that_only_a_value_contains_is_not_found() -> None:
    assert find_macros(bound("{{tag}} ${live}", tag="${dead}")) == ("live",)


# Depth and size


@pytest.mark.parametrize(
    "walk",
    [find_variables, find_macros, bound, lambda tree: fill_known(tree, {}), lambda tree: fill(tree, {})],
)
def test_a_tree_may_be_a_hundred_levels_deep_and_no_deeper(walk: Any) -> None:
    circle: list[Any] = []
    circle.append(circle)

    assert walk(nested(MAX_DEPTH))
    for too_deep in (nested(MAX_DEPTH + 1), circle):
        with pytest.raises(BadTemplate, match=r"nested more than 100 levels deep\. Look for a YAML anchor"):
            walk(too_deep)


@pytest.mark.parametrize(
    "long", ["$" * 200_000, "{" * 200_000, "{{ " * 70_000, "${" * 100_000, " " * 200_000]
)
def test_a_long_hostile_value_costs_no_more_than_its_length(long: str) -> None:
    started = time.process_time()

    result = fill(fill_known(bound("{{ {{tag}} ${x}", tag=long), {"y": long}), {"x": "X"})

    assert result == "{{ " + long + " X"
    assert time.process_time() - started < 1  # milliseconds; with backtracking it would be minutes


# Properties

OPAQUE = "\ue000"  #: a character that no pattern cares about
FRAGMENTS = [
    "$",
    "$$",
    "{",
    "}",
    "{{",
    "}}",
    "x",
    "y",
    "tag",
    "gpus",
    " ",
    "${x}",
    "${y}",
    "$${x}",
    "{{tag}}",
    "{{gpus}}",
]
HOSTILE = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)
PLAIN = st.text("ab1 }()'\"\\\n\té√\0", max_size=12)
MACROS = st.dictionaries(st.sampled_from(["x", "y", "tag"]), HOSTILE)


def trees(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Tree]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
    keys = HOSTILE | st.integers()
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


def outline(tree: Tree) -> Tree:
    """All of the tree but what its strings say: 1, 1.0 and True are told apart."""
    if isinstance(tree, dict):
        return {key: outline(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [outline(value) for value in tree]
    return "text" if isinstance(tree, str) else (type(tree), tree)


def bound_as_text(tree: Tree, **values: str) -> Tree:
    """Bind with a string variable for each name used: fragments also make up names, such as `{{x}}`."""
    names = dict.fromkeys((*find_variables(tree), *values))
    variables = [Variable.parse(name, {"type": "string", "default": "other"}) for name in names]
    return bind(tree, variables, values, queue="q")[0]


@given(trees(HOSTILE), HOSTILE, MACROS)
def test_rendering_keeps_keys_types_and_the_input(tree: Tree, value: str, macros: dict[str, str]) -> None:
    before = copy.deepcopy(tree)

    rendered = fill(fill_known(bound_as_text(tree, tag=value), macros), macros)

    assert outline(rendered) == outline(before)
    assert tree == before
    assert outline(tree) == outline(before)


@given(trees(PLAIN))
def test_a_tree_without_variables_and_macros_is_rendered_as_it_is(tree: Tree) -> None:
    for rendered in (bound(tree), fill_known(tree, {"x": "X"}), fill(tree, {"x": "X"})):
        assert rendered == tree
        assert outline(rendered) == outline(tree)
        assert rendered is not tree or not isinstance(tree, dict | list)


@given(trees(st.lists(st.sampled_from(["$", "{", "}", "x", "${x}", "$${x}"]), max_size=8).map("".join)))
def test_binding_leaves_a_tree_without_variables_alone_whatever_its_macros(tree: Tree) -> None:
    assume(not find_variables(tree))

    assert bound(tree) == tree


@given(HOSTILE, HOSTILE, MACROS)
def test_a_bound_value_is_opaque(template: str, value: str, macros: dict[str, str]) -> None:
    rendered = fill(bound_as_text(template, tag=value), macros)

    assert rendered == fill(bound_as_text(template, tag=OPAQUE), macros).replace(OPAQUE, value)


@given(HOSTILE, HOSTILE, MACROS)
def test_a_filled_macro_is_opaque(template: str, value: str, others: dict[str, str]) -> None:
    rendered = fill(fill_known(template, {"x": value}), others)

    assert rendered == fill(fill_known(template, {"x": OPAQUE}), others).replace(OPAQUE, value)


@given(trees(HOSTILE), MACROS, MACROS, MACROS)
def test_filling_in_steps_is_filling_once(
    tree: Tree, first: dict[str, str], second: dict[str, str], last: dict[str, str]
) -> None:
    assert fill(fill_known(fill_known(tree, first), second), last) == fill(tree, {**last, **second, **first})


@given(HOSTILE, st.integers(1, 4), MACROS)
def test_an_integer_is_text_like_any_other_inside_a_string(
    template: str, count: int, macros: dict[str, str]
) -> None:
    longer = f"{template} {{{{gpus}}}}"
    assume(set(find_variables(longer)) <= {"gpus", "tag"})

    rendered = fill(bound(longer, gpus=count, tag="t"), macros)

    assert rendered == fill(bound_as_text(longer, gpus=str(count), tag="t"), macros)


@given(trees(HOSTILE), HOSTILE)
def test_what_is_found_is_what_is_filled(tree: Tree, marker: str) -> None:
    names = find_macros(tree)

    assert find_macros(fill_known(tree, dict.fromkeys(names, marker))) == ()
    assert all(
        find_macros(fill_known(tree, {other: marker for other in names if other != name})) == (name,)
        for name in names
    )
