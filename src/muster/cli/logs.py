"""A run's output: read as it is, or followed as it grows."""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from muster.cli.news import PATIENCE, PAUSE
from muster.cli.output import show_json_items, show_json_line
from muster.domain.errors import ServerUnreachable, Unavailable
from muster.wire.runs import LogChunk

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import RunModel

READ = 8 * 1024 * 1024  #: bytes in one answer, at most
#: The last lines of a log that grows are looked for in so many bytes at its end; these come as one chunk.
TAIL_BYTES = 128 * 1024
LONGEST = 64 * 1024  #: characters of a line without an end that are held back


@dataclass(frozen=True, kw_only=True)
class Wanted:
    rank: int | None = None  #: None: all replicas
    attempt: int | None = None  #: None: the newest
    tail: int | None = None  #: lines of each replica; None: all of them

    def printer(self, run: RunModel) -> Printer:
        return Printer(sys.stdout, prefix=run.nodes > 1 and self.rank is None)


class Printer:
    """Writes lines whole, those of several replicas one after another. One that does not end is written
    in parts: it may be longer than the memory."""

    def __init__(self, out: TextIO, *, prefix: bool) -> None:
        self._out = out
        self._prefix = prefix
        self._open: dict[int, str] = {}  #: rank → the beginning of a line
        self._attempt = 0
        self._midline = False

    def feed(self, chunk: LogChunk) -> None:
        if chunk.attempt != self._attempt:
            self.end_lines()
            self._attempt = chunk.attempt
        text = self._open.pop(chunk.rank, "") + chunk.text
        cut = text.rfind("\n") + 1
        if len(text) - cut > LONGEST:
            cut = len(text)
        if cut < len(text):
            self._open[chunk.rank] = text[cut:]
        self._write(chunk.rank, text[:cut])

    def end_lines(self) -> None:
        """Nothing more comes: write what was held back, and give the last line an end."""
        for rank, text in sorted(self._open.items()):
            self._write(rank, f"{text}\n")
        self._open.clear()
        if self._midline:
            self._out.write("\n")
            self._midline = False
        self._out.flush()

    def _write(self, rank: int, text: str) -> None:
        if not text:
            return
        if self._prefix:
            lines = text.removesuffix("\n").split("\n")
            text = "".join(f"[{rank}] {line}\n" for line in lines)
        self._out.write(text)
        self._out.flush()
        self._midline = not text.endswith("\n")


async def read(client: AsyncClient, run: RunModel, wanted: Wanted, *, json: bool) -> None:
    """What is there now, one replica after the other."""
    attempt = wanted.attempt or max(run.attempt, 1)
    found: list[LogChunk] = []
    printer = wanted.printer(run)
    for rank in range(run.nodes) if wanted.rank is None else (wanted.rank,):
        if wanted.tail is None:
            source = _whole(client, run.id, rank, attempt)
        else:
            source = _end(client, run.id, rank, attempt, wanted.tail)
        async for chunk in source:
            if json:
                found.append(chunk)
            else:
                printer.feed(chunk)
        printer.end_lines()
    if json:
        show_json_items(found)


async def follow(client: AsyncClient, run: RunModel, wanted: Wanted, *, json: bool) -> None:
    """Lines as they come, until the run has ended; as JSON, one chunk a line."""
    printer = wanted.printer(run)
    begun = run.started_at is not None
    met: set[tuple[int, int]] = set()
    tail = None if wanted.tail is None else TAIL_BYTES
    source = chunks(client, run.id, rank=wanted.rank, attempt=wanted.attempt, tail=tail)
    async with aclosing(source) as stream:
        async for chunk in stream:
            place = (chunk.attempt, chunk.rank)
            if wanted.tail is not None and begun and place not in met:
                kept = last_lines(chunk.text, wanted.tail)
                chunk = chunk.model_copy(update={"text": kept})  # noqa: PLW2901 - the same chunk, cut
            met.add(place)
            if json:
                show_json_line(chunk)
            else:
                printer.feed(chunk)
    printer.end_lines()


async def chunks(
    client: AsyncClient,
    run_id: str,
    *,
    rank: int | None = None,
    attempt: int | None = None,
    tail: int | None = None,
) -> AsyncGenerator[LogChunk, None]:
    """Output as it grows, also if the server goes away before the first piece came.

    After that piece the client itself takes the stream up again where it broke.
    """
    loop = asyncio.get_running_loop()
    until: float | None = None
    while True:
        try:
            async for chunk in client.follow_logs(run_id, rank=rank, attempt=attempt, tail=tail):
                until = 0.0
                yield chunk
            return
        except (ServerUnreachable, Unavailable):
            until = loop.time() + PATIENCE if until is None else until
            if loop.time() > until:
                raise
        await asyncio.sleep(PAUSE)


async def _whole(client: AsyncClient, run_id: str, rank: int, attempt: int) -> AsyncGenerator[LogChunk, None]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may lie across two answers
    offset = 0
    while data := await client.read_log(run_id, rank=rank, attempt=attempt, offset=offset, limit=READ):
        yield LogChunk(rank=rank, attempt=attempt, offset=offset, text=decoder.decode(data))
        offset += len(data)
    if rest := decoder.decode(b"", final=True):
        yield LogChunk(rank=rank, attempt=attempt, offset=offset, text=rest)


async def _end(
    client: AsyncClient, run_id: str, rank: int, attempt: int, number: int
) -> AsyncGenerator[LogChunk, None]:
    """The last lines, read from the end: more and more of it until they are all there."""
    size = TAIL_BYTES
    while True:
        data = await client.read_log(run_id, rank=rank, attempt=attempt, offset=-size, limit=READ)
        if len(data) < size or data.count(b"\n") > number or size >= READ:
            break
        size *= 4
    if data:
        text = last_lines(data.decode("utf-8", "replace"), number)
        yield LogChunk(rank=rank, attempt=attempt, offset=0, text=text)


def last_lines(text: str, number: int) -> str:
    """The last lines of `text`; one at its end that is not finished yet counts."""
    finished = text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    kept = "\n".join(lines[-number:]) if number else ""
    return kept + "\n" if finished and number else kept
