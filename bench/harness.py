"""How things are measured here: in rounds, all contenders in each, medians and ranges, ratios first.

A round asks every contender once for one value. So whatever else the machine does meets all of them
alike, and a ratio is taken within a round before the rounds are put together.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Measure = Callable[[], float]


class CannotMeasure(Exception):
    """A contender is not to be had here, or broke down; the words say why."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What was asked for."""

    rounds: int
    folder: Path  #: everything is written below it, and it is removed at the end
    scale: float = 1.0  #: of all counts; below 1 for a quick look
    torch_python: Path | None = None  #: an interpreter that has PyTorch

    def count(self, wanted: int) -> int:
        return max(1, round(wanted * self.scale))


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Median and range of one value a round."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        return cls(median=statistics.median(values), low=min(values), high=max(values))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An amount with its unit, and whose it is."""

    name: str
    unit: str
    summary: Summary

    @classmethod
    def of(cls, name: str, values: Sequence[float], unit: str) -> Figure:
        return cls(name=name, unit=unit, summary=Summary.of(values))


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a result has to reach."""

    sense: Literal["≤", "≥", "<", ">"]
    limit: float

    def met_by(self, value: float) -> bool:
        match self.sense:
            case "≤":
                return value <= self.limit
            case "≥":
                return value >= self.limit
            case "<":
                return value < self.limit
            case ">":
                return value > self.limit


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a result, the bar it is held to, and the absolutes behind it."""

    what: str
    unit: str  #: of result and bar; "×" for a ratio
    result: Summary | None  #: None: not measured, the note says why
    bar: Bar | None = None
    behind: tuple[Figure, ...] = ()
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None where there is no bar, or nothing to hold against it."""
        if self.bar is None or self.result is None:
            return None
        return self.bar.met_by(self.result.median)


def single(what: str, values: Sequence[float], unit: str, *, bar: Bar | None = None, note: str = "") -> Row:
    """A result that stands for itself."""
    return Row(what=what, unit=unit, result=Summary.of(values), bar=bar, note=note)


def missing(what: str, reason: str, *, unit: str = "×", bar: Bar | None = None) -> Row:
    return Row(what=what, unit=unit, result=None, bar=bar, note=f"not measured: {reason}")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What one value a round gave, for each contender; and why some have none."""

    unit: str
    values: Mapping[str, Sequence[float]]
    reasons: Mapping[str, str]

    def figure(self, name: str) -> Figure:
        return Figure.of(name, self.values[name], self.unit)

    def ratio(self, what: str, above: str, below: str, *, bar: Bar | None = None, note: str = "") -> Row:
        """`above ÷ below`, round by round."""
        return self._pair(what, above, below, lambda a, b: a / b, "×", bar, note)

    def difference(self, what: str, above: str, below: str, *, bar: Bar | None = None, note: str = "") -> Row:
        """`above - below`, round by round."""
        return self._pair(what, above, below, lambda a, b: a - b, self.unit, bar, note)

    def alone(self, what: str, name: str, *, bar: Bar | None = None, note: str = "") -> Row:
        if name in self.reasons:
            return missing(what, self.reasons[name], unit=self.unit, bar=bar)
        return single(what, self.values[name], self.unit, bar=bar, note=note)

    def _pair(
        self,
        what: str,
        above: str,
        below: str,
        put: Callable[[float, float], float],
        unit: str,
        bar: Bar | None,
        note: str,
    ) -> Row:
        for name in (above, below):
            if name in self.reasons:
                return missing(what, f"{name}: {self.reasons[name]}", unit=unit, bar=bar)
        pairs = zip(self.values[above], self.values[below], strict=True)
        return Row(
            what=what,
            unit=unit,
            result=Summary.of([put(a, b) for a, b in pairs]),
            bar=bar,
            behind=(self.figure(above), self.figure(below)),
            note=note,
        )


def interleave(plan: Plan, title: str, unit: str, contenders: Mapping[str, Measure]) -> Contest:
    """Every contender once a round; every second round backwards, so that none is always first."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    reasons: dict[str, str] = {}
    for number in range(plan.rounds):
        names = list(contenders)
        for name in names if number % 2 == 0 else reversed(names):
            if name in reasons:
                continue
            try:
                value = contenders[name]()
            except Exception as error:  # noqa: BLE001 - whatever it is, its rows tell it and the rest goes on
                reasons[name] = why(error)
                say(f"{title}: {name} is out: {reasons[name]}")
                continue
            values[name].append(value)
            say(f"{title}, round {number + 1}/{plan.rounds}: {name} {number_text(value)} {unit}")
    measured = {name: found for name, found in values.items() if name not in reasons}
    return Contest(unit=unit, values=measured, reasons=reasons)


def why(error: Exception) -> str:
    return str(error) if isinstance(error, CannotMeasure) else f"{type(error).__name__}: {error}"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    place = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(place) - 1)]


def number_text(value: float) -> str:
    """Three significant digits, and no more: the rest is noise."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3f}"


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
