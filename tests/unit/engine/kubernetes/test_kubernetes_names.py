"""Names and labels a cluster takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.kubernetes.names import legal_label, legal_name

TEXT = st.text(max_size=100) | st.text(st.sampled_from("aB_-.$1"), max_size=100)


@given(TEXT)
def test_any_text_becomes_a_legal_name(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", legal_name(text))


@given(TEXT)
def test_any_text_becomes_a_legal_label(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", legal_label(text))


@given(TEXT, TEXT)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (legal_name(one) == legal_name(other)) == (one == other)
    assert (legal_label(one) == legal_label(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "name", "label"),
    [
        ("train-r123456789", "train-r123456789", "train-r123456789"),
        ("My_Run", r"my-run-[0-9a-f]{8}", "My_Run"),
        ("a" * 64, r"a{54}-[0-9a-f]{8}", r"a{54}-[0-9a-f]{8}"),
        ("***", r"x[0-9a-f]{8}", r"x[0-9a-f]{8}"),
        ("ann@lab", r"ann-lab-[0-9a-f]{8}", r"ann-lab-[0-9a-f]{8}"),
        ("v1.2", r"v1-2-[0-9a-f]{8}", "v1.2"),
    ],
)
def test_what_is_legal_stays_and_what_is_not_gets_a_hash(text: str, name: str, label: str) -> None:
    assert re.fullmatch(name, legal_name(text))
    assert re.fullmatch(label, legal_label(text))
