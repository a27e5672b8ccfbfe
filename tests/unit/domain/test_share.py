"""Who is next in a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import day
from muster.domain.policy import Limit
from muster.domain.resources import Resources
from muster.domain.run import Priority, queue_rank
from muster.domain.schedule import Candidate
from muster.domain.share import HALF_LIFE, Budget, Line, Merged, Standing, level, rate, weight

NOW = day.DAWN
HOUR = timedelta(hours=1)


def waiting(
    name: str, *, ago: timedelta = HOUR, gpus: int = 1, priority: Priority = Priority.MEDIUM
) -> Candidate:
    """`ann-1`: a run of ann."""
    user, _, number = name.partition("-")
    return Candidate(
        run_id=name,
        needs=Resources(gpus=gpus),
        user=user,
        priority=priority,
        rank=queue_rank(NOW - ago, priority),
        seq=int(number),
    )


def line(
    candidates: Iterable[Candidate],
    *,
    used: dict[str, float] | None = None,
    live: dict[str, tuple[int, int]] | None = None,
    share: bool = True,
    each: Limit | None = None,
    budgets: Sequence[Budget] = (),
) -> Line:
    by_user: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (c.rank, c.seq)):
        by_user.setdefault(candidate.user, []).append(candidate)
    standings = {
        user: Standing(
            user=user,
            rank=mine[0].rank,
            priority=mine[0].priority,
            used=(used or {}).get(user, 0.0),
            runs=(live or {}).get(user, (0, 0))[0],
            gpus=(live or {}).get(user, (0, 0))[1],
        )
        for user, mine in by_user.items()
    }
    return Line(
        lambda user: by_user[user], now=NOW, standings=standings, share=share, each=each, budgets=budgets
    )


def all_taken(of: Line) -> list[str]:
    """Every run, each taken as it comes."""
    names = []
    while (candidate := of.next()) is not None:
        of.took(candidate)
        names.append(candidate.run_id)
    return names


@pytest.mark.parametrize(
    ("priority", "waited", "expected"),
    [
        (Priority.CRITICAL, timedelta(0), 0),
        (Priority.HIGH, timedelta(0), 1),
        (Priority.MEDIUM, timedelta(0), 2),
        (Priority.LOW, timedelta(0), 3),
        (Priority.LOW, timedelta(hours=5, minutes=59), 3),
        (Priority.LOW, timedelta(hours=6), 2),
        (Priority.LOW, timedelta(hours=12), 1),
        (Priority.MEDIUM, timedelta(hours=6), 1),
        (Priority.MEDIUM, timedelta(days=29), 1),
        (Priority.LOW, timedelta(days=30), 0),
    ],
)
def test_who_waits_rises_from_level_to_level(priority: Priority, waited: timedelta, expected: int) -> None:
    assert level(queue_rank(NOW - waited, priority), priority, None, NOW) == expected
    assert level(queue_rank(NOW - 2 * waited, priority), priority, NOW - waited, NOW) == expected


def test_a_thousand_runs_launched_long_ago_do_not_rise_while_their_user_is_served() -> None:
    rank = queue_rank(NOW - timedelta(days=2), Priority.MEDIUM)
    assert level(rank, Priority.MEDIUM, NOW - HOUR, NOW) == 2


@pytest.mark.parametrize(
    ("candidates", "given", "expected"),
    [
        ([], {}, []),
        ([waiting("ann-1"), waiting("ann-2")], {}, ["ann-1", "ann-2"]),
        # equal users take turns
        (
            [waiting("ann-1"), waiting("ann-2"), waiting("ann-3"), waiting("bob-4")],
            {},
            ["ann-1", "bob-4", "ann-2", "ann-3"],
        ),
        # who used less goes first, however late he came
        ([waiting("ann-1"), waiting("bob-2", ago=timedelta(0))], {"used": {"ann": 1.0}}, ["bob-2", "ann-1"]),
        # what runs counts
        ([waiting("ann-1"), waiting("bob-2")], {"used": {"ann": 960.0, "bob": 0.0}}, ["bob-2", "ann-1"]),
        # priority comes before use
        (
            [waiting("ann-1", priority=Priority.HIGH), waiting("bob-2")],
            {"used": {"ann": 1e9}},
            ["ann-1", "bob-2"],
        ),
        # and so does having waited long enough to count as such
        (
            [waiting("ann-1", ago=timedelta(hours=6)), waiting("bob-2")],
            {"used": {"ann": 1e9}},
            ["ann-1", "bob-2"],
        ),
        # without share, the order of launches
        (
            [waiting("ann-1"), waiting("ann-2"), waiting("bob-3")],
            {"used": {"ann": 1e9}, "share": False},
            ["ann-1", "ann-2", "bob-3"],
        ),
        # a user at the limit waits, others go on
        (
            [waiting("ann-1"), waiting("ann-2"), waiting("bob-3")],
            {"each": Limit(runs=1), "share": False},
            ["ann-1", "bob-3"],
        ),
        ([waiting("ann-1"), waiting("bob-2")], {"each": Limit(runs=2), "live": {"ann": (2, 2)}}, ["bob-2"]),
        # GPUs: what needs none goes on, what came later does not jump ahead
        (
            [waiting("ann-1", gpus=3), waiting("ann-2", gpus=1), waiting("ann-3", gpus=0)],
            {"each": Limit(gpus=2)},
            ["ann-3"],
        ),
        # a limit for all
        (
            [waiting("ann-1"), waiting("bob-2"), waiting("eve-3")],
            {"budgets": [Budget(runs=2)]},
            ["ann-1", "bob-2"],
        ),
        (
            [waiting("ann-1", gpus=2), waiting("bob-2", gpus=2), waiting("eve-3"), waiting("eve-4", gpus=0)],
            {"budgets": [Budget(gpus=3)]},
            ["ann-1", "eve-4"],
        ),
        ([waiting("ann-1")], {"budgets": [Budget(runs=0)]}, []),
        ([waiting("ann-1")], {"budgets": [Budget(runs=5), Budget(runs=-1)]}, []),
    ],
)
def test_the_order(candidates: list[Candidate], given: dict[str, object], expected: list[str]) -> None:
    assert all_taken(line(candidates, **given)) == expected  # type: ignore[arg-type]


def test_a_user_whose_run_was_passed_over_is_looked_at_again_after_the_others() -> None:
    """Else a user with a thousand runs that do not fit would hide all others."""
    of = line([waiting("ann-1"), waiting("ann-2"), waiting("bob-3"), waiting("bob-4")], used={"bob": 5.0})
    names = []
    while (candidate := of.next()) is not None:
        names.append(candidate.run_id)
    assert names == ["ann-1", "bob-3", "ann-2", "bob-4"]


def test_lines_of_several_queues_are_one() -> None:
    first, second = line([waiting("ann-1"), waiting("ann-4")]), line([waiting("bob-2"), waiting("bob-3")])
    merged = Merged([first, second])
    names = []
    while (candidate := merged.next()) is not None:
        merged.took(candidate)
        names.append(candidate.run_id)
    assert names == ["ann-1", "bob-2", "bob-3", "ann-4"]


runs = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.sampled_from(Priority), st.integers(0, 40)),
    max_size=40,
)


@given(asked=runs, used=st.dictionaries(st.sampled_from("abcde"), st.floats(0, 1e6)), share=st.booleans())
def test_every_run_comes_once_and_those_of_a_user_in_order(
    asked: list[tuple[str, int, Priority, int]], used: dict[str, float], share: bool
) -> None:
    candidates = [
        Candidate(
            run_id=f"{user}-{number}",
            needs=Resources(gpus=gpus),
            user=user,
            priority=priority,
            rank=queue_rank(NOW - timedelta(hours=hours), priority),
            seq=number,
        )
        for number, (user, gpus, priority, hours) in enumerate(asked)
    ]
    names = all_taken(line(candidates, used=used, share=share))
    assert sorted(names) == sorted(candidate.run_id for candidate in candidates)
    by_rank = sorted(candidates, key=lambda c: (c.rank, c.seq))
    for user in "abcde":
        assert [n for n in names if n[0] == user] == [c.run_id for c in by_rank if c.user == user]
    if not share:
        assert names == [candidate.run_id for candidate in by_rank]


@given(asked=runs, runs_at_once=st.integers(0, 3), gpus=st.integers(0, 6))
def test_no_limit_is_ever_passed(
    asked: list[tuple[str, int, Priority, int]], runs_at_once: int, gpus: int
) -> None:
    candidates = [waiting(f"{user}-{number}", gpus=needs) for number, (user, needs, _, _) in enumerate(asked)]
    of = line(candidates, each=Limit(runs=runs_at_once), budgets=[Budget(gpus=gpus)])
    taken = {candidate.run_id: candidate for candidate in candidates}
    names = all_taken(of)
    assert sum(taken[name].needs.gpus for name in names) <= gpus
    assert all(sum(n[0] == user for n in names) <= runs_at_once for user in "abcde")


def test_old_use_weighs_half_after_a_half_life() -> None:
    assert weight(NOW + HALF_LIFE) == pytest.approx(2 * weight(NOW))
    assert weight(datetime(2044, 1, 1, tzinfo=NOW.tzinfo)) < float("inf")


def test_what_costs_what() -> None:
    assert rate(Resources(gpus=1)) == 16
    assert rate(Resources(millicpus=2000, memory=8 * 2**30)) == 4
    assert rate(Resources()) == 0.1


# --- a day ------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "priorities.md"


@pytest.fixture(scope="module")
def days() -> dict[str, day.Day]:
    launches = day.one_thousand_and_the_rest()
    return {
        "fifo": day.Day(launches=launches, share=False).play(),
        "share": day.Day(launches=launches, share=True).play(),
    }


def test_a_thousand_runs_of_one_do_not_hold_up_the_one_of_another(days: dict[str, day.Day]) -> None:
    fifo, share = (day.figures(days[order].waits_of(day.LIGHT)) for order in ("fifo", "share"))
    assert fifo[0] > 120, "in order of arrival, everybody waits behind the thousand"
    assert share[0] < 5
    assert share[2] < 60


def test_who_has_much_to_do_still_gets_all_that_others_leave(days: dict[str, day.Day]) -> None:
    """The GPUs are never idle while something waits, so the whole takes as long either way."""
    ends = {
        order: max(a_day.launches[n].at + wait + a_day.launches[n].takes for n, wait in a_day.waits.items())
        for order, a_day in days.items()
    }
    assert abs(ends["share"] - ends["fifo"]) < timedelta(minutes=40)
    for a_day in days.values():
        assert len(a_day.waits) == len(a_day.launches), "nothing starves"


def test_a_limit_of_each_user_holds_all_day() -> None:
    launches = day.one_thousand_and_the_rest()
    a_day = day.Day(launches=launches, share=True, each=Limit(gpus=4)).play()
    assert max(a_day.most_at_once.values()) == 4
    assert len(a_day.waits) == len(launches)


def test_what_is_low_is_not_left_waiting_for_ever() -> None:
    """Others keep the GPUs busy with runs of medium priority, and a low one still comes to its turn."""
    others = [
        day.Launch(user=f"u{n % 8}", at=day.DAWN + timedelta(minutes=n), takes=timedelta(minutes=17))
        for n in range(1440)
    ]
    low = day.Launch(user="patient", at=day.DAWN, takes=timedelta(minutes=5), priority=Priority.LOW)
    crowd = [day.Launch(user="u0", at=day.DAWN, takes=timedelta(minutes=17)) for _ in range(400)]
    a_day = day.Day(launches=[low, *others, *crowd], share=True).play()
    assert a_day.waits[0] <= timedelta(hours=7)


def test_the_page_tells_what_was_measured(days: dict[str, day.Day]) -> None:
    page = PAGE.read_text()
    for order, a_day in days.items():
        for who, users in (("the twenty", day.LIGHT), ("the one", [day.HEAVY])):
            median, p95, most = day.figures(a_day.waits_of(users))
            assert f"| `{order}` | {who} | {median:.0f} | {p95:.0f} | {most:.0f} |" in page
