"""Many blobs in one request body: for each a line `<sha256> <size>`, then exactly that many bytes.

`header` writes the line; `FrameReader` takes such a stream apart as it arrives, however it was cut.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from muster.domain.errors import BadInput
from muster.domain.snapshot import MAX_BYTES

MAX_HEADER = 100  #: bytes, with the line's end

_HEADER = re.compile(rb"([0-9a-f]{64}) (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class BlobStart:
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class BlobData:
    data: bytes


@dataclass(frozen=True, slots=True)
class BlobEnd:
    """All bytes of the blob were there, and they have the SHA-256 that its header said."""

    sha256: str


FrameEvent = BlobStart | BlobData | BlobEnd


def header(sha256: str, size: int) -> bytes:
    return f"{sha256} {size}\n".encode("ascii")


class FrameReader:
    """Feed it chunks of any size; call `close` at the end of the body."""

    def __init__(self, *, max_blob: int = MAX_BYTES) -> None:
        self._max_blob = max_blob
        self._line = b""  #: a header of which only the beginning is there
        self._blob: BlobStart | None = None
        self._missing = 0
        self._hash = hashlib.sha256()

    def feed(self, chunk: bytes) -> list[FrameEvent]:
        """What this chunk tells. Nothing can follow a `BadInput`."""
        events: list[FrameEvent] = []
        position = 0
        while position < len(chunk):
            if self._blob is None:
                position = self._read_header(chunk, position, events)
            else:
                data = chunk[position : position + self._missing]
                position += len(data)
                self._missing -= len(data)
                self._hash.update(data)
                events.append(BlobData(data))
            if self._blob is not None and self._missing == 0:
                events.append(self._end(self._blob))
        return events

    def close(self) -> None:
        if self._blob is not None:
            raise BadInput(f"The upload ends {self._missing} bytes before the end of {self._blob.sha256}.")
        if self._line:
            raise BadInput("The upload ends in the middle of a header.")

    def _read_header(self, chunk: bytes, position: int, events: list[FrameEvent]) -> int:
        room = MAX_HEADER - len(self._line)
        end = chunk.find(b"\n", position, position + room)
        if end < 0:
            if len(chunk) - position >= room:
                raise BadInput(f"A header of the upload is longer than {MAX_HEADER} bytes.")
            self._line += chunk[position:]
            return len(chunk)
        line, self._line = self._line + chunk[position:end], b""
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadInput(f"{line!r} is not a header: a SHA-256, a space, a size.")
        self._blob = BlobStart(match[1].decode(), int(match[2]))
        if self._blob.size > self._max_blob:
            raise BadInput(f"The blob {self._blob.sha256} is larger than {self._max_blob} bytes.")
        self._missing = self._blob.size
        self._hash = hashlib.sha256()
        events.append(self._blob)
        return end + 1

    def _end(self, blob: BlobStart) -> BlobEnd:
        if self._hash.hexdigest() != blob.sha256:
            raise BadInput(
                f"What was sent as {blob.sha256} has another SHA-256.",
                hint="The file changed while it was sent. Launch again.",
            )
        self._blob = None
        return BlobEnd(blob.sha256)
