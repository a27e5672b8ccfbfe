"""Which waiting runs an agent gets, from its free capacity. Pure.

The order is given by the lines of its queues (`muster.domain.share`). A run that does not fit is passed
over, but the first one passed over holds a reservation: whatever it is short of is kept for it, so that
many small runs cannot hold up a big one for ever. What is left beyond its needs stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.domain.resources import Resources


@dataclass(frozen=True, kw_only=True)
class Candidate:
    run_id: str
    needs: Resources
    user: str = ""
    rank: int = 0
    seq: int = 0  #: breaks ties of rank: first in, first out


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What an agent can take on."""

    slots: int  #: runs it may still start; max_jobs less those it has
    free: Resources
    total: Resources


class Lineup(Protocol):
    """Waiting runs, to be looked at one by one."""

    def next(self) -> Candidate | None:
        """The next to look at; None: no more."""

    def took(self, candidate: Candidate) -> None:
        """It is handed out."""


def pick(line: Lineup, capacity: Capacity, *, look: int) -> list[Candidate]:
    """The runs to hand out now, in order, among the first so many."""
    chosen: list[Candidate] = []
    free, slots = capacity.free, capacity.slots
    reserved: Resources | None = None
    for _ in range(look):
        if slots <= 0 or (candidate := line.next()) is None:
            break
        needs = candidate.needs
        if not needs.fits_in(capacity.total):
            continue  # another agent of the queue may be bigger; this one never fits here
        if not needs.fits_in(free):
            if reserved is None:
                reserved = needs
            continue
        if reserved is not None and _delays(needs, reserved, free):
            continue
        line.took(candidate)
        chosen.append(candidate)
        free, slots = free - needs, slots - 1
    return chosen


def _delays(needs: Resources, reserved: Resources, free: Resources) -> bool:
    """Does this run take any of what the blocked one will need?

    Nobody knows how long runs take, so there is no safe loan. That goes also for what there is enough
    of just now: lent out, it would be what is short when the rest has come.
    """
    left = free - needs
    return (
        (needs.gpus > 0 and reserved.gpus > left.gpus)
        or (needs.millicpus > 0 and reserved.millicpus > left.millicpus)
        or (needs.memory > 0 and reserved.memory > left.memory)
    )


class Merged:
    """The lines of several queues as one: whoever waits longest by rank is looked at first."""

    def __init__(self, lines: Sequence[Lineup]) -> None:
        self._lines = list(lines)
        self._fronts: dict[int, Candidate] = {}
        self._from: dict[str, Lineup] = {}

    def next(self) -> Candidate | None:
        for place, line in enumerate(self._lines):
            if place not in self._fronts and (candidate := line.next()) is not None:
                self._fronts[place] = candidate
                self._from[candidate.run_id] = line
        if not self._fronts:
            return None
        first = min(self._fronts, key=lambda place: (self._fronts[place].rank, self._fronts[place].seq))
        return self._fronts.pop(first)

    def took(self, candidate: Candidate) -> None:
        self._from[candidate.run_id].took(candidate)
