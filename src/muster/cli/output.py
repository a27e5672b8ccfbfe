"""What a command prints: results on stdout, everything else on stderr; JSON exactly as HTTP gives it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from muster.cli import table
from muster.cli.table import Cell, Column
from muster.cli.usage import BadUsage
from muster.cli.words import visible

if TYPE_CHECKING:
    from pydantic import BaseModel

    from muster.client.sync import Client


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the thread it is called in; `main` ends the program


@cache
def _console(*, stderr: bool) -> Console:
    return _Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def show(*parts: str | Text) -> None:
    """One line of the result."""
    _print(parts, stderr=False)


def say(*parts: str | Text) -> None:
    """One line about what goes on."""
    _print(parts, stderr=True)


def hint(text: str) -> None:
    say(Text("→ ", style="dim"), text)


def _print(parts: Sequence[str | Text], *, stderr: bool) -> None:
    line = Text().join(part if isinstance(part, Text) else Text(visible(part)) for part in parts)
    _console(stderr=stderr).print(line)


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, empty: str) -> None:
    """Cut to the terminal; in full where the output goes elsewhere."""
    if not rows:
        say(empty)
        return
    console = _console(stderr=False)
    for line in table.lines(columns, rows, width=console.width if console.is_terminal else None):
        console.print(line)


def show_facts(facts: Sequence[tuple[str, str | Text]]) -> None:
    """Names with their values, aligned; those without a value are left out."""
    given = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        below = value.replace("\n", "\n" + " " * (width + 2)) if isinstance(value, str) else value
        show(Text(f"{name:<{width}}  ", style="dim"), below)


def show_json(value: BaseModel | dict[str, Any]) -> None:
    """One document."""
    print(_as_json(value, indent=2))


def show_json_line(value: BaseModel) -> None:
    """One document of a stream, on one line."""
    print(_as_json(value, indent=None), flush=True)


def show_json_items(items: Sequence[BaseModel], following: str | None = None) -> None:
    """A list, as HTTP gives lists."""
    show_json({"items": [item.model_dump(mode="json") for item in items], "next": following})


def _as_json(value: BaseModel | dict[str, Any], *, indent: int | None) -> str:
    data = value if isinstance(value, dict) else value.model_dump(mode="json")
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return json.dumps(data, indent=indent, ensure_ascii=ascii_only, allow_nan=False)


@contextmanager
def connect() -> Iterator[Client]:
    """The server that environment and config file name."""
    from muster.client.sync import Client

    with Client() as client:
        yield client


def is_somebody_there() -> bool:
    """Is there a person who could answer a question?"""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Go on only with a yes: from the option, or from the person who is there."""
    if yes:
        return
    if not is_somebody_there():
        raise BadUsage("This needs a yes, and nobody is there to ask.", hint="Say it with --yes.")
    import typer

    typer.confirm(question, abort=True, err=True)
