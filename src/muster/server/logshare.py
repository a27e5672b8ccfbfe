"""What the followers of one log have in common: it is looked up, read and encoded once for all of them.

Followers of a run that is busy stand at the same place, most of the time. Who has fallen behind reads
for itself, from the files: nobody waits for it, and nothing is kept for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from muster.domain.observation import AttemptKey, Replica
from muster.domain.run import RunState
from muster.server.eventframe import encoded
from muster.service.bus import Bus, run_topic
from muster.store import attempts, runs
from muster.store.database import Database
from muster.store.logs import LogKey, LogStore
from muster.wire.runs import LogChunk

CHUNK = 256 * 1024
KEPT = 16 * 1024 * 1024  #: bytes of encoded pieces in memory, of all logs together
_VIEW_SECONDS = 1.0  #: a view is told when it is out of date; who was not told finds out as soon as this


@dataclass(frozen=True, kw_only=True)
class RunView:
    """What the store says of a run just now."""

    entity: str
    state: RunState
    attempt: int  #: the newest; 0: none yet
    since: int  #: the first attempt in `replicas`
    replicas: Mapping[int, Mapping[int, Replica]]  #: attempt → rank → replica


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of one replica's log, encoded as an event that lacks only its id."""

    end: int  #: where in the log the next piece begins
    full: bool  #: there was more than fits into one
    event: bytes


_Place = tuple[LogKey, int, int | None]  #: whose log, from where, and how long it is if that is known


class RunWatch:
    """One run, seen once for all who follow it."""

    def __init__(self, run_id: str, db: Database, bus: Bus) -> None:
        self._run_id = run_id
        self._db = db
        self._listening = ExitStack()
        self._changed = self._listening.enter_context(bus.listen(run_topic(run_id)))
        self._view: RunView | None = None
        self._seen_at = 0.0
        self._looking = asyncio.Lock()
        self.followers = 0

    async def view(self, since: int) -> RunView | None:
        """The run with its attempts from `since` on (0: from the newest); None: there is no such run."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if self._changed.is_set() or now > self._seen_at + _VIEW_SECONDS or not self._covers(since):
                self._changed.clear()
                self._seen_at = now
                first = min(since or self._view.since, self._view.since) if self._view else since
                self._view = await self._db.read(lambda conn: _look(conn, self._run_id, first))
            return self._view

    def close(self) -> None:
        self._listening.close()

    def _covers(self, since: int) -> bool:
        return self._view is not None and (since == 0 or self._view.since <= since)


def _look(conn: Connection, run_id: str, since: int) -> RunView | None:
    head = runs.heads(conn, [run_id]).get(run_id)
    if head is None:
        return None
    first = max(1, since or head.attempt)
    keys = [AttemptKey(run_id=run_id, attempt=number) for number in range(first, head.attempt + 1)]
    members = attempts.replicas_of_many(conn, keys) if keys else {}
    return RunView(
        entity=head.entity,
        state=head.state,
        attempt=head.attempt,
        since=first,
        replicas={key.attempt: ranks for key, ranks in members.items()},
    )


class LogShare:
    """The runs that are followed, and the newest pieces of their logs."""

    def __init__(self, db: Database, bus: Bus, logs: LogStore, *, kept: int = KEPT) -> None:
        self._db = db
        self._bus = bus
        self._room = kept
        self._watches: dict[str, RunWatch] = {}
        self._ready: OrderedDict[_Place, Piece] = OrderedDict()
        self._coming: dict[_Place, asyncio.Task[Piece | None]] = {}
        self.logs = logs

    @contextmanager
    def watch(self, run_id: str) -> Iterator[RunWatch]:
        """The run, for as long as somebody follows it."""
        watch = self._watches.get(run_id)
        if watch is None:
            watch = self._watches[run_id] = RunWatch(run_id, self._db, self._bus)
        watch.followers += 1
        try:
            yield watch
        finally:
            watch.followers -= 1
            if watch.followers == 0:
                self._watches.pop(run_id).close()

    async def piece(self, key: LogKey, offset: int, *, whole: int | None) -> Piece | None:
        """What follows `offset`, if anything does; `whole` is the log's length, once that is known."""
        place = (key, offset, whole)
        found = self._ready.get(place)
        if found is not None:
            return found
        coming = self._coming.get(place)
        if coming is None:
            coming = self._coming[place] = asyncio.create_task(self._read(place))
        return await asyncio.shield(coming)  # who hangs up takes it from nobody else

    async def _read(self, place: _Place) -> Piece | None:
        try:
            piece = await asyncio.to_thread(_read_and_encode, self.logs, place)
        finally:
            del self._coming[place]
        watch = self._watches.get(place[0].run_id)
        if piece is not None and watch is not None and watch.followers > 1:
            self._keep(place, piece)
        return piece

    def _keep(self, place: _Place, piece: Piece) -> None:
        self._ready[place] = piece
        self._room -= len(piece.event)
        while self._room < 0:
            _, oldest = self._ready.popitem(last=False)
            self._room += len(oldest.event)


def _read_and_encode(logs: LogStore, place: _Place) -> Piece | None:
    key, offset, whole = place
    data = logs.read(key, offset, CHUNK)
    is_last = whole is not None and offset + len(data) >= whole
    part = data if is_last else whole_text(data)
    if not part:
        return None
    text = part.decode("utf-8", "replace")
    chunk = LogChunk.model_construct(rank=key.rank, attempt=key.attempt, offset=offset, text=text)
    event = encoded("log", chunk.model_dump_json().encode())
    return Piece(end=offset + len(part), full=len(data) == CHUNK, event=event)


def whole_text(data: bytes) -> bytes:
    """`data` without the beginning of a character whose rest has not come yet."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue  # the middle of a character
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needs > back else data
    return data
