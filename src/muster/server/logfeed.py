"""One follower's way through a run's logs: where it is in each replica, what comes next, when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection

from muster.domain.errors import BadInput
from muster.domain.observation import AttemptKey, Replica
from muster.domain.run import RunState
from muster.store import attempts, runs
from muster.store.logs import LogKey, LogStore
from muster.wire.runs import LogChunk

CHUNK = 256 * 1024
MAX_OFFSET = 2**62  #: no log is that long
#: How often a follower looks again for the rest of a log whose agent ended before it sent all of it.
PATIENCE = 10


@dataclass(frozen=True, kw_only=True)
class LogView:
    """What the store says of the run just now."""

    state: RunState
    over: bool  #: the last attempt that is followed has ended
    attempt: int
    replicas: Mapping[int, Mapping[int, Replica]]  #: attempt → rank → replica


@dataclass(kw_only=True)
class LogFeed:
    run_id: str
    only_rank: int | None
    only_attempt: int | None
    tail: int | None
    logs: LogStore
    attempt: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    waited: int = 0

    @property
    def cursor(self) -> str:
        """`attempt;rank=offset,…`: where to go on."""
        places = ",".join(f"{rank}={offset}" for rank, offset in sorted(self.offsets.items()))
        return f"{self.attempt};{places}"

    def resume(self, cursor: str) -> None:
        try:
            attempt, _, places = cursor.partition(";")
            self.attempt = int(attempt)
            pairs = (place.split("=") for place in places.split(",") if place)
            self.offsets = {int(rank): int(offset) for rank, offset in pairs}
            if self.attempt < 0 or any(not 0 <= n <= MAX_OFFSET for p in self.offsets.items() for n in p):
                raise ValueError(cursor)
        except ValueError as error:
            hint = "Send the id of the last event as it came."
            raise BadInput(f"{cursor[:40]!r} is not a place in a log.", hint=hint) from error
        self.tail = None

    def look(self, conn: Connection) -> LogView | None:
        head = runs.heads(conn, [self.run_id]).get(self.run_id)
        if head is None:
            return None
        if self.attempt == 0:
            self.attempt = head.attempt
        keys = [
            AttemptKey(run_id=self.run_id, attempt=number)
            for number in range(max(self.attempt, 1), head.attempt + 1)
        ]
        members = attempts.replicas_of_many(conn, keys) if keys else {}
        by_attempt = {key.attempt: ranks for key, ranks in members.items()}
        last = head.attempt if self.only_attempt is None else min(self.only_attempt, head.attempt)
        over = head.state.terminal or last < head.attempt
        return LogView(state=head.state, over=over, attempt=last, replicas=by_attempt)

    async def chunks(self, view: LogView) -> AsyncIterator[LogChunk]:
        """What is there now beyond what was sent. An attempt is read to its end before the next."""
        for number in range(max(self.attempt, 1), view.attempt + 1):
            if number > self.attempt:
                self.attempt, self.offsets = number, {}
            for rank, replica in sorted(view.replicas.get(number, {}).items()):
                if self.only_rank is not None and rank != self.only_rank:
                    continue
                async for chunk in self._of_replica(rank, replica):
                    self.waited = 0
                    yield chunk
        self.tail = None  # it was about what was there at first: all that comes later is wanted whole
        self.waited += view.over

    def finished(self, view: LogView) -> bool:
        """Nothing more will come."""
        if not view.over:
            return False
        if self.waited > PATIENCE:
            return True
        members = view.replicas.get(view.attempt, {}).values()
        return all(
            self.offsets.get(replica.rank, 0) >= (replica.log_bytes or 0)
            for replica in members
            if self.only_rank is None or replica.rank == self.only_rank
        )

    async def _of_replica(self, rank: int, replica: Replica) -> AsyncIterator[LogChunk]:
        key = LogKey(run_id=self.run_id, attempt=self.attempt, rank=rank)
        if rank not in self.offsets:
            length = await asyncio.to_thread(self.logs.length, key) if self.tail is not None else 0
            self.offsets[rank] = max(0, length - (self.tail or 0))
        while True:
            offset = self.offsets[rank]
            data = await asyncio.to_thread(self.logs.read, key, offset, CHUNK)
            is_last = replica.log_bytes is not None and offset + len(data) >= replica.log_bytes
            piece = data if is_last else whole_text(data)
            if not piece:
                return
            self.offsets[rank] = offset + len(piece)
            text = piece.decode("utf-8", "replace")
            yield LogChunk(rank=rank, attempt=self.attempt, offset=offset, text=text)
            if len(data) < CHUNK:
                return


def whole_text(data: bytes) -> bytes:
    """`data` without the beginning of a character whose rest has not come yet."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue  # the middle of a character
        needs = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needs > back else data
    return data
