from __future__ import annotations

import io

import pytest

from muster.cli.logs import LONGEST, Printer, last_lines
from muster.wire.runs import LogChunk


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


def printed(*pieces: tuple[int, int, str], prefix: bool) -> str:
    """What is written of (attempt, rank, text) in this order."""
    out = io.StringIO()
    printer = Printer(out, prefix=prefix)
    for attempt, rank, text in pieces:
        printer.feed(LogChunk(attempt=attempt, rank=rank, offset=0, text=text))
    printer.end_lines()
    return out.getvalue()


@pytest.mark.parametrize(
    ("pieces", "prefix", "expected"),
    [
        ([(1, 0, "a\nb"), (1, 0, "c\n")], False, "a\nbc\n"),
        ([(1, 0, "no end")], False, "no end\n"),
        ([(1, 0, "10%\r20%\r\n")], False, "10%\r20%\r\n"),
        ([(1, 0, "a"), (1, 1, "b"), (1, 0, "a\n"), (1, 1, "b\n")], True, "[0] aa\n[1] bb\n"),
        ([(1, 0, "\n\nx")], True, "[0] \n[0] \n[0] x\n"),
        ([(1, 0, "cut off"), (2, 0, "again\n")], False, "cut off\nagain\n"),
        ([], False, ""),
    ],
)
def test_lines_are_printed_whole(pieces: list[tuple[int, int, str]], prefix: bool, expected: str) -> None:
    assert printed(*pieces, prefix=prefix) == expected


def test_a_line_that_does_not_end_is_printed_as_it_comes() -> None:
    out = io.StringIO()
    printer = Printer(out, prefix=False)
    part = "x" * (LONGEST + 1)
    for number in (1, 2, 3):
        printer.feed(LogChunk(attempt=1, rank=0, offset=0, text=part))
        assert len(out.getvalue()) == number * len(part)
    printer.feed(LogChunk(attempt=1, rank=0, offset=0, text="\nnext\n"))
    printer.end_lines()
    assert out.getvalue() == f"{part * 3}\nnext\n"
