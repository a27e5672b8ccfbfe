"""Which waiting runs an agent gets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.resources import Resources
from muster.domain.schedule import Candidate, Capacity, pick


class InOrder:
    """These runs, one after the other."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.left = list(candidates)

    def next(self) -> Candidate | None:
        return self.left.pop(0) if self.left else None

    def took(self, candidate: Candidate) -> None:
        pass


def amount(gpus: int = 0, cpus: int = 0, memory: int = 0) -> Resources:
    return Resources(millicpus=cpus * 1000, memory=memory, gpus=gpus)


def run(name: str, **needs: int) -> Candidate:
    return Candidate(run_id=name, needs=amount(**needs))


def picked(
    candidates: Sequence[Candidate], *, free: Resources, total: Resources, slots: int = 99
) -> list[str]:
    chosen = pick(InOrder(candidates), Capacity(slots=slots, free=free, total=total), look=len(candidates))
    return [candidate.run_id for candidate in chosen]


BOX = amount(gpus=4, cpus=8, memory=100)


@pytest.mark.parametrize(
    ("waiting", "free", "slots", "expected"),
    [
        ([], BOX, 9, []),
        ([run("a", gpus=4)], BOX, 9, ["a"]),
        ([run("a", gpus=4)], BOX, 0, []),
        ([run("a", gpus=1), run("b", gpus=1)], BOX, 1, ["a"]),
        ([run("a", gpus=2), run("b", gpus=2), run("c", gpus=1)], BOX, 9, ["a", "b"]),
        # too big for this machine for ever: passed over, holds nothing
        ([run("huge", gpus=5), run("a", gpus=1)], BOX, 9, ["a"]),
        # blocked: what it waits for is kept for it
        ([run("big", gpus=4), run("a", gpus=1)], amount(gpus=3, cpus=8, memory=100), 9, []),
        # what it does not need stays open
        ([run("big", gpus=4), run("a", cpus=1)], amount(gpus=3, cpus=8, memory=100), 9, ["a"]),
        # so does what is left beyond its needs, and no more
        (
            [run("big", gpus=4, cpus=4), run("a", cpus=3), run("b", cpus=2), run("c", cpus=1)],
            amount(gpus=3, cpus=8, memory=100),
            9,
            ["a", "c"],
        ),
        # what there is enough of for it just now is kept as well
        ([run("big", gpus=4, cpus=8), run("a", cpus=1)], amount(gpus=3, cpus=8, memory=100), 9, []),
        # nothing asked, nothing taken: it delays nobody
        ([run("big", gpus=4), run("free")], amount(gpus=0, cpus=8, memory=100), 9, ["free"]),
        # an overdrawn machine still has what is not overdrawn
        ([run("a", cpus=1)], amount(gpus=-2, cpus=8), 9, ["a"]),
        # only the first blocked one holds a reservation
        (
            [run("big", gpus=4), run("fat", memory=100), run("a", memory=50)],
            amount(gpus=3, cpus=8, memory=90),
            9,
            ["a"],
        ),
    ],
)
def test_who_goes_next(waiting: list[Candidate], free: Resources, slots: int, expected: list[str]) -> None:
    assert picked(waiting, free=free, total=BOX, slots=slots) == expected


amounts = st.builds(
    Resources, millicpus=st.integers(0, 8000), memory=st.integers(0, 100), gpus=st.integers(0, 4)
)
crowds = st.lists(amounts, max_size=20).map(
    lambda needs: [Candidate(run_id=f"r{i}", needs=need) for i, need in enumerate(needs)]
)


@given(crowd=crowds, free=amounts, total=amounts, slots=st.integers(0, 10))
def test_never_more_than_is_free(
    crowd: list[Candidate], free: Resources, total: Resources, slots: int
) -> None:
    chosen = picked(crowd, free=free, total=total, slots=slots)
    by_id = {candidate.run_id: candidate.needs for candidate in crowd}
    assert len(chosen) <= slots
    assert len(set(chosen)) == len(chosen)
    assert sum((by_id[run_id] for run_id in chosen), start=Resources()).fits_in(free)
    assert all(by_id[run_id].fits_in(total) for run_id in chosen)


@given(crowd=crowds, free=amounts, total=amounts, slots=st.integers(0, 10))
def test_the_order_is_kept_and_the_same_question_has_the_same_answer(
    crowd: list[Candidate], free: Resources, total: Resources, slots: int
) -> None:
    chosen = picked(crowd, free=free, total=total, slots=slots)
    places = [int(run_id[1:]) for run_id in chosen]
    assert places == sorted(places)
    assert chosen == picked(crowd, free=free, total=total, slots=slots)


@given(crowd=crowds, total=amounts, slots=st.integers(1, 10))
def test_the_first_that_could_run_here_is_taken_by_an_idle_machine(
    crowd: list[Candidate], total: Resources, slots: int
) -> None:
    possible = [candidate.run_id for candidate in crowd if candidate.needs.fits_in(total)]
    assert picked(crowd, free=total, total=total, slots=slots)[:1] == possible[:1]


@given(crowd=crowds, free=amounts, slots=st.integers(1, 30))
def test_what_a_blocked_run_will_need_is_not_given_to_those_behind_it(
    crowd: list[Candidate], free: Resources, slots: int
) -> None:
    """Whatever part of its needs is free when it is its turn is still free afterwards."""
    total = Resources(millicpus=8000, memory=100, gpus=4)
    chosen = set(picked(crowd, free=free, total=total, slots=slots))
    left = free
    blocked: Resources | None = None
    then = left
    for candidate in crowd:
        if candidate.run_id in chosen:
            left -= candidate.needs
        elif blocked is None and not candidate.needs.fits_in(left) and candidate.needs.fits_in(total):
            blocked, then = candidate.needs, left
    if blocked is None:
        return
    for name in ("millicpus", "memory", "gpus"):
        needed, had, has = (getattr(amount, name) for amount in (blocked, then, left))
        assert has >= min(needed, had)


# --- a stream of small ones ------------------------------------------------------------------------

STREAMS = {
    "of one kind": [amount(gpus=1)],
    "of every kind in turn": [amount(gpus=1), amount(cpus=1)],
    "that between them take everything": [amount(gpus=2), amount(cpus=4), amount(cpus=3, gpus=1)],
    "of those that need nothing": [amount(), amount(gpus=1)],
}


@pytest.mark.parametrize("kinds", list(STREAMS.values()), ids=list(STREAMS))
@pytest.mark.parametrize("lives", [1, 2, 3, 5])
def test_a_big_run_is_not_starved_by_a_stream_of_small_ones(kinds: list[Resources], lives: int) -> None:
    """New small runs come at every turn, each lives for some turns; the big one waits at the front."""
    total = amount(gpus=4, cpus=8)
    supply = cycle(kinds)
    running: list[tuple[int, Resources]] = []
    free = total
    small: list[Candidate] = []
    for turn in range(200):
        for until, needs in [item for item in running if item[0] <= turn]:
            running.remove((until, needs))
            free += needs
        small += [Candidate(run_id=f"s{turn}-{i}", needs=next(supply)) for i in range(6)]
        big = [Candidate(run_id="big", needs=total)] if turn >= lives else []
        waiting = [*big, *small]
        chosen = set(picked(waiting, free=free, total=total))
        if "big" in chosen:
            return
        for candidate in [candidate for candidate in small if candidate.run_id in chosen]:
            small.remove(candidate)
            free -= candidate.needs
            running.append((turn + 1 + (turn + len(running)) % lives, candidate.needs))
    pytest.fail("the big run never got its turn")
