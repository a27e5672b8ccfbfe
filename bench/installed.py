"""Muster as a user has it: `muster up`, with files and a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import until
from installation import Installation


@contextmanager
def muster_up(folder: Path, *options: str) -> Iterator[Installation]:
    """Up, with its agent there, for as long as the block lasts."""
    installation = Installation(folder)
    try:
        installation.start(*options)
        client = installation.client()
        until(lambda: client.get_queue("local").agents_online == 1, seconds=30, what="Muster's agent")
        yield installation
    finally:
        installation.destroy()
