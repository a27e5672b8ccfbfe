"""The run's state machine, its order in the queue, and when it is tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadInput, IllegalMove, UnknownKey
from muster.domain.run import (
    ACTIVE,
    HEAD_START,
    MOVES,
    RETRYABLE,
    TERMINAL,
    AttemptEnd,
    Priority,
    Retry,
    RunSpec,
    RunState,
    may_move,
    queue_rank,
    require_move,
)
from muster.domain.training import Training

#: The diagram of the design: the way forward, an end from anywhere, back to the queue while it lives,
#: `stopping` only towards an end.
WAY = ["queued", "claimed", "preparing", "pending", "starting", "running"]
ENDS = {"succeeded", "failed", "stopped"}


def documented(state: str) -> set[str]:
    if state in ENDS:
        return set()
    if state == "stopping":
        return ENDS
    if state == "queued":
        return {"claimed", "stopped", "failed"}
    return {*WAY[WAY.index(state) + 1 :], "queued", "stopping", *ENDS}


def test_the_table_is_the_documented_diagram() -> None:
    assert {state.value: {new.value for new in moves} for state, moves in MOVES.items()} == {
        state.value: documented(state.value) for state in RunState
    }


def test_terminal_states_have_no_way_out() -> None:
    assert {state for state, moves in MOVES.items() if not moves} == TERMINAL
    assert {state for state in RunState if state.terminal} == TERMINAL


@pytest.mark.parametrize("state", RunState)
def test_the_newest_attempt_is_over_once_the_run_ended_or_waits_for_the_next(state: RunState) -> None:
    assert state.ended_attempts(3) == (3 if state.value in {"queued", *ENDS} else 2)


def test_every_state_reaches_an_end_and_can_be_reached() -> None:
    def reachable(start: RunState) -> set[RunState]:
        found, todo = {start}, [start]
        while todo:
            for new in MOVES[todo.pop()] - found:
                found.add(new)
                todo.append(new)
        return found

    assert reachable(RunState.QUEUED) == set(RunState)
    for state in RunState:
        assert reachable(state) & TERMINAL
        assert state in TERMINAL or reachable(state) >= TERMINAL


def test_a_state_waits_is_live_or_is_over() -> None:
    assert {RunState.QUEUED} | ACTIVE | TERMINAL == set(RunState)
    assert not ACTIVE & TERMINAL
    assert {state for state in RunState if state.active} == ACTIVE


def test_no_state_follows_itself() -> None:
    assert not [state for state in RunState if may_move(state, state)]


@given(st.lists(st.sampled_from(RunState), max_size=30))
def test_no_walk_leaves_an_end_or_a_stop(asked: list[RunState]) -> None:
    state, been = RunState.QUEUED, [RunState.QUEUED]
    for new in asked:
        if may_move(state, new):
            state = new
            been.append(new)
    for before, after in pairwise(been):
        assert not before.terminal
        assert before is not RunState.STOPPING or after.terminal


def test_an_illegal_move_is_named() -> None:
    require_move("r1", RunState.QUEUED, RunState.CLAIMED)
    with pytest.raises(IllegalMove, match="Run r1 is succeeded; it cannot become queued"):
        require_move("r1", RunState.SUCCEEDED, RunState.QUEUED)


# --- order -----------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
moments = st.integers(0, 2**31).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(first=moments, later=moments, priority=st.sampled_from(Priority))
def test_within_a_priority_first_comes_first(first: datetime, later: datetime, priority: Priority) -> None:
    earlier, later = sorted((first, later))
    ahead = queue_rank(later, priority) - queue_rank(earlier, priority)
    assert ahead == (later - earlier) / timedelta(microseconds=1)


def test_launched_together_the_higher_priority_comes_first() -> None:
    order = [Priority.CRITICAL, Priority.HIGH, Priority.MEDIUM, Priority.LOW]
    assert sorted(Priority, key=lambda priority: queue_rank(NOON, priority)) == order


@given(low=st.sampled_from(Priority), high=st.sampled_from(Priority), moment=moments)
def test_no_run_waits_for_ever_behind_newer_ones(low: Priority, high: Priority, moment: datetime) -> None:
    ahead = HEAD_START[high] - HEAD_START[low]
    newer = moment + max(ahead, timedelta(0)) + timedelta(seconds=1)
    assert queue_rank(moment, low) < queue_rank(newer, high)


# --- tried again -----------------------------------------------------------------------------------


@given(most=st.integers(0, 100), end=st.sampled_from(AttemptEnd), attempt=st.integers(1, 200))
def test_a_run_is_tried_again_at_most_as_often_as_it_says(most: int, end: AttemptEnd, attempt: int) -> None:
    retry = Retry(max=most)
    again = retry.again_after(end, attempt)
    assert again == (end in (AttemptEnd.PREEMPTED, AttemptEnd.LOST) and attempt <= most)


def test_success_and_a_stop_are_never_tried_again() -> None:
    assert set(AttemptEnd) - {AttemptEnd.SUCCEEDED, AttemptEnd.STOPPED} == RETRYABLE


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Retry()),
        ({"max": 0}, Retry(max=0)),
        ({"on": ["failed"]}, Retry(on=frozenset({AttemptEnd.FAILED}))),
        ({"max": 5, "on": []}, Retry(max=5, on=frozenset())),
    ],
)
def test_retry_is_read(given: dict[str, Any], expected: Retry) -> None:
    assert Retry.parse(given) == expected


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"max": -1}, BadInput, "retry.max=-1"),
        ({"max": 101}, BadInput, "Use 0 … 100"),
        ({"max": "many"}, BadInput, "retry is not"),
        ({"max": None}, BadInput, "retry is not"),
        ({"on": ["asleep"]}, BadInput, "asleep"),
        ({"on": "lost"}, BadInput, "retry is not"),
        ({"on": ["succeeded"]}, BadInput, "A run that succeeded is not tried again"),
        ({"on": ["stopped"]}, BadInput, "A run that stopped is not tried again"),
        ({"maxx": 1}, UnknownKey, "Did you mean 'max'"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused(
    given: dict[str, Any], error: type[BadInput], words: str
) -> None:
    with pytest.raises(error, match=words):
        Retry.parse(given)


def test_a_run_without_training_has_one_node() -> None:
    assert RunSpec(command=("true",)).nodes == 1
    assert RunSpec(command=("true",), training=Training(nodes=4)).nodes == 4
