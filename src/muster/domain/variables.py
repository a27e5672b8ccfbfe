"""The variables of a queue: what each may be, and whether the value of a launch is that.

The queue's owner declares them (`Variable.parse`, `Variable.parse_text`; a wrong declaration is a
`BadTemplate`); a launch gives values (`Variable.accept`; a wrong value is a `BadVariable`). Where they
stand in the queue's config is the business of `muster.domain.template`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, TypeAlias

from muster.domain.errors import BadQuantity, BadTemplate, BadVariable, UnknownKey, nearest
from muster.domain.resources import parse_quantity

Value: TypeAlias = int | float | str | bool

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NEXT_OPTION = re.compile(r",(?=\s*\w+=)")  #: so that a comma may stand in a description

#: What a declaration may say, by the words it may be said with.
_KEYS: Mapping[str, str] = {
    "type": "type",
    "default": "default",
    "min": "minimum",
    "minimum": "minimum",
    "max": "maximum",
    "maximum": "maximum",
    "choices": "choices",
    "enum": "choices",
    "description": "description",
}


class VariableType(StrEnum):
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    QUANTITY = "quantity"  #: `8Gi`, `500m`; stays text, is compared by amount


_ORDERED = frozenset({VariableType.INTEGER, VariableType.NUMBER, VariableType.QUANTITY})
_WRITTEN_AS_TEXT = frozenset({VariableType.STRING, VariableType.QUANTITY})
_EXAMPLES: Mapping[VariableType, str] = {
    VariableType.INTEGER: "2",
    VariableType.NUMBER: "0.5",
    VariableType.STRING: "text",
    VariableType.BOOLEAN: "true",
    VariableType.QUANTITY: "8Gi",
}


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One thing a launch may choose, and the rule its value must keep."""

    name: str
    type: VariableType
    default: Value | None = None  #: None: there is none, and a launch must give the value
    minimum: Value | None = None
    maximum: Value | None = None
    choices: tuple[Value, ...] = ()  #: empty: any value of the type
    description: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadTemplate(
                f"{self.name!r} cannot be the name of a variable.",
                hint="Use letters, digits and _, with no digit first.",
                facts={"name": self.name},
            )
        for rule in ("minimum", "maximum"):
            if getattr(self, rule) is not None and self.type not in _ORDERED:
                raise self._bad(f"{rule} {as_written(getattr(self, rule))} means nothing for a {self.type}")
        for field in ("default", "minimum", "maximum"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, self._typed(field, getattr(self, field)))
        object.__setattr__(self, "choices", tuple(self._typed("choice", choice) for choice in self.choices))
        self._check_own_rules()

    @property
    def has_default(self) -> bool:
        return self.default is not None

    @classmethod
    def parse(cls, name: str, given: object) -> Self:
        """Read `{type, default, minimum|min, maximum|max, choices|enum, description}`."""
        where = f'Variable "{name}"'
        if not isinstance(given, Mapping):
            raise BadTemplate(
                f"{where} is declared as {as_written(given)}, not as a mapping.",
                hint="Write it as {type: integer, default: 1, minimum: 1, maximum: 4}.",
            )
        fields: dict[str, Any] = {}
        for key, value in given.items():
            if key not in _KEYS:
                raise UnknownKey(str(key), where=where, known=_KEYS)
            if _KEYS[key] in fields:
                raise BadTemplate(f"{where} gives its {_KEYS[key]} twice.", hint=f"Drop {key!r}.")
            if value is None:
                raise BadTemplate(f"{where} has null as its {key}.", hint=f"Leave {key!r} out for none.")
            fields[_KEYS[key]] = value
        fields["type"] = _type_named(fields.get("type"), where=where)
        if not isinstance(fields.get("choices", []), list | tuple):
            raise BadTemplate(
                f"{where} has {as_written(fields['choices'])} as its choices, which is not a list."
            )
        if not isinstance(fields.get("description", ""), str):
            raise BadTemplate(
                f"{where} has {as_written(fields['description'])} as its description, not text."
            )
        return cls(name=name, **fields)

    @classmethod
    def parse_text(cls, text: str) -> Self:
        """Read the command line's form: `gpus:integer:default=1,min=1,max=4`, choices as `choices=a|b`."""
        name, kind, options = (*text.split(":", 2), "", "")[:3]
        where = f'Variable "{name}"'
        variable_type = _type_named(kind or None, where=where)
        fields: dict[str, Any] = {"type": variable_type}
        for option in _NEXT_OPTION.split(options) if options else ():
            key, equals, value = option.strip().partition("=")
            if not equals:
                raise BadTemplate(
                    f"{where} has {key!r}, which is not KEY=VALUE.",
                    hint="Write it as gpus:integer:default=1,min=1,max=4.",
                )
            if key in fields:
                raise BadTemplate(f"{where} gives its {key} twice.")
            fields[key] = _from_text(variable_type, key, value)
        return cls.parse(name, fields)

    def to_data(self) -> dict[str, Any]:
        """What `parse` reads back to an equal variable; what is not set is left out."""
        data: dict[str, Any] = {
            "type": self.type.value,
            "default": self.default,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "choices": list(self.choices) or None,
            "description": self.description or None,
        }
        return {key: value for key, value in data.items() if value is not None}

    def accept(self, given: object, *, queue: str) -> Value:
        """The value of a launch as this variable's type, or a refusal in the name of `queue`.

        A command line gives text, so text that reads as the type is taken: `"2"` for an integer,
        `"true"` for a boolean. Nothing else is converted: 2.0 is no integer, 5 is no string.
        """
        value = _READERS[self.type](given)
        if value is None:
            raise self._refusal(given, f"not the {self.type} that queue", "wants", rule="type", queue=queue)
        broken = self._broken_rule(value)
        if broken is not None:
            rule, how = broken
            raise self._refusal(value, f"{how} that queue", "allows", rule=rule, queue=queue)
        return value

    def value_from(self, values: Mapping[str, object], *, queue: str) -> Value:
        """This variable's value among those of a launch, else its default, else a refusal."""
        if self.name in values:
            return self.accept(values[self.name], queue=queue)
        if self.default is None:
            raise BadVariable(
                f'{self.name} has no value, and queue "{queue}" has no default for it.',
                hint=self._advice(),
                facts={"name": self.name, "rule": "required", "queue": queue},
            )
        return self.default

    def example(self) -> Value:
        """Some value that keeps the rules, for trying a template out before anybody launches."""
        for value in (self.default, *self.choices, self.minimum, self.maximum):
            if value is not None:
                return value
        return self.accept(_EXAMPLES[self.type], queue="")

    def _typed(self, what: str, given: Value) -> Value:
        # Unlike a launch, a declaration has typed values: a quoted "1" for an integer is a slip.
        quoted = isinstance(given, str) and self.type not in _WRITTEN_AS_TEXT
        value = None if quoted else _READERS[self.type](given)
        if value is None:
            shown = repr(given) if quoted else as_written(given)
            article = "an" if self.type is VariableType.INTEGER else "a"
            raise self._bad(f"{what} {shown} is not {article} {self.type}")
        return value

    def _check_own_rules(self) -> None:
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and self._comparable(low) > self._comparable(high):
            raise self._bad(f"minimum {low} is above the maximum of {high}")
        for choice in self.choices:
            if broken := self._broken_rule(choice):
                raise self._bad(f"choice {as_written(choice)} is {broken[1]}")
        if self.default is not None and (broken := self._broken_rule(self.default)):
            raise self._bad(f"default {as_written(self.default)} is {broken[1]}")

    def _broken_rule(self, value: Value) -> tuple[str, str] | None:
        """The rule that a value of the right type breaks, and how: `("maximum", "above the …")`."""
        size = self._comparable(value)
        if self.minimum is not None and size < self._comparable(self.minimum):
            return "minimum", f"below the minimum of {self.minimum}"
        if self.maximum is not None and size > self._comparable(self.maximum):
            return "maximum", f"above the maximum of {self.maximum}"
        if self.choices and size not in map(self._comparable, self.choices):
            return "choices", f"not among the choices {', '.join(map(as_written, self.choices))}"
        return None

    def _comparable(self, value: Value) -> Any:
        return parse_quantity(value) if self.type is VariableType.QUANTITY else value

    def _bad(self, problem: str) -> BadTemplate:
        return BadTemplate(f'Variable "{self.name}": {problem}.', facts={"name": self.name})

    def _refusal(self, given: object, how: str, verb: str, *, rule: str, queue: str) -> BadVariable:
        limit = list(self.choices) if rule == "choices" else getattr(self, rule)
        return BadVariable(
            f'{self.name}={as_written(given)} is {how} "{queue}" {verb}.',
            hint=self._advice(),
            facts={"name": self.name, "value": _plain(given), "rule": rule, rule: limit, "queue": queue},
        )

    def _advice(self) -> str:
        """What to write instead."""
        if self.choices:
            *others, last = map(as_written, self.choices)
            allowed = f"{', '.join(others)} or {last}" if others else last
        elif self.minimum is not None and self.maximum is not None:
            allowed = f"{self.minimum} … {self.maximum}"
        elif self.minimum is not None:
            allowed = f"{self.minimum} or more"
        elif self.maximum is not None:
            allowed = f"{self.maximum} or less"
        else:
            return f"Give {self.type} values like this: --set {self.name}={_EXAMPLES[self.type]}."
        return f"Use --set {self.name}={allowed}, or ask the queue's owner."


