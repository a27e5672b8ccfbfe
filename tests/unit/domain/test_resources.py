"""Quantities as Kubernetes writes them, and amounts of a machine."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadQuantity, UnknownKey
from muster.domain.resources import Resources, format_bytes, format_cpus, parse_quantity, readable_bytes

GIB = 2**30


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("500m", Decimal("0.5")),
        ("1.5", Decimal("1.5")),
        (".5", Decimal("0.5")),
        ("2.", 2),
        ("12Gi", 12 * GIB),
        ("1Ki", 1024),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1.5Gi", 3 * GIB // 2),
        ("100u", Decimal("0.0001")),
        ("1n", Decimal("1e-9")),
        ("7Ei", 7 * 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("-1", -1),
        ("+1", 1),
        (" 8Gi ", 8 * GIB),
        (3, 3),
        (0.25, Decimal("0.25")),
        (Decimal("2.5"), Decimal("2.5")),
    ],
)
def test_a_quantity_is_read(given: object, expected: object) -> None:
    assert parse_quantity(given) == expected


@pytest.mark.parametrize(
    "given",
    ["", " ", "x", "8GB", "8gi", "8 Gi", "1.2.3", "--1", "1e", "Gi", "0x10", "1_000", "٣", "nan", "inf",
     "1e999", "9Ei9", "8Ei", True, None, [], float("nan"), float("inf"), b"1"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_examples(given: object) -> None:
    with pytest.raises(BadQuantity, match="500m, 2, 8Gi"):
        parse_quantity(given)


@given(st.integers(0, 2**62))
def test_bytes_are_written_exactly(count: int) -> None:
    assert parse_quantity(format_bytes(count)) == count


@given(st.integers(0, 10**9))
def test_cpus_are_written_exactly(millis: int) -> None:
    assert parse_quantity(format_cpus(millis)) * 1000 == millis


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * GIB // 2, "1.5 GiB"), (2**53, "8192.0 TiB")],
)
def test_bytes_are_written_for_people(count: int, text: str) -> None:
    assert readable_bytes(count) == text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Resources()),
        ({"cpus": "500m", "memory": "8Gi", "gpus": 2}, Resources(millicpus=500, memory=8 * GIB, gpus=2)),
        ({"cpus": 1.5, "gpus": "2"}, Resources(millicpus=1500, gpus=2)),
        ({"cpus": None, "memory": "", "gpus": 0}, Resources()),
    ],
)
def test_resources_are_read(given: dict[str, Any], expected: Resources) -> None:
    assert Resources.parse(given) == expected


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"gpu": 1}, UnknownKey, "Did you mean 'gpus'"),
        ({"gpus": 1.5}, BadQuantity, "whole number of GPUs"),
        ({"gpus": -1}, BadQuantity, "whole number of GPUs"),
        ({"cpus": "-1"}, BadQuantity, "number of CPUs"),
        ({"memory": "-1"}, BadQuantity, "amount of memory"),
        ({"memory": "8GB"}, BadQuantity, "'8GB' is not a amount of memory|'8GB' is not an amount of memory"),
        ({"cpus": []}, BadQuantity, "number of CPUs"),
    ],
)
def test_resources_that_make_no_sense_are_refused(
    given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Resources.parse(given)


amounts = st.builds(
    Resources,
    millicpus=st.integers(-5000, 5000),
    memory=st.integers(-(2**40), 2**40),
    gpus=st.integers(-8, 8),
)
needs = st.builds(
    Resources, millicpus=st.integers(0, 5000), memory=st.integers(0, 2**40), gpus=st.integers(0, 8)
)


@given(a=amounts, b=amounts, c=amounts)
def test_amounts_add_up(a: Resources, b: Resources, c: Resources) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + b - b == a
    assert a * 3 == a + a + a


@given(a=needs, b=needs, room=needs)
def test_what_fits_together_fits_alone(a: Resources, b: Resources, room: Resources) -> None:
    if (a + b).fits_in(room):
        assert a.fits_in(room)
        assert b.fits_in(room - a)
    assert a.fits_in(a)
    assert Resources().fits_in(room)


@given(a=needs, room=amounts)
def test_what_does_not_fit_says_what_is_short(a: Resources, room: Resources) -> None:
    assert a.fits_in(room) == (a.short_of(room) == ())
    assert Resources().fits_in(room), "nothing fits anywhere, even where there is less than nothing"


@given(a=amounts, b=amounts)
def test_at_most_is_the_smaller_in_each_respect(a: Resources, b: Resources) -> None:
    both = a.at_most(b)
    assert both == b.at_most(a)
    for name in ("millicpus", "memory", "gpus"):
        assert getattr(both, name) == min(getattr(a, name), getattr(b, name))


def test_what_is_short_is_said_in_words() -> None:
    asked = Resources(millicpus=2500, memory=3 * GIB, gpus=1)
    room = Resources(millicpus=500, memory=GIB, gpus=-1)
    said = asked.short_of(room)
    assert [phrase.split(" (")[0] for phrase in said] == ["1 GPU", "2.5 CPUs", "3.0 GiB of memory"]
