"""Which waiting runs an agent gets, from its free capacity. Pure.

The order is given: rank, smallest first (`muster.domain.run.queue_rank`). A run that does not fit is
passed over, but the first one passed over holds a reservation: whatever it is short of is kept for
it, so that many small runs cannot hold up a big one for ever. What is left beyond its needs stays open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.domain.resources import Resources


@dataclass(frozen=True, kw_only=True)
class Candidate:
    run_id: str
    needs: Resources
    rank: int = 0
    seq: int = 0  #: breaks ties of rank: first in, first out


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What an agent can take on."""

    slots: int  #: runs it may still start; max_jobs less those it has
    free: Resources
    total: Resources


def pick(candidates: Iterable[Candidate], capacity: Capacity) -> list[str]:
    """The runs to hand out now, in order."""
    chosen: list[str] = []
    free, slots = capacity.free, capacity.slots
    reserved: Resources | None = None
    for candidate in candidates:
        if slots == 0:
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
        chosen.append(candidate.run_id)
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
