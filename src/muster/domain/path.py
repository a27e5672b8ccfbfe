"""Paths into a tree of mappings and lists.

spec.parallelism                              keys
spec.tasks[name=worker].replicas              the item of a list that has this
spec.template.spec.containers[0].resources    the first item
….resources.limits["nvidia.com/gpu"]          a key with dots in it
spec.tasks[*].replicas, spec.replicas.*       every item, every key (only in patterns)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from muster.domain.errors import BadOverride, nearest
from muster.domain.template import Tree

Location: TypeAlias = tuple[str | int, ...]  #: keys and places in lists, from the root of a tree


class Every(Enum):
    """Steps of a pattern that take whatever is there."""

    KEY = "*"
    ITEM = "[*]"


@dataclass(frozen=True, kw_only=True)
class Where:
    """The item of a list that has this value under this key."""

    key: str
    value: str


Step: TypeAlias = str | int | Where | Every
Path: TypeAlias = tuple[Step, ...]

_STEP = re.compile(
    r"""(?:(?P<dot>\.)?(?P<key>[^.\[\]="'\s]+)
         | \[(?:(?P<index>[0-9]{1,9})|(?P<every>\*)
             |"(?P<double>[^"]+)"|'(?P<single>[^']+)'
             |(?P<name>[\w.-]+)=(?P<value>[^\[\]]+))\])""",
    re.VERBOSE,
)
_EXAMPLE = "Write it like spec.tasks[name=worker].replicas."


def parse(text: str) -> Path:
    """The steps of a path, or of a pattern."""
    steps: list[Step] = []
    end = 0
    for found in _STEP.finditer(text):
        separated = found["key"] is None or (found["dot"] is not None) == bool(steps)
        if found.start() != end or not separated:
            break
        end = found.end()
        steps.append(_step(found))
    if end != len(text) or not steps:
        raise BadOverride(f"{text!r} is not a path.", hint=_EXAMPLE, facts={"path": text})
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["every"] is not None:
        return Every.ITEM
    if found["name"] is not None:
        return Where(key=found["name"], value=found["value"])
    if found["key"] is not None:
        return Every.KEY if found["key"] == "*" else found["key"]
    return found["double"] or found["single"]


def split(text: str) -> tuple[str, str] | None:
    """`PATH=VALUE` at the first `=` outside of brackets; None if there is none."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "=" and depth == 0:
            return text[:place].strip(), text[place + 1 :]
    return None


def locate(tree: Tree, path: Path, text: str) -> Location:
    """Where in the tree the path leads; keys that are not there yet may follow those that are."""
    found: list[str | int] = []
    node, missing = tree, False
    for number, step in enumerate(path):
        here = text if number == 0 else shown(found)
        if isinstance(step, Every):
            raise BadOverride(
                f"{text}: a launch changes one value at a time.", hint=f"Name it instead of *. {_EXAMPLE}"
            )
        if isinstance(step, str):
            if not missing and not isinstance(node, Mapping):
                raise BadOverride(
                    f"{text}: {here} is {_kind(node)}, so nothing in it is called {step!r}.", hint=_EXAMPLE
                )
            missing = missing or step not in node
            node = None if missing else node[step]
            found.append(step)
            continue
        if missing or not isinstance(node, list):
            raise BadOverride(f"{text}: {here} is {'not there' if missing else _kind(node)}, not a list.")
        index = _index(node, step, here=here, text=text)
        node = node[index]
        found.append(index)
    return tuple(found)


def _index(items: list[Any], step: int | Where, *, here: str, text: str) -> int:
    if isinstance(step, int):
        if step >= len(items):
            raise BadOverride(f"{text}: {here} has {len(items)} items, counted from 0.")
        return step
    having = [place for place, item in enumerate(items) if _has(item, step)]
    if len(having) == 1:
        return having[0]
    known = [str(item[step.key]) for item in items if isinstance(item, Mapping) and step.key in item]
    count = "no item" if not having else f"{len(having)} items"
    near = nearest(step.value, known)
    raise BadOverride(
        f"{text}: {here} has {count} with {step.key}={step.value}.",
        hint=f"Did you mean {step.key}={near}?" if near and not having else f"It has: {', '.join(known)}.",
    )


def _has(item: object, step: Where) -> bool:
    return isinstance(item, Mapping) and step.key in item and str(item[step.key]) == step.value


def covers(pattern: Path, tree: Tree, location: Location) -> bool:
    """Does the pattern name this place, or one above it?"""
    if len(pattern) > len(location):
        return False
    node = tree
    for step, here in zip(pattern, location, strict=False):
        match step:
            case Every.KEY:
                fits = isinstance(here, str)
            case Every.ITEM:
                fits = isinstance(here, int)
            case Where():
                fits = isinstance(here, int) and _has(child(node, here), step)
            case _:
                fits = step == here
        if not fits:
            return False
        node = child(node, here)
    return True


def is_there(pattern: Path, tree: Tree) -> bool:
    if not pattern:
        return True
    step, rest = pattern[0], pattern[1:]
    if isinstance(tree, Mapping):
        keys = list(tree) if step is Every.KEY else [step] if step in tree else []
        return any(is_there(rest, tree[key]) for key in keys)
    if isinstance(tree, list):
        return any(
            is_there(rest, item)
            for place, item in enumerate(tree)
            if step is Every.ITEM or step == place or (isinstance(step, Where) and _has(item, step))
        )
    return False


def with_value(tree: Tree, location: Location, value: Any) -> Tree:
    """A copy of the tree that has this value there; what is not on the way is shared.

    The place behind the last item of a list makes it longer.
    """
    if not location:
        return value
    step, rest = location[0], location[1:]
    if isinstance(step, int):
        if not isinstance(tree, list) or step == len(tree):
            return [*(tree if isinstance(tree, list) else ()), with_value(None, rest, value)]
        return [with_value(item, rest, value) if place == step else item for place, item in enumerate(tree)]
    base: Mapping[str, Any] = tree if isinstance(tree, Mapping) else {}
    return {**base, step: with_value(base.get(step), rest, value)}


def at(tree: Tree, location: Location) -> Tree:
    for step in location:
        tree = child(tree, step)
    return tree


def child(node: Tree, step: str | int) -> Tree:
    if isinstance(node, Mapping):
        return node.get(step)
    return node[step] if isinstance(node, list) and isinstance(step, int) and step < len(node) else None


def shown(location: Iterable[str | int]) -> str:
    """A location as a path."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step or "[" in step or '"' in step:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text


def _kind(node: object) -> str:
    kinds: list[tuple[type, str]] = [
        (dict, "a mapping"),
        (list, "a list"),
        (str, "text"),
        (bool, "true or false"),
    ]
    return next(
        (words for kind, words in kinds if isinstance(node, kind)), "empty" if node is None else "a number"
    )
