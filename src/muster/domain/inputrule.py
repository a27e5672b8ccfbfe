"""What is wrong with an input, said so that its writer can mend it: name, value, rule, what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.domain.errors import BadInputValue, nearest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

    from muster.domain.schema import Schema

_SHOWN = 80
_LISTED = 10
_LIMITS: Mapping[str, str] = {
    "minimum": "below the minimum of {}",
    "maximum": "above the maximum of {}",
    "exclusiveMinimum": "not above {}",
    "exclusiveMaximum": "not below {}",
    "multipleOf": "not a multiple of {}",
    "minLength": "shorter than {} characters",
    "maxLength": "longer than {} characters",
    "minItems": "fewer than {} items",
    "maxItems": "more than {} items",
    "minProperties": "fewer than {} inputs",
    "maxProperties": "more than {} inputs",
    "pattern": "not of the form {}",
    "format": "not a valid {}",
    "const": "not {}",
}


def refusal(schema: Schema, problems: Sequence[ValidationError]) -> BadInputValue:
    """The first problem in words, the others by name; all of them in the facts."""
    first = problems[0]
    detail, hint, facts = _said(schema, first)
    others = [dotted(_place(problem)) for problem in problems[1 : _LISTED + 1]]
    if others:
        detail += f" Wrong as well: {', '.join(dict.fromkeys(others))}."
    facts["problems"] = [
        {"name": dotted(_place(problem)), "rule": problem.kind.name, "detail": _said(schema, problem)[0]}
        for problem in problems[:_LISTED]
    ]
    return BadInputValue(detail, hint=hint, facts=facts)


def dotted(path: Sequence[str | int]) -> str:
    """`optimizer.layers[1].size`"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def shown(value: object) -> str:
    """A value as its writer would write it, short enough for a sentence."""
    text = value if isinstance(value, str) and value.isprintable() and value else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _place(problem: ValidationError) -> list[str | int]:
    """The input that is meant: one that is missing or not known is not there to be pointed at."""
    path = list(problem.instance_path)
    known = problem.kind.as_dict()
    if problem.kind.name == "required":
        path.append(known["property"])
    elif known.get("unexpected"):
        path.append(known["unexpected"][0])
    return path


def _said(schema: Schema, problem: ValidationError) -> tuple[str, str, dict[str, Any]]:
    rule, path = problem.kind.name, _place(problem)
    name = dotted(path)
    rules = schema.rules_at(problem.instance_path)
    facts: dict[str, Any] = {"name": name, "rule": rule}
    if rule == "required":
        return f"The input {name!r} is missing.", f"Give it: --config {name}=…", facts
    if problem.kind.as_dict().get("unexpected"):
        way = [part for part in problem.instance_path if isinstance(part, str)]
        known = schema.names_at(way) or []
        near = nearest(str(path[-1]), known)
        hint = (
            f"Did you mean {dotted([*path[:-1], near])!r}?"
            if near
            else f"Known inputs: {', '.join(known) or 'none'}."
        )
        return f"There is no input {name!r}.", hint, facts
    facts["value"] = shown(problem.instance)
    facts["allowed"] = rules.get(rule)
    return f"{name or 'inputs'}={shown(problem.instance)} is {_how(problem)}.", _advice(name, rules), facts


def _how(problem: ValidationError) -> str:
    """`above the maximum of 1`"""
    rule, known = problem.kind.name, problem.kind.as_dict()
    if rule == "type":
        return f"not of type {' or '.join(known['types'])}"
    if rule == "enum":
        return f"not among the choices {', '.join(shown(option) for option in known['options'][:20])}"
    if rule in ("anyOf", "oneOf"):
        ways = [_how(branch[0]) for branch in known.get("context", []) if branch]
        return "of none of the forms allowed: " + ", ".join(ways[:5]) if ways else "of several forms at once"
    if rule in _LIMITS and known:
        return _LIMITS[rule].format(shown(next(iter(known.values()))))
    return f"against the rule {rule}"


def _advice(name: str, rules: Mapping[str, Any]) -> str:
    if "enum" in rules:
        *others, last = map(shown, rules["enum"][:20])
        return f"Use --config {name}={', '.join(others)} or {last}." if others else f"Use {last}."
    low, high = rules.get("minimum"), rules.get("maximum")
    if low is not None and high is not None:
        return f"Use --config {name}={low} … {high}."
    if low is not None or high is not None:
        return f"Use {low} or more." if high is None else f"Use {high} or less."
    match rules.get("type"):
        case "string":
            return f"Quote what looks like a number: --config '{name}=\"123\"'."
        case "boolean":
            return f"Use --config {name}=true or false."
        case _:
            return str(rules.get("description", ""))[:200]