def as_text(value: Value) -> str:
    """A value as it stands inside a longer string: booleans as YAML and JSON write them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_integer(given: object) -> int | None:
    if isinstance(given, str):
        return int(given) if _INTEGER.fullmatch(given) else None
    return int(given) if isinstance(given, int) and not isinstance(given, bool) else None


def _read_number(given: object) -> int | float | None:
    whole = _read_integer(given)
    if whole is not None:
        return whole
    if isinstance(given, float) or (isinstance(given, str) and _NUMBER.fullmatch(given)):
        number = float(given)
        return number if math.isfinite(number) else None
    return None


def _read_string(given: object) -> str | None:
    return str(given) if isinstance(given, str) else None


def _read_boolean(given: object) -> bool | None:
    if isinstance(given, bool):
        return given
    return {"true": True, "false": False}.get(given.lower()) if isinstance(given, str) else None


def _read_quantity(given: object) -> str | None:
    try:
        parse_quantity(given)
    except BadQuantity:
        return None
    return str(given).strip()


#: How each type reads what it is given; None for what is not of the type.
_READERS: Mapping[VariableType, Callable[[object], Value | None]] = {
    VariableType.INTEGER: _read_integer,
    VariableType.NUMBER: _read_number,
    VariableType.STRING: _read_string,
    VariableType.BOOLEAN: _read_boolean,
    VariableType.QUANTITY: _read_quantity,
}


def _type_named(given: object, *, where: str) -> VariableType:
    names = [member.value for member in VariableType]
    if given is None:
        raise BadTemplate(f"{where} has no type.", hint=f"Give it one of {', '.join(names)}.")
    if given not in names:
        near = nearest(str(given), names)
        hint = f"Did you mean {near!r}?" if near else f"Known types: {', '.join(names)}."
        raise BadTemplate(f"{where} has {as_written(given)} as its type, which is not one.", hint=hint)
    return VariableType(str(given))


def _from_text(variable_type: VariableType, key: str, text: str) -> Any:
    """An option of `parse_text` as `parse` wants it; what cannot be read stays text, to be refused there."""

    def typed(word: str) -> Value:
        value = _READERS[variable_type](word)
        return word if value is None else value

    match _KEYS.get(key):
        case "default" | "minimum" | "maximum":
            return typed(text)
        case "choices":
            return [typed(word) for word in text.split("|")]
        case _:
            return text


def _plain(given: object) -> object:
    """A value that JSON can carry, for an error's facts."""
    fit = isinstance(given, str | int) or (isinstance(given, float) and math.isfinite(given))
    return given if fit else as_written(given)


def as_written(given: object) -> str:
    """A value as its writer would write it, short enough for a sentence."""
    if given is None:
        return "null"
    text = as_text(given) if isinstance(given, int | float | str) else repr(given)
    if not text or any(character.isspace() for character in text):
        text = repr(text)
    return text if len(text) <= 80 else f"{text[:79]}…"
