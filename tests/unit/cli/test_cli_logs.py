from __future__ import annotations

import pytest

from muster.cli.logs import last_lines


@pytest.mark.parametrize(
    ("text", "number", "kept"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 5, "a\nb\n"),
        ("a\rb\nc\n", 2, "a\rb\nc\n"),
        ("a\n", 0, ""),
        ("", 3, ""),
    ],
)
def test_the_last_lines_are_kept(text: str, number: int, kept: str) -> None:
    assert last_lines(text, number) == kept
