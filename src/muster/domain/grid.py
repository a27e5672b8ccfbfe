"""A grid: each combination of some inputs' values is one run, all of them one group.

On the command line an axis is `lr=0.1,0.01`, `seed=1..4`, `depth=0..10:2` or `layers=[64],[64,64]`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from muster.domain.errors import BadGrid, BadName
from muster.domain.inputs import flattened, merged, nested
from muster.domain.names import checked_name

MAX_RUNS = 5_000
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?::(-?\d+(?:\.\d+)?))?")
_OPEN, _CLOSE, _QUOTES = "[{", "]}", "'\""

Read = Callable[[str], Any]  #: one value from its text


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Names of inputs, dotted, each with the values it takes. The last one changes fastest."""

    axes: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        if not self.axes:
            raise BadGrid("The grid has no axis.", hint="Give one: --grid lr=0.1,0.01")
        for name, values in self.axes.items():
            _check_axis(name, values)
        _check_apart(self.axes)
        if self.size > MAX_RUNS:
            sizes = " × ".join(f"{len(values):,} {name}" for name, values in self.axes.items())
            raise BadGrid(
                f"The grid has {self.size:,} runs ({sizes}); a group has at most {MAX_RUNS:,}.",
                hint="Take fewer values, or launch parts of it.",
                facts={"runs": self.size, "maximum": MAX_RUNS},
            )

    @property
    def size(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    @classmethod
    def from_data(cls, data: Mapping[str, Sequence[Any]]) -> Grid:
        return cls(axes={name: tuple(values) for name, values in data.items()})

    @classmethod
    def parse(cls, words: Sequence[str], *, read: Read) -> Grid:
        """From `name=values` words; `read` makes a value of its text."""
        axes: dict[str, tuple[Any, ...]] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or not name or not text:
                raise BadGrid(f"--grid {word}: this is not NAME=VALUES.", hint="Write --grid lr=0.1,0.01")
            if name in axes:
                raise BadGrid(
                    f"--grid gives {name!r} twice.", hint=f"Give all its values at once: {name}=1,2"
                )
            axes[name] = tuple(_values(name, text, read))
        return cls(axes=axes)

    def to_data(self) -> dict[str, list[Any]]:
        return {name: list(values) for name, values in self.axes.items()}

    def points(self, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The inputs of each run: those given to all of them, and its own."""
        there = dict(flattened(given))
        for name in self.axes:
            for other in there:
                if f"{other}.".startswith(f"{name}.") or (other and name.startswith(f"{other}.")):
                    raise BadGrid(
                        f"{name!r} is in the grid, and {other!r} is given to all.", hint="Drop one."
                    )
        for values in product(*self.axes.values()):
            yield merged(given, nested(zip(self.axes, values, strict=True)))


def run_names(base: str, count: int) -> list[str]:
    """`base-1`, `base-2` …"""
    longest = f"{base}-{count}"
    try:
        checked_name(longest, what="run")
    except BadName as error:
        raise BadGrid(f"{longest!r} cannot be the name of a run.", hint=error.hint) from error
    return [f"{base}-{number}" for number in range(1, count + 1)]


def _check_axis(name: str, values: Sequence[Any]) -> None:
    if not all(name.split(".")):
        raise BadGrid(f"{name!r} is not the name of an input.", hint="Write optimizer.lr.")
    if not values:
        raise BadGrid(f"The grid gives no value for {name!r}.", hint=f"Give some: --grid {name}=1,2")
    seen: set[str] = set()
    for value in values:
        text = json.dumps(value, sort_keys=True)
        if text in seen:
            raise BadGrid(f"The grid gives {name}={text} twice.", hint="Two runs would be the same.")
        seen.add(text)


def _check_apart(axes: Mapping[str, object]) -> None:
    for name in axes:
        parts = name.split(".")
        for length in range(1, len(parts)):
            outer = ".".join(parts[:length])
            if outer in axes:
                raise BadGrid(f"The grid gives {outer!r}, and {name!r} within it.", hint="Give one of them.")


def _values(name: str, text: str, read: Read) -> Iterator[Any]:
    for word in _split(name, text):
        found = _RANGE.fullmatch(word)
        if found:
            yield from _range(f"{name}={word}", found[1], found[2], found[3])
        else:
            yield read(word)


def _split(name: str, text: str) -> list[str]:
    """At commas outside of brackets and quotes."""
    words, depth, quote = [""], 0, ""
    for character in text:
        if character == "," and depth == 0 and not quote:
            words.append("")
            continue
        words[-1] += character
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES and (depth or words[-1] == character):
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth = max(0, depth - 1)
    if depth or quote:
        raise BadGrid(f"--grid {name}={text}: a bracket or quote is not closed.", hint="Close it.")
    if not all(words):
        raise BadGrid(
            f"--grid {name}={text}: a value is empty.", hint=f"Write '' for empty text: {name}=a,''"
        )
    return words


def _range(shown: str, first: str, last: str, step: str | None) -> Iterator[int | float]:
    """Both ends included, in decimal: `0.1..0.3:0.1` has no 0.30000000000000004."""
    if step is None and "." in first + last:
        raise BadGrid(f"--grid {shown}: a range of fractions needs a step.", hint=f"Write {shown}:0.1")
    start, end, by = Decimal(first), Decimal(last), Decimal(step or 1)
    if by == 0 or (end - start) / by < 0:
        raise BadGrid(f"--grid {shown}: this range has no values.", hint="Write 1..4, 0..10:2 or 4..1:-1.")
    count = int((end - start) / by) + 1
    if count > MAX_RUNS:
        raise BadGrid(f"--grid {shown}: this range has {count:,} values; at most {MAX_RUNS:,} can be run.")
    whole = "." not in f"{first}{last}{step or ''}"
    for place in range(count):
        value = start + place * by
        yield int(value) if whole else float(value)
