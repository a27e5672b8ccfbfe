"""What the agent has in hand: one entry per attempt, from claim to acknowledged end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from muster.domain.observation import AttemptKey, Replica
from muster.domain.resources import Resources
from muster.wire.agents import ClaimModel, HeldModel


@dataclass(kw_only=True)
class InHand:
    """One attempt and how far the agent is with it."""

    claim: ClaimModel
    seq: int = 0  #: number of the newest report
    submitting: bool = False  #: the engine is just being asked
    submitted: bool = False  #: the engine has it, and counts what it uses
    stopping: bool = False
    ending: bool = False  #: its end is being reported
    ended: dict[int, Replica] = field(default_factory=dict)  #: members that have ended, as they ended
    shipped: dict[int, int] = field(default_factory=dict)  #: rank → bytes of log the server has
    driver: asyncio.Task[None] | None = None  #: prepares and submits it
    finisher: asyncio.Task[None] | None = None  #: sees its end through
    key: AttemptKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.claim.key

    @property
    def members(self) -> int:
        return self.claim.run.nodes

    @property
    def needs(self) -> Resources:
        return self.claim.run.resources.to_domain()

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq


class Ledger:
    """All attempts in hand."""

    def __init__(self) -> None:
        self._items: dict[AttemptKey, InHand] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    async def empty(self) -> None:
        """Until nothing is in hand."""
        await self._empty.wait()

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[InHand]:
        return list(self._items.values())

    def get(self, key: AttemptKey) -> InHand | None:
        return self._items.get(key)

    def add(self, item: InHand) -> None:
        self._items[item.key] = item
        self._empty.clear()

    def remove(self, key: AttemptKey) -> InHand | None:
        item = self._items.pop(key, None)
        if not self._items:
            self._empty.set()
        return item

    def held(self) -> list[HeldModel]:
        return [
            HeldModel(
                run_id=item.key.run_id,
                attempt=item.key.attempt,
                epoch=item.claim.epoch,
                stopping=item.stopping,
            )
            for item in self._items.values()
        ]

    def promised(self) -> Resources:
        """What claimed attempts will take that the engine does not count yet."""
        total = Resources()
        for item in self._items.values():
            if not item.submitted:
                total += item.needs
        return total
