"""What a variable may be declared as, and which values of a launch it takes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadTemplate, BadVariable, UnknownKey
from muster.domain.resources import parse_quantity
from muster.domain.variables import Value, Variable, VariableType, as_text

GPUS = Variable.parse("gpus", {"type": "integer", "default": 1, "min": 1, "max": 4})


def of_type(kind: str, **rules: Any) -> Variable:
    return Variable.parse("it", {"type": kind, **rules})


# Declaring


def test_a_declaration_is_read_with_either_spelling_of_its_keys() -> None:
    short = {"type": "integer", "default": 2, "min": 1, "max": 4, "enum": [1, 2, 4], "description": "GPUs"}
    long = {"type": "integer", "default": 2, "minimum": 1, "maximum": 4, "choices": [1, 2, 4]}

    variable = Variable.parse("gpus", short)

    assert variable == Variable(
        name="gpus",
        type=VariableType.INTEGER,
        default=2,
        minimum=1,
        maximum=4,
        choices=(1, 2, 4),
        description="GPUs",
    )
    assert Variable.parse("gpus", {**long, "description": "GPUs"}) == variable


def test_only_what_is_declared_is_written_back() -> None:
    assert of_type("string").to_data() == {"type": "string"}
    assert GPUS.to_data() == {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}


@pytest.mark.parametrize(("kind", "default"), [("string", ""), ("integer", 0), ("boolean", False)])
def test_a_default_that_is_falsy_is_still_a_default(kind: str, default: Value) -> None:
    variable = of_type(kind, default=default)

    assert variable.has_default
    assert variable.to_data()["default"] == default
    assert variable.value_from({}, queue="q") == default


def test_a_variable_without_a_default_says_so() -> None:
    assert not of_type("integer").has_default


def test_a_quantity_is_kept_as_text_and_compared_by_amount() -> None:
    memory = of_type("quantity", default=1, min="500m", max="8Gi")

    assert (memory.default, memory.minimum, memory.maximum) == ("1", "500m", "8Gi")


BAD_DECLARATIONS: list[tuple[object, str]] = [
    ({"type": "integer", "default": 8, "max": 4}, "default 8 is above the maximum of 4."),
    ({"type": "integer", "default": 0, "min": 1}, "default 0 is below the minimum of 1."),
    ({"type": "integer", "min": 5, "max": 4}, "minimum 5 is above the maximum of 4."),
    ({"type": "number", "min": 0.5, "max": 0.1}, "minimum 0.5 is above the maximum of 0.1."),
    ({"type": "quantity", "min": "1Gi", "max": "1000Mi"}, "minimum 1Gi is above the maximum of 1000Mi."),
    ({"type": "quantity", "default": "9G", "max": "8Gi"}, "default 9G is above the maximum of 8Gi."),
    ({"type": "integer", "choices": [1, 8], "max": 4}, "choice 8 is above the maximum of 4."),
    ({"type": "string", "default": "xl", "choices": ["s", "m"]}, "default xl is not among the choices s, m."),
    ({"type": "integer", "default": "1"}, "default '1' is not an integer."),
    ({"type": "integer", "default": 1.5}, "default 1.5 is not an integer."),
    ({"type": "integer", "default": True}, "default true is not an integer."),
    ({"type": "number", "default": math.nan}, "default nan is not a number."),
    ({"type": "number", "max": math.inf}, "maximum inf is not a number."),
    ({"type": "boolean", "default": "true"}, "default 'true' is not a boolean."),
    ({"type": "boolean", "default": 1}, "default 1 is not a boolean."),
    ({"type": "string", "default": 5}, "default 5 is not a string."),
    ({"type": "quantity", "default": "8 gigs"}, "default '8 gigs' is not a quantity."),
    ({"type": "integer", "min": "low"}, "minimum 'low' is not an integer."),
    ({"type": "integer", "choices": [1, "two"]}, "choice 'two' is not an integer."),
    ({"type": "integer", "choices": [None]}, "choice null is not an integer."),
    ({"type": "string", "min": "a"}, "minimum a means nothing for a string."),
    ({"type": "boolean", "max": True}, "maximum true means nothing for a boolean."),
    ({"type": "string", "choices": "abc"}, "has abc as its choices, which is not a list."),
    ({"type": "string", "description": 5}, "has 5 as its description, not text."),
    ({"type": "string", "default": None}, "has null as its default. Leave 'default' out for none."),
    ({"type": "integer", "min": 1, "minimum": 2}, "gives its minimum twice. Drop 'minimum'."),
    ({"default": 1}, "has no type. Give it one of integer, number, string, boolean, quantity."),
    ({"type": "int"}, "has int as its type, which is not one. Did you mean 'integer'?"),
    ({"type": "xyz"}, "Known types: integer, number, string, boolean, quantity."),
    ({"type": ["integer"]}, "has ['integer'] as its type, which is not one."),
    ("integer", "is declared as integer, not as a mapping."),
    (None, "is declared as null, not as a mapping."),
]


@pytest.mark.parametrize(("declaration", "problem"), BAD_DECLARATIONS)
def test_a_wrong_declaration_is_refused_with_the_variable_and_the_rule(
    declaration: object, problem: str
) -> None:
    with pytest.raises(BadTemplate) as caught:
        Variable.parse("it", declaration)

    assert 'Variable "it"' in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["", "2x", "a-b", "a b", "a.b", "é", "a\n"])
def test_a_name_that_no_template_could_use_is_refused(name: str) -> None:
    with pytest.raises(BadTemplate, match="cannot be the name of a variable"):
        Variable(name=name, type=VariableType.STRING)


@pytest.mark.parametrize("name", ["a", "_", "GPUs_2"])
def test_a_name_of_letters_digits_and_underscores_is_taken(name: str) -> None:
    assert Variable(name=name, type=VariableType.STRING).name == name


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownKey) as caught:
        Variable.parse("gpus", {"type": "integer", "defualt": 1})

    assert str(caught.value) == "Variable \"gpus\" has no key 'defualt'. Did you mean 'default'?"


# Declaring on the command line


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("it:integer", {"type": "integer"}),
        (
            "it:integer:default=1,min=1,max=4",
            {"type": "integer", "default": 1, "minimum": 1, "maximum": 4},
        ),
        ("it:number:default=1e-3", {"type": "number", "default": 0.001}),
        ("it:boolean:default=false", {"type": "boolean", "default": False}),
        ("it:string:default=", {"type": "string", "default": ""}),
        ("it:string:default=5", {"type": "string", "default": "5"}),
        ("it:string:default=repo:tag@a=b", {"type": "string", "default": "repo:tag@a=b"}),
        (
            "it:string:choices=a|b|c, default=b",
            {"type": "string", "default": "b", "choices": ["a", "b", "c"]},
        ),
        ("it:integer:enum=1|2", {"type": "integer", "choices": [1, 2]}),
        ("it:quantity:max=8Gi", {"type": "quantity", "maximum": "8Gi"}),
        (
            "it:integer:description=GPUs, of one node,min=1",
            {"type": "integer", "minimum": 1, "description": "GPUs, of one node"},
        ),
    ],
)
def test_the_command_line_form_is_read(text: str, data: dict[str, Any]) -> None:
    variable = Variable.parse_text(text)

    assert variable.name == "it"
    assert variable.to_data() == data


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("it", 'Variable "it" has no type.'),
        ("it:", 'Variable "it" has no type.'),
        ("it:bool", "Did you mean 'boolean'?"),
        ("it:integer:default", "has 'default', which is not KEY=VALUE."),
        ("it:integer:min=1,min=2", "gives its min twice."),
        ("it:integer:min=1,minimum=2", "gives its minimum twice."),
        ("it:integer:type=string", "gives its type twice."),
        ("it:integer:default=one", "default 'one' is not an integer."),
        ("it:integer:default=", "default '' is not an integer."),
        ("it:integer:choices=1|", "choice '' is not an integer."),
        (":integer", "'' cannot be the name of a variable."),
    ],
)
def test_a_wrong_command_line_form_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadTemplate) as caught:
        Variable.parse_text(text)

    assert problem in str(caught.value)


def test_an_unknown_option_on_the_command_line_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownKey, match="Did you mean 'max'"):
        Variable.parse_text("it:integer:mx=4")


# Accepting


@pytest.mark.parametrize(
    ("kind", "given_value", "value"),
    [
        ("integer", 2, 2),
        ("integer", "2", 2),
        ("integer", "-2", -2),
        ("number", 2, 2),
        ("number", "2", 2),
        ("number", 2.0, 2.0),
        ("number", "1e-4", 0.0001),
        ("number", ".5", 0.5),
        ("string", "", ""),
        ("string", "2", "2"),
        ("string", "${x} {{y}}", "${x} {{y}}"),
        ("boolean", True, True),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("quantity", "8Gi", "8Gi"),
        ("quantity", " 500m ", "500m"),
        ("quantity", 2, "2"),
        ("quantity", 0.5, "0.5"),
    ],
)
def test_a_value_is_taken_as_the_type(kind: str, given_value: object, value: Value) -> None:
    accepted = of_type(kind).accept(given_value, queue="q")

    assert accepted == value
    assert type(accepted) is type(value)


@pytest.mark.parametrize(
    ("kind", "given_value", "shown"),
    [
        ("integer", "2.5", "2.5"),
        ("integer", 2.0, "2.0"),
        ("integer", "two", "two"),
        ("integer", "", "''"),
        ("integer", " 2", "' 2'"),
        ("integer", "1_000", "1_000"),
        ("integer", "٢", "٢"),
        ("integer", True, "true"),
        ("integer", None, "null"),
        ("integer", [1], "[1]"),
        ("integer", "9" * 5000, "9" * 79 + "…"),
        ("number", "nan", "nan"),
        ("number", "inf", "inf"),
        ("number", math.nan, "nan"),
        ("number", -math.inf, "-inf"),
        ("number", "1e999", "1e999"),
        ("number", True, "true"),
        ("number", "0x10", "0x10"),
        ("string", 5, "5"),
        ("string", None, "null"),
        ("boolean", "yes", "yes"),
        ("boolean", 1, "1"),
        ("boolean", "1", "1"),
        ("quantity", "8gigs", "8gigs"),
        ("quantity", "nan", "nan"),
        ("quantity", math.inf, "inf"),
        ("quantity", True, "true"),
        ("quantity", {"a": 1}, "\"{'a': 1}\""),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, given_value: object, shown: str) -> None:
    with pytest.raises(BadVariable) as caught:
        of_type(kind).accept(given_value, queue="gpu-lab")

    assert caught.value.detail == f'it={shown} is not the {kind} that queue "gpu-lab" wants.'
    assert caught.value.hint.startswith(f"Give {kind} values like this: --set it=")
    assert caught.value.facts["rule"] == "type"
    assert json.dumps(caught.value.facts, allow_nan=False)


def test_a_refusal_says_what_was_given_what_is_allowed_and_what_to_do() -> None:
    with pytest.raises(BadVariable) as caught:
        GPUS.accept("8", queue="gpu-lab")

    assert caught.value.detail == 'gpus=8 is above the maximum of 4 that queue "gpu-lab" allows.'
    assert caught.value.hint == "Use --set gpus=1 … 4, or ask the queue's owner."
    assert caught.value.facts == {
        "name": "gpus",
        "value": 8,
        "rule": "maximum",
        "maximum": 4,
        "queue": "gpu-lab",
    }


@pytest.mark.parametrize(
    ("variable", "given_value", "detail", "advice"),
    [
        (GPUS, 0, "gpus=0 is below the minimum of 1 that", "--set gpus=1 … 4, or"),
        (GPUS, "x", "gpus=x is not the integer that", "--set gpus=1 … 4, or"),
        (of_type("integer", min=1), 0, "below the minimum of 1", "--set it=1 or more, or"),
        (of_type("number", max=0.5), 0.6, "above the maximum of 0.5", "--set it=0.5 or less, or"),
        (of_type("quantity", max="8Gi"), "9000Mi", "it=9000Mi is above the maximum of 8Gi", "it=8Gi or less"),
        (of_type("quantity", min=1), "999m", "it=999m is below the minimum of 1", "it=1 or more"),
        (
            of_type("string", choices=["s", "m", "x l"]),
            "xl",
            "it=xl is not among the choices s, m, 'x l' that",
            "--set it=s, m or 'x l', or",
        ),
        (of_type("string", choices=["only"]), "", "it='' is not among the choices only", "--set it=only, or"),
        (of_type("boolean", choices=[True]), False, "it=false is not among the choices true", "it=true, or"),
        (of_type("integer", choices=[1, 2], max=4), 3, "not among the choices 1, 2", "it=1 or 2, or"),
    ],
)
def test_a_value_that_breaks_the_rule_is_refused_with_what_is_allowed(
    variable: Variable, given_value: object, detail: str, advice: str
) -> None:
    with pytest.raises(BadVariable) as caught:
        variable.accept(given_value, queue="q")

    assert detail in caught.value.detail
    assert advice in caught.value.hint


def test_the_ends_of_a_range_are_inside_it() -> None:
    assert [GPUS.accept(count, queue="q") for count in (1, 4)] == [1, 4]


def test_a_choice_of_quantities_may_be_written_in_another_unit() -> None:
    assert of_type("quantity", choices=["4Gi", "8Gi"]).accept("8192Mi", queue="q") == "8192Mi"


def test_a_value_beats_the_default_and_the_default_beats_nothing() -> None:
    assert GPUS.value_from({"gpus": "3"}, queue="q") == 3
    assert GPUS.value_from({"other": 3}, queue="q") == 1


def test_a_null_is_refused_even_where_there_is_a_default() -> None:
    with pytest.raises(BadVariable, match="gpus=null is not the integer"):
        GPUS.value_from({"gpus": None}, queue="q")


def test_a_missing_value_without_a_default_is_refused() -> None:
    with pytest.raises(BadVariable) as caught:
        of_type("integer", min=1, max=4).value_from({}, queue="gpu-lab")

    assert caught.value.detail == 'it has no value, and queue "gpu-lab" has no default for it.'
    assert caught.value.hint == "Use --set it=1 … 4, or ask the queue's owner."
    assert caught.value.facts == {"name": "it", "rule": "required", "queue": "gpu-lab"}


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (2, "2"), (0.5, "0.5"), ("Aé", "Aé")]
)
def test_a_value_as_text(value: Value, text: str) -> None:
    assert as_text(value) == text


# Properties

# An alphabet of its own: building Hypothesis's table of all characters takes a fresh checkout seconds.
TEXT = st.text("ab1 0-.=,:|{}$'\"\\\n\té√\0", max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
QUANTITIES = st.builds(
    lambda n, unit: f"{n}{unit}", st.integers(0, 1000), st.sampled_from(["", "m", "Ki", "G"])
)
OF_TYPE: dict[VariableType, st.SearchStrategy[Any]] = {
    VariableType.INTEGER: st.integers(),
    VariableType.NUMBER: NUMBERS,
    VariableType.STRING: TEXT,
    VariableType.BOOLEAN: st.booleans(),
    VariableType.QUANTITY: QUANTITIES,
}
PYTHON_TYPES: dict[VariableType, tuple[type, ...]] = {
    VariableType.INTEGER: (int,),
    VariableType.NUMBER: (int, float),
    VariableType.STRING: (str,),
    VariableType.BOOLEAN: (bool,),
    VariableType.QUANTITY: (str,),
}
JSON_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.lists(st.integers())


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    kind = draw(st.sampled_from(VariableType))
    values = draw(st.lists(OF_TYPE[kind], max_size=4))
    if kind in (VariableType.STRING, VariableType.BOOLEAN) or draw(st.booleans()):
        default = draw(st.sampled_from(values)) if values else draw(st.none() | OF_TYPE[kind])
        return Variable(name="it", type=kind, default=default, choices=tuple(values), description=draw(TEXT))
    ordered = sorted(values, key=parse_quantity if kind is VariableType.QUANTITY else None)
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    return Variable(name="it", type=kind, default=low, minimum=low, maximum=high)


@given(variables())
def test_a_declaration_survives_being_written_and_read(variable: Variable) -> None:
    assert Variable.parse("it", json.loads(json.dumps(variable.to_data()))) == variable


@given(variables(), JSON_VALUES | st.sampled_from(["1", "1.5", "true", "8Gi", "1e400", "-0"]))
def test_a_value_is_accepted_as_the_type_and_for_good_or_refused_with_facts_for_json(
    variable: Variable, given_value: object
) -> None:
    value: Value | None = None
    facts: dict[str, Any] = {}
    try:
        value = variable.accept(given_value, queue="q")
    except BadVariable as refusal:
        facts = refusal.facts

    if value is None:
        assert json.loads(json.dumps(facts, allow_nan=False))["name"] == "it"
    else:
        assert type(value) in PYTHON_TYPES[variable.type]
        assert variable.accept(value, queue="q") == value


@given(st.sampled_from([VariableType.INTEGER, VariableType.NUMBER, VariableType.BOOLEAN]), st.data())
def test_a_value_typed_on_the_command_line_is_the_value(kind: VariableType, data: st.DataObject) -> None:
    value = data.draw(OF_TYPE[kind])

    read = of_type(kind).accept(as_text(value), queue="q")

    assert read == value
    assert type(read) is type(value)
