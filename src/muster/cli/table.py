"""Tables that fit: what matters less is left out first, then long cells are cut with `…`. No boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from muster.cli.words import visible

GAP = 2
Cell = str | int | Text | None


@dataclass(frozen=True, kw_only=True)
class Column:
    title: str
    least: int | None = None  #: may be cut to so many cells; None: never cut
    spare: int = 0  #: left out where there is no room, the highest first; 0: never
    right: bool = False


def column(title: str, *, least: int | None = None, spare: int = 0, right: bool = False) -> Column:
    return Column(title=title, least=least, spare=spare, right=right)


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int | None) -> list[Text]:
    """The table as lines, the title line first. `width` None: as wide as it is, nothing left out."""
    texts = [[Text(column.title, style="dim") for column in columns]]
    texts += [[_text(cell) for cell in row] for row in rows]
    widths = [max(row[place].cell_len for row in texts) for place in range(len(columns))]
    kept = list(range(len(columns)))
    if width is not None:
        has_content = [any(row[place].plain for row in texts[1:]) for place in kept]
        kept = _kept(columns, widths, has_content, width)
        _cut(columns, widths, kept, width)
    return [_line([(row[place], widths[place], columns[place].right) for place in kept]) for row in texts]


def _text(cell: Cell) -> Text:
    if isinstance(cell, Text):
        return cell.copy()
    return Text("" if cell is None else visible(str(cell)).replace("\n", " "))


def _kept(
    columns: Sequence[Column], widths: Sequence[int], has_content: Sequence[bool], width: int
) -> list[int]:
    """The columns there is room for, each at its least; none that is empty, if it can be spared."""
    kept = [place for place in range(len(columns)) if has_content[place] or not columns[place].spare]
    while True:
        least = sum(min(widths[place], columns[place].least or widths[place]) for place in kept)
        spare = max(kept, key=lambda place: columns[place].spare)
        if least + GAP * (len(kept) - 1) <= width or not columns[spare].spare:
            return kept
        kept.remove(spare)


def _cut(columns: Sequence[Column], widths: list[int], kept: Sequence[int], width: int) -> None:
    """Take from the widest column that may be cut, until all fit."""
    while sum(widths[place] for place in kept) + GAP * (len(kept) - 1) > width:
        open_ones = [place for place in kept if widths[place] > (columns[place].least or widths[place])]
        if not open_ones:
            return
        widths[max(open_ones, key=lambda place: widths[place])] -= 1


def _line(cells: Sequence[tuple[Text, int, bool]]) -> Text:
    line = Text(no_wrap=True)
    for place, (text, width, right) in enumerate(cells):
        if place:
            line.append(" " * GAP)
        text.truncate(width, overflow="ellipsis")
        if right:
            text.align("right", width)
        elif place < len(cells) - 1:
            text.align("left", width)
        line.append_text(text)
    line.rstrip()
    return line
