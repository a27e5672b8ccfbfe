"""Tables at the widths terminals have."""

from __future__ import annotations

import pytest
from rich.text import Text

from muster.cli.run import COLUMNS
from muster.cli.table import column, lines
from muster.cli.words import state

ROWS = [
    ("kz83h2k4j1", "swift-heron-42", state("running"), "local", "vision", "ann", "2 min ago", "1 min 3 s"),
    ("ab61g2naf3", "x" * 64, state("failed"), "gpu-cluster-a", "default", "robert", "3 h ago", ""),
]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_fits_and_keeps_what_matters(width: int) -> None:
    shown = [line.plain for line in lines(COLUMNS, ROWS, width=width)]
    assert all(Text(line).cell_len <= width for line in shown)
    assert all(row[0] in line for row, line in zip(ROWS, shown[1:], strict=True))
    assert "● running" in shown[1]
    assert "✘ failed" in shown[2]
    assert "2 min ago" in shown[1]
    assert "…" in shown[2]


def test_what_matters_less_is_left_out_first() -> None:
    titles = [str(lines(COLUMNS, ROWS, width=width)[0]).split() for width in (60, 80, 120)]
    assert titles[0] == ["ID", "NAME", "STATE", "CREATED"]
    assert titles[1] == ["ID", "NAME", "STATE", "QUEUE", "CREATED", "TOOK"]
    assert titles[2] == ["ID", "NAME", "STATE", "QUEUE", "PROJECT", "AUTHOR", "CREATED", "TOOK"]


def test_without_a_terminal_nothing_is_cut() -> None:
    shown = [line.plain for line in lines(COLUMNS, ROWS, width=None)]
    assert "x" * 64 in shown[2]
    assert all(line == line.rstrip() for line in shown)


def test_columns_are_aligned_also_for_wide_characters() -> None:
    columns = (column("NAME"), column("N", right=True))
    shown = lines(columns, [("模型", 1), ("ab", 20)], width=80)
    assert [line.plain for line in shown] == ["NAME   N", "模型   1", "ab    20"]


def test_an_empty_column_takes_no_room_in_a_terminal() -> None:
    columns = (column("A"), column("B", spare=1))
    assert [line.plain for line in lines(columns, [("x", "")], width=80)] == ["A", "x"]
    assert [line.plain for line in lines(columns, [("x", "")], width=None)] == ["A  B", "x"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    (_, row) = lines((column("A"),), [("a\x1b[31mb\nc",)], width=80)
    assert row.plain == "a\ufffd[31mb c"
