"""A run's output: read as it is, or followed as it grows."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.cli.follow import chunks
from muster.cli.output import show_json_items, show_json_line
from muster.client.sdk import LineAssembler
from muster.wire.runs import LogChunk

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import RunModel

READ = 8 * 1024 * 1024  #: bytes in one answer, at most
#: Where only the last lines are wanted of a growing log, they are looked for in so many bytes at its end.
#: The server sends that much as one chunk.
TAIL_BYTES = 128 * 1024


@dataclass(frozen=True, kw_only=True)
class Wanted:
    rank: int | None = None  #: None: all of them
    attempt: int | None = None  #: None: the newest
    tail: int | None = None  #: lines; None: all of them
