"""Config files, read as strictly as the server reads them (`muster.domain.document`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.domain import document
from muster.domain.document import MAX_BYTES, dump, place_in, too_large
from muster.domain.errors import BadConfigFile, BadDocument, TooLarge

__all__ = [
    "MAX_BYTES",
    "STDIN",
    "as_file",
    "dump",
    "name_of",
    "parse",
    "parse_mapping",
    "read_mapping",
    "read_text",
]

STDIN = "-"
UNFOLDED = 2**30  #: a width at which no text is broken into lines


def read_mapping(path: Path | str) -> dict[str, Any]:
    """The mapping in this file; `-` is standard input."""
    return parse_mapping(read_text(path), name=name_of(path))


def parse_mapping(text: str, *, name: str) -> dict[str, Any]:
    """The mapping this text is; `name` is what errors call it."""
    value = parse(text, name=name)
    if not isinstance(value, dict):
        what = {list: "a list", type(None): "empty"}.get(type(value), "a single value")
        raise BadConfigFile(f"{name} is {what}.", hint="Write it as `key: value` lines.")
    return value


def parse(text: str, *, name: str) -> Any:
    """Whatever this text is: mapping, list or scalar."""
    with as_file():
        return document.parse(text, name=name)


@contextmanager
def as_file() -> Iterator[None]:
    """What is refused in here is refused because of a file: nothing was sent yet."""
    try:
        yield
    except (BadDocument, TooLarge) as error:
        raise BadConfigFile(error.detail, hint=error.hint, facts=error.facts) from error


def name_of(path: Path | str) -> str:
    """What errors call it."""
    return "<stdin>" if str(path) == STDIN else str(path)


def read_text(path: Path | str) -> str:
    """The text of this file, if it is text and not too much."""
    name = name_of(path)
    try:
        if str(path) == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadConfigFile(f"{name} cannot be read: {error.strerror}.", hint="Check the path.") from error
    if len(data) > MAX_BYTES:
        with as_file():
            raise too_large(name, place_in(data, MAX_BYTES))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = place_in(data, error.start)
        raise BadConfigFile(f"{name}:{line}:{column}: this is not UTF-8 text.") from error
