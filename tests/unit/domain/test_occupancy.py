"""How full a queue was, from the times of its runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from muster.domain.occupancy import Stay, occupancy

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(minutes: float | None) -> datetime | None:
    return None if minutes is None else NOON + timedelta(minutes=minutes)


def stay(created: float, claimed: float | None, ended: float | None, gpus: int = 0) -> Stay:
    return Stay(
        created_at=NOON + timedelta(minutes=created), claimed_at=at(claimed), ended_at=at(ended), gpus=gpus
    )


def hour(*stays: Stay) -> tuple[list[int], list[int], list[int]]:
    """Every ten minutes from noon to one."""
    found = occupancy(stays, since=NOON, until=NOON + timedelta(hours=1), points=7)
    assert found.at[0] == NOON
    assert found.at[-1] == NOON + timedelta(hours=1)
    return list(found.waiting), list(found.running), list(found.gpus)


def test_a_run_waits_then_runs_then_is_gone() -> None:
    waiting, running, gpus = hour(stay(5, 20, 41, gpus=2))
    assert waiting == [0, 1, 0, 0, 0, 0, 0]
    assert running == [0, 0, 1, 1, 1, 0, 0]
    assert gpus == [0, 0, 2, 2, 2, 0, 0]


def test_what_goes_on_is_there_to_the_end_and_what_began_before_from_the_start() -> None:
    assert hour(stay(-500, None, None))[0] == [1] * 7
    assert hour(stay(-500, -400, None))[1] == [1] * 7
    assert hour(stay(-500, -400, 1))[1] == [1, 0, 0, 0, 0, 0, 0]


def test_a_run_that_was_stopped_before_it_began_only_waited() -> None:
    assert hour(stay(0, None, 15)) == ([1, 1, 0, 0, 0, 0, 0], [0] * 7, [0] * 7)


moments = st.integers(-100, 200)


@given(st.lists(st.tuples(moments, moments, moments).map(sorted), max_size=8))
def test_it_is_what_counting_at_each_moment_gives(spans: list[list[int]]) -> None:
    waiting, running, _ = hour(*(stay(*span) for span in spans))
    for place in range(7):
        minute = place * 10
        assert waiting[place] == sum(a <= minute < b for a, b, _ in spans)
        assert running[place] == sum(b <= minute < c for _, b, c in spans)
