"""One follower's way through a run's logs: where it is in each replica, what comes next, when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from muster.domain.errors import BadInput
from muster.domain.observation import Replica
from muster.server.logshare import LogShare, Piece, RunView
from muster.store.logs import MAX_OFFSET, LogKey

#: How often a follower looks again for the rest of a log whose agent ended before it sent all of it.
PATIENCE = 10


@dataclass(kw_only=True)
class LogFeed:
    run_id: str
    only_rank: int | None
    only_attempt: int | None
    tail: int | None
    share: LogShare
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

    def over(self, view: RunView) -> bool:
        """The last attempt that is followed has ended."""
        return view.state.terminal or self._last(view) < view.attempt

    def finished(self, view: RunView) -> bool:
        """Nothing more will come."""
        if not self.over(view):
            return False
        if self.waited > PATIENCE:
            return True
        members = self._members(view, self._last(view))
        return all(self.offsets.get(rank, 0) >= (replica.log_bytes or 0) for rank, replica in members)

    async def events(self, view: RunView) -> AsyncIterator[bytes]:
        """What is there now beyond what was sent. An attempt is read to its end before the next, its
        replicas in turns, so that one that floods keeps no other waiting."""
        if self.attempt == 0:
            self.attempt = view.attempt
        for number in range(max(self.attempt, 1), self._last(view) + 1):
            if number > self.attempt:
                self.attempt, self.offsets = number, {}
            members = self._members(view, number)
            while members:
                full: list[tuple[int, Replica]] = []
                for rank, replica in members:
                    piece = await self._next_piece(rank, replica)
                    if piece is None:
                        continue
                    self.offsets[rank] = piece.end
                    self.waited = 0
                    yield b"id: %b\r\n%b" % (self.cursor.encode(), piece.event)
                    if piece.full:
                        full.append((rank, replica))
                members = full
        self.tail = None  # it was about what was there at first: all that comes later is wanted whole
        self.waited += self.over(view)

    async def _next_piece(self, rank: int, replica: Replica) -> Piece | None:
        key = LogKey(run_id=self.run_id, attempt=self.attempt, rank=rank)
        if rank not in self.offsets:
            length = await asyncio.to_thread(self.share.logs.length, key) if self.tail is not None else 0
            self.offsets[rank] = max(0, length - (self.tail or 0))
        return await self.share.piece(key, self.offsets[rank], whole=replica.log_bytes)

    def _last(self, view: RunView) -> int:
        return view.attempt if self.only_attempt is None else min(self.only_attempt, view.attempt)

    def _members(self, view: RunView, attempt: int) -> list[tuple[int, Replica]]:
        members = sorted(view.replicas.get(attempt, {}).items())
        return [member for member in members if self.only_rank in (None, member[0])]
