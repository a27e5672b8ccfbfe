"""The table, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.harness import Figure, Row, Summary, number_text

HEADS = ("What", "Result (range)", "Bar", "", "Behind it", "Note")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark's rows."""

    name: str
    about: str
    seconds: float
    rows: tuple[Row, ...]


def markdown(sections: Sequence[Section], facts: Mapping[str, str]) -> str:
    lines = [
        "# Results",
        "",
        "Written by `make bench`; do not edit. [README](README.md) says what is measured.",
    ]
    lines += ["", "|  |  |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]
    lines += ["", verdict(sections)]
    for section in sections:
        lines += ["", f"## {section.name}", "", f"{section.about} ({section.seconds:.0f} s)", ""]
        lines += table(section.rows)
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Row]) -> list[str]:
    return [_line(HEADS), _line(["---"] * len(HEADS)), *(_line(cells(row)) for row in rows)]


def cells(row: Row) -> tuple[str, ...]:
    met = {None: "", True: "met", False: "**not met**"}[row.met]
    if row.bar is not None and row.result is None:
        met = "**not measured**"
    return (
        row.what,
        amount(row.result, row.unit) if row.result else "–",
        f"{row.bar.sense} {number_text(row.bar.limit)} {row.unit}" if row.bar else "",
        met,
        "; ".join(_figure(figure) for figure in row.behind),
        row.note,
    )


def verdict(sections: Sequence[Section]) -> str:
    """How many bars were met, and which were not."""
    held = [(section.name, row) for section in sections for row in section.rows if row.bar is not None]
    short = [f"{name}: {row.what}" for name, row in held if row.met is not True]
    words = f"{len(held) - len(short)} of {len(held)} bars met."
    return f"{words} Not met: {'; '.join(short)}." if short else words


def amount(summary: Summary, unit: str) -> str:
    text = f"{number_text(summary.median)} {unit}"
    if summary.low == summary.high:
        return text
    return f"{text} ({number_text(summary.low)}–{number_text(summary.high)})"


def as_json(sections: Sequence[Section], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "machine": dict(facts),
        "benchmarks": [
            {**asdict(section), "rows": [{**asdict(row), "met": row.met} for row in section.rows]}
            for section in sections
        ],
    }


def _figure(figure: Figure) -> str:
    return f"{figure.name} {amount(figure.summary, figure.unit)}"


def _line(row: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '∣') for cell in row)} |"
