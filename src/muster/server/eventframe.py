"""One server-sent event, as bytes."""

from __future__ import annotations


def encoded(event: str, data: bytes, *, id: str | None = None) -> bytes:  # noqa: A002 - its name there
    """One event; `data` is one line of JSON."""
    head = b"" if id is None else b"id: %b\r\n" % id.encode()
    return b"%bevent: %b\r\ndata: %b\r\n\r\n" % (head, event.encode(), data)
