"""The table of the benchmarks."""

from __future__ import annotations

import json

from bench.harness import Bar, Figure, Row, Summary, missing
from bench.report import Section, as_json, cells, markdown, verdict

FAST = Row(
    what="Muster ÷ other",
    unit="×",
    result=Summary(median=0.5, low=0.25, high=0.75),
    bar=Bar(sense="≤", limit=1),
    behind=(Figure.of("Muster", [10, 20, 30], "ms"), Figure.of("other", [40], "ms")),
    note="both | flushed",
)
SLOW = Row(what="slow", unit="ms", result=Summary.of([3, 3]), bar=Bar(sense="≤", limit=2))
GONE = missing("gone", "not installed", bar=Bar(sense="≥", limit=1))
PLAIN = Row(what="plain", unit="ms", result=Summary.of([1, 2, 3]))


def section(*rows: Row) -> Section:
    return Section(name="start", about="Starts things.", seconds=12.3, rows=rows)


def test_a_row_has_the_ratio_first_and_the_absolutes_behind() -> None:
    assert cells(FAST) == (
        "Muster ÷ other",
        "0.50 × (0.25–0.75)",
        "≤ 1.00 ×",
        "met",
        "Muster 20.0 ms (10.0–30.0); other 40.0 ms",
        "both | flushed",
    )


def test_a_bar_that_was_missed_or_not_measured_stands_out() -> None:
    assert cells(SLOW)[1:4] == ("3.00 ms", "≤ 2.00 ms", "**not met**")
    assert cells(GONE)[1:4] == ("–", "≥ 1.00 ×", "**not measured**")
    assert cells(PLAIN)[2:4] == ("", "")


def test_the_verdict_counts_bars_and_names_those_not_met() -> None:
    assert verdict([section(FAST, PLAIN)]) == "1 of 1 bars met."
    assert verdict([section(FAST, SLOW, GONE)]) == "1 of 3 bars met. Not met: start: slow; start: gone."


def test_the_page_has_the_machine_and_a_table_that_no_cell_breaks() -> None:
    page = markdown([section(FAST, SLOW)], {"CPU": "two cores"})
    assert "| CPU | two cores |" in page
    table = [line for line in page.split("## start")[1].splitlines() if line.startswith("|")]
    assert [line.count("|") for line in table] == [7, 7, 7, 7]


def test_the_same_is_written_for_programs() -> None:
    found = json.loads(json.dumps(as_json([section(FAST, GONE)], {"CPU": "two cores"})))
    rows = found["benchmarks"][0]["rows"]
    assert found["machine"] == {"CPU": "two cores"}
    assert [row["met"] for row in rows] == [True, None]
    assert rows[0]["result"] == {"median": 0.5, "low": 0.25, "high": 0.75}
