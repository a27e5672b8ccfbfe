"""Sending logs: the files into which replicas write are read from where the server has them.

The offset is the truth: bytes go out with their place in the stream, the answer says how far the
server is, and the next read starts there. A repeat does no harm and nothing is skipped.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import structlog

from muster._failpoint import failpoint
from muster.agent.ledger import InHand, Ledger
from muster.agent.reporter import PAUSES, TRY_AGAIN, OnRefused
from muster.client.api import AsyncClient
from muster.domain.errors import MusterError
from muster.domain.observation import AttemptKey
from muster.engine.port import Engine, LogEnd
from muster.wire.agents import LogAnswer, LogIndex, LogPiece

log = structlog.get_logger()
LOOK_EVERY = 0.04  #: seconds between looks at growing files
PIECE = 1024 * 1024
REQUEST = 4 * 1024 * 1024
PIECES = 2000


class Shipper:
    def __init__(
        self,
        client: AsyncClient,
        engine: Engine,
        ledger: Ledger,
        *,
        incarnation: str,
        on_refused: OnRefused,
    ) -> None:
        self._client = client
        self._engine = engine
        self._ledger = ledger
        self._incarnation = incarnation
        self._on_refused = on_refused
        self._begun = asyncio.Event()  #: something may write to a log
        self._awaited = asyncio.Event()  #: somebody waits for the rest of one
        self._passed = asyncio.Condition()
        self.agent_id = ""

    def wake(self) -> None:
        """There is, or soon will be, something to send."""
        self._begun.set()

    async def finish(self, item: InHand) -> None:
        """Until the server has every byte of the attempt's logs. They are not left to the next look."""
        async with self._passed:
            while not self._all_sent(item):
                self._begun.set()
                self._awaited.set()
                await self._passed.wait()

    async def run(self) -> None:
        while True:
            sent = await self._pass()
            async with self._passed:
                self._passed.notify_all()
            if sent:
                continue
            if not any(item.submitted for item in self._ledger.items()):
                self._begun.clear()
                await self._begun.wait()
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._awaited.wait(), LOOK_EVERY)
            self._awaited.clear()

    def _all_sent(self, item: InHand) -> bool:
        return all(
            item.shipped.get(rank, 0) >= (replica.log_bytes or 0) for rank, replica in item.ended.items()
        )

    async def _pass(self) -> bool:
        """One look at all logs, one request at most. True: there is more already, look again at once."""
        pieces: list[LogPiece] = []
        parts: list[bytes] = []
        room = REQUEST
        for item in self._ledger.items():
            if not item.submitted:
                continue
            for rank in range(item.members):
                if room <= 0 or len(pieces) >= PIECES:
                    break
                piece = self._piece(item, rank, min(PIECE, room))
                if piece is not None:
                    pieces.append(piece[0])
                    parts.append(piece[1])
                    room -= len(piece[1])
        if not pieces:
            return False
        asked = any(piece.length == 0 for piece in pieces)
        cut = room <= 0 or len(pieces) >= PIECES or any(len(part) == PIECE for part in parts)
        return await self._send(pieces, parts) and (asked or cut)

    def _piece(self, item: InHand, rank: int, room: int) -> tuple[LogPiece, bytes] | None:
        offset = item.shipped.get(rank)
        data = b""
        if offset is not None:
            length = self._engine.log_length(item.key, rank)
            if length is not None and length <= offset:  # hundreds of files are not opened in vain
                return None
            data = _read(self._engine.log_path(item.key, rank), offset, room)
            if not data:
                return None
        mark = self._engine.log_mark(item.key, rank, offset + len(data)) if offset is not None else None
        if mark is not None and mark.length > (offset or 0):  # the bytes end where the mark is
            data = data[: mark.length - (offset or 0)]
        piece = LogPiece.model_construct(
            run_id=item.key.run_id,
            attempt=item.key.attempt,
            epoch=item.claim.epoch,
            rank=rank,
            offset=offset or 0,
            length=len(data),  # 0 asks how far the server is
            mark=mark.mark if mark is not None and mark.length == (offset or 0) + len(data) else None,
        )
        return piece, data

    async def ends(self, item: InHand) -> dict[int, LogEnd]:
        """How far the server is with each member's log, and the engine's marks there."""
        pieces = [
            LogPiece.model_construct(
                run_id=item.key.run_id,
                attempt=item.key.attempt,
                epoch=item.claim.epoch,
                rank=rank,
                offset=0,
                length=0,
            )
            for rank in range(item.members)
        ]
        answer = await self._ask(LogIndex.model_construct(incarnation=self._incarnation, pieces=pieces), b"")
        found = {} if answer is None else {known.rank: known for known in answer.lengths}
        return {
            rank: LogEnd(length=known.marked, mark=known.mark or "")
            for rank, known in found.items()
            if known.length is not None
        }

    async def _send(self, pieces: list[LogPiece], parts: list[bytes]) -> bool:
        index = LogIndex.model_construct(incarnation=self._incarnation, pieces=pieces)
        answer = await self._ask(index, b"".join(parts))
        if answer is None:
            return False
        for piece, known in zip(pieces, answer.lengths, strict=True):
            key = AttemptKey(run_id=known.run_id, attempt=known.attempt)
            item = self._ledger.get(key)
            if known.length is None:
                self._on_refused(key, piece.epoch, "stale")
            elif item is not None:
                item.shipped[known.rank] = known.length
        return True

    async def _ask(self, index: LogIndex, data: bytes) -> LogAnswer | None:
        tries = 0
        while True:
            try:
                failpoint("ship.before")
                answer = await self._client.send_logs(self.agent_id, index, data)
                failpoint("ship.after")
                return answer
            except TRY_AGAIN as error:
                if tries == 0:
                    log.warning("the server does not take logs; they stay on disk", reason=str(error))
                await asyncio.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1
            except MusterError as error:
                log.error("logs refused", reason=str(error))
                await asyncio.sleep(PAUSES[-1])
                return None


def _read(path: os.PathLike[str], offset: int, limit: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, limit, offset)
    finally:
        os.close(descriptor)
