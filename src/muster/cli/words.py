"""Times, lengths of time and states, as people say them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from rich.text import Text

#: state of a run or replica → its sign and colour. The word is always there too.
SIGNS: Mapping[str, tuple[str, str]] = {
    "queued": ("○", "yellow"),
    "claimed": ("◔", "cyan"),
    "preparing": ("◔", "cyan"),
    "pending": ("◔", "cyan"),
    "starting": ("◑", "cyan"),
    "running": ("●", "blue"),
    "stopping": ("◐", "magenta"),
    "succeeded": ("✔", "green"),
    "failed": ("✘", "red"),
    "stopped": ("■", "magenta"),
    "lost": ("?", "red"),
    "preempted": ("↺", "yellow"),
}
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def state(name: str) -> Text:
    """`● running`, coloured where colours are shown."""
    sign, style = SIGNS.get(name, ("·", ""))
    return Text(f"{sign} {name}", style=style)


def ago(at: datetime | None, *, now: datetime | None = None) -> str:
    """`2 min ago`; far back, the day."""
    if at is None:
        return ""
    passed = (now or datetime.now(UTC)) - at
    if passed < timedelta(seconds=1):
        return "just now"  # also if the server's clock is ahead of ours
    if passed > timedelta(days=30):
        return at.astimezone().strftime("%Y-%m-%d")
    seconds = int(passed.total_seconds())
    unit, size = next((unit, size) for unit, size in _UNITS if seconds >= size)
    return f"{seconds // size} {unit} ago"


def moment(at: datetime) -> str:
    """Day and time where the reader is."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def span(length: timedelta | None) -> str:
    """`3.4 s`, `2 min 5 s`, `1 h 4 min`: never more than two units."""
    if length is None:
        return ""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    place, (unit, size) = next(
        (place, (unit, size)) for place, (unit, size) in enumerate(_UNITS) if whole >= size
    )
    text = f"{whole // size} {unit}"
    if place + 1 < len(_UNITS):
        smaller, smaller_size = _UNITS[place + 1]
        if rest := whole % size // smaller_size:
            text += f" {rest} {smaller}"
    return text


def took(start: datetime | None, end: datetime | None, *, now: datetime | None = None) -> str:
    """From start to end, or to now while it lasts; nothing before it has begun."""
    return span((end or now or datetime.now(UTC)) - start) if start else ""


def visible(text: str) -> str:
    """`text` without what would move the cursor or change the terminal's colours."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def written(value: object) -> str:
    """A value as its writer would write it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
