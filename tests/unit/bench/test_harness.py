"""Rounds, ratios and bars of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from bench.harness import (
    Bar,
    CannotMeasure,
    Contest,
    Measure,
    Plan,
    Row,
    Summary,
    interleave,
    number_text,
    percentile,
)


def plan(rounds: int = 3, scale: float = 1.0) -> Plan:
    return Plan(rounds=rounds, folder=Path("unused"), scale=scale)


def giving(values: Sequence[float]) -> Measure:
    rest = iter(values)
    return lambda: next(rest)


def contest(**values: Sequence[float]) -> Contest:
    return Contest(unit="ms", values=values, reasons={})


def test_a_summary_is_the_median_and_the_range() -> None:
    assert Summary.of([5, 1, 3]) == Summary(median=3, low=1, high=5)


def test_a_ratio_is_taken_within_each_round() -> None:
    """A machine that gets slower by the round slows both alike, and the ratio does not see it."""
    row = contest(ours=[1, 2, 4], theirs=[10, 20, 40]).ratio("ours ÷ theirs", "ours", "theirs")
    assert row.result == Summary(median=0.1, low=0.1, high=0.1)
    assert [figure.summary.median for figure in row.behind] == [2, 20]


def test_a_difference_is_taken_within_each_round() -> None:
    row = contest(ours=[11, 22], floor=[1, 2]).difference("above", "ours", "floor")
    assert row.result == Summary(median=15, low=10, high=20)
    assert row.unit == "ms"


def test_every_second_round_goes_backwards() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[], float]:
        def measure() -> float:
            order.append(name)
            return 1.0

        return measure

    interleave(plan(rounds=3), "title", "ms", {name: noting(name) for name in "abc"})
    assert "".join(order) == "abccbaabc"


@pytest.mark.parametrize("error", [CannotMeasure("it is not here"), ValueError("it broke")])
def test_a_contender_that_cannot_be_measured_tells_why_and_the_others_go_on(error: Exception) -> None:
    def broken() -> float:
        raise error

    found = interleave(plan(), "title", "ms", {"ours": giving([1, 2, 3]), "theirs": broken})
    row = found.ratio("ours ÷ theirs", "ours", "theirs", bar=Bar(sense="<", limit=1))
    assert row.result is None
    assert row.met is None
    assert str(error) in row.note
    assert found.alone("ours", "ours").result == Summary(median=2, low=1, high=3)


def test_one_that_breaks_down_late_has_no_result_at_all() -> None:
    """Rounds that are there for one side only cannot be compared."""
    values = iter([1.0])

    def late() -> float:
        try:
            return next(values)
        except StopIteration:
            raise CannotMeasure("gone") from None

    found = interleave(plan(), "title", "ms", {"late": late})
    assert found.alone("late", "late").result is None


@pytest.mark.parametrize(
    ("sense", "met"),
    [("≤", [True, True, False]), ("<", [True, False, False]), ("≥", [False, True, True])],
)
def test_a_bar_judges_the_median(sense: Literal["≤", "<", "≥"], met: list[bool]) -> None:
    bar = Bar(sense=sense, limit=2)
    rows = [Row(what="", unit="", result=Summary.of([0, value, 9]), bar=bar) for value in (1, 2, 3)]
    assert [row.met for row in rows] == met


def test_a_row_without_a_bar_is_neither_met_nor_not() -> None:
    assert Row(what="", unit="", result=Summary.of([1])).met is None


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(n) for n in range(1, 201)]
    assert percentile(values, 99) == 198
    assert percentile(values, 100) == 200
    assert percentile([7.0], 99) == 7


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (0.0123, "0.012"), (0.5, "0.50"), (1.234, "1.23"), (12.34, "12.3"), (1234567, "1,234,567")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_smaller_scale_leaves_something_to_measure() -> None:
    assert plan(scale=0.01).count(500) == 5
    assert plan(scale=0.01).count(3) == 1
