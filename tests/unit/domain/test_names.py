"""Ids that are legal everywhere, and names that people choose."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadName
from muster.domain.names import checked_name, friendly_name, is_id, new_id

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def fixed(raw: bytes) -> Callable[[int], bytes]:
    return lambda count: raw[:count]


@given(st.binary(min_size=8, max_size=8))
def test_an_id_is_a_label_everywhere(raw: bytes) -> None:
    made = new_id(fixed(raw))
    assert re.fullmatch(r"[a-z][a-z0-9]{9}", made)
    assert DNS_1035.fullmatch(made)
    assert is_id(made)


def test_ids_differ_where_the_dice_do() -> None:
    made = {new_id(fixed(number.to_bytes(8, "big"))) for number in range(10_000)}
    assert len(made) == 10_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "1234567890",
        "A123456789",
        "a12345678",
        "a1234567890",
        "a12345678\n",
        "a/../12345",
        "a12345678é",
    ],
)
def test_what_is_no_id(text: str) -> None:
    assert not is_id(text)


@given(st.binary(min_size=6, max_size=6))
def test_a_friendly_name_may_name_a_run(raw: bytes) -> None:
    made = friendly_name(fixed(raw))
    assert checked_name(made, what="run") == made
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{1,3}", made)


@pytest.mark.parametrize("name", ["a", "A", "7", "my-run_2.0", "a" * 64, "x..y"])
def test_names_that_are_fine(name: str) -> None:
    assert checked_name(name, what="queue") == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "-a", "a-", ".a", "a.", "a b", "a/b", "a\\b", "a\n", "a\0", "ü", "a" * 65, "../../etc"],
)
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(BadName, match=r"is not a valid queue name\. Use 1 … 64 letters"):
        checked_name(name, what="queue")
