"""What a run used of its machines, one line a replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from muster.cli.output import show_table
from muster.cli.table import Cell, column
from muster.domain.resources import readable_bytes

if TYPE_CHECKING:
    from muster.wire.runs import UsageSeries


def _mean(series: Sequence[float]) -> float:
    return sum(series) / len(series)


def _last(series: Sequence[float]) -> float:
    return series[-1]


def _cores(number: float) -> str:
    return f"{number:.1f}"


def _percent(number: float) -> str:
    return f"{number:.0%}"


#: title, quantity, which number of its series, how it is written, how easily it is spared
_COLUMNS: Sequence[tuple[str, str, Callable[[Sequence[float]], float], Callable[[float], str], int]] = (
    ("CPUS NOW", "cpu", _last, _cores, 0),
    ("CPUS MOST", "cpu", max, _cores, 2),
    ("MEMORY MOST", "memory", max, readable_bytes, 0),
    ("GPU MEAN", "gpu", _mean, _percent, 1),
    ("GPU MEMORY MOST", "gpu_memory", max, readable_bytes, 3),
    ("READ", "disk_read", _last, readable_bytes, 4),
    ("WRITTEN", "disk_write", _last, readable_bytes, 4),
    ("DISK MOST", "disk_used", max, readable_bytes, 4),
)


def show_used(found: Sequence[UsageSeries]) -> None:
    columns = [column("RANK", right=True)]
    columns += [column(title, right=True, spare=spare) for title, *_, spare in _COLUMNS]
    rows = [_row(series) for series in found if series.at]
    show_table(columns, rows, empty="There are no samples; the first is taken after five seconds.")


def _row(series: UsageSeries) -> list[Cell]:
    row: list[Cell] = [series.rank]
    for _, quantity, number_of, written, _ in _COLUMNS:
        known = [value for value in series.values.get(quantity, ()) if value is not None]
        row.append(written(number_of(known)) if known else "")
    return row
