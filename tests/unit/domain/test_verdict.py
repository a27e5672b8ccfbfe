"""From facts to state: the order of facts does not matter, and what is over is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.observation import (
    End,
    EndSeen,
    Fact,
    Failure,
    FailureSeen,
    Noted,
    Phase,
    PhaseSeen,
    Replica,
    ReplicaSeen,
    ReplicaState,
)
from muster.domain.run import AttemptEnd, RunState, may_move
from muster.domain.verdict import AttemptView, Judgement, judge, merge

WAITING, COMING, UP = ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.RUNNING
DONE, BAD, HALTED, GONE = (
    ReplicaState.SUCCEEDED,
    ReplicaState.FAILED,
    ReplicaState.STOPPED,
    ReplicaState.LOST,
)


def seen(rank: int, state: ReplicaState, restarts: int = 0, reason: str = "") -> ReplicaSeen:
    return ReplicaSeen(replica=Replica(rank=rank, state=state, restarts=restarts, reason=reason))


def view_of(facts: Sequence[Fact], members: int) -> AttemptView:
    return reduce(merge, facts, AttemptView(members=members))


def judged(facts: Sequence[Fact], members: int = 1, *, stop: bool = False) -> Judgement:
    return judge(view_of(facts, members), stop_requested=stop)


# --- the table -------------------------------------------------------------------------------------

PREPARING, PENDING, STARTING, FULL = (PhaseSeen(phase=phase) for phase in Phase)
PREEMPTED = EndSeen(end=End.PREEMPTED, reason="A bigger one came.")
LOST = EndSeen(end=End.LOST, reason="Nothing was found.")
NOT_STARTED = EndSeen(end=End.COULD_NOT_START, reason="No such folder.")


@pytest.mark.parametrize(
    ("facts", "members", "state", "end"),
    [
        ([], 1, "claimed", None),
        ([Noted(message="hello")], 1, "claimed", None),
        ([PREPARING], 1, "preparing", None),
        ([PREPARING, PENDING], 1, "pending", None),
        ([PENDING, PREPARING], 1, "pending", None),
        ([PREPARING, STARTING], 1, "starting", None),
        ([seen(0, WAITING)], 1, "pending", None),
        ([seen(0, COMING)], 1, "starting", None),
        ([seen(0, UP)], 1, "running", None),
        ([seen(0, UP)], 2, "starting", None),
        ([seen(0, UP), seen(1, COMING)], 2, "starting", None),
        ([seen(0, UP), seen(1, UP)], 2, "running", None),
        ([seen(0, DONE), seen(1, UP)], 2, "running", None),
        ([seen(0, DONE)], 2, "starting", None),
        ([seen(0, UP), FULL], 3, "running", None),
        ([seen(0, DONE), FULL, seen(1, COMING)], 3, "running", None),
        ([FULL, seen(0, DONE), seen(1, BAD)], 2, "failed", "failed"),
        ([seen(0, DONE)], 1, "succeeded", "succeeded"),
        ([seen(0, BAD)], 1, "failed", "failed"),
        ([seen(0, DONE), seen(1, BAD)], 2, "failed", "failed"),
        ([seen(0, HALTED), seen(1, BAD)], 2, "failed", "failed"),
        ([seen(0, DONE), seen(1, HALTED)], 2, "failed", "failed"),
        ([seen(0, HALTED)], 1, "failed", "failed"),
        ([seen(0, GONE)], 1, "queued", "lost"),
        ([seen(0, GONE), seen(1, BAD)], 2, "failed", "failed"),
        ([seen(0, GONE), seen(1, DONE)], 2, "queued", "lost"),
        ([PREPARING, NOT_STARTED], 1, "failed", "failed"),
        ([seen(0, UP), PREEMPTED], 1, "queued", "preempted"),
        ([seen(0, BAD), PREEMPTED], 1, "queued", "preempted"),
        ([seen(0, DONE), PREEMPTED], 1, "succeeded", "succeeded"),
        ([seen(0, UP), LOST], 1, "queued", "lost"),
        ([seen(0, UP, restarts=0), seen(0, COMING, restarts=1)], 1, "starting", None),
        ([seen(0, UP, restarts=1), seen(0, BAD, restarts=0)], 1, "running", None),
        ([seen(0, DONE), seen(0, UP)], 1, "succeeded", "succeeded"),
    ],
)
def test_what_the_facts_add_up_to(facts: list[Fact], members: int, state: str, end: str | None) -> None:
    judgement = judged(facts, members)
    assert (judgement.state, judgement.end) == (state, end)


@pytest.mark.parametrize(
    ("facts", "state", "end"),
    [
        ([], "stopping", None),
        ([PREPARING], "stopping", None),
        ([seen(0, UP)], "stopping", None),
        ([seen(0, HALTED)], "stopped", "stopped"),
        ([seen(0, BAD)], "stopped", "stopped"),
        ([seen(0, GONE)], "stopped", "stopped"),
        ([NOT_STARTED], "stopped", "stopped"),
        ([PREEMPTED], "stopped", "stopped"),
        ([LOST], "stopped", "stopped"),
        ([seen(0, DONE)], "succeeded", "succeeded"),
    ],
)
def test_what_they_add_up_to_once_somebody_asked_it_to_stop(
    facts: list[Fact], state: str, end: str | None
) -> None:
    judgement = judged(facts, stop=True)
    assert (judgement.state, judgement.end) == (state, end)


def test_the_reason_comes_from_who_knows_it() -> None:
    assert judged([LOST]).reason == "Nothing was found."
    assert judged([seen(0, GONE, reason="The node is gone.")]).reason == "The node is gone."
    assert judged([seen(0, HALTED)]).reason == "It was ended from outside Muster."


# --- any order -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """What really happened to an attempt, in order."""

    members: int
    facts: tuple[Fact, ...]
    complete: bool  #: it came to an end


@st.composite
def histories(draw: st.DrawFn) -> History:
    """One consistent history: phases, then each member on its own way, perhaps cut short."""
    members = draw(st.integers(1, 4))
    phases = draw(st.sampled_from([(), (PREPARING,), (PREPARING, PENDING), (PREPARING, PENDING, STARTING)]))
    if draw(st.integers(0, 9)) == 0:
        return History(members, (*phases, NOT_STARTED), complete=True)
    ways: list[list[Fact]] = []
    for rank in range(members):
        restarts = draw(st.integers(0, 2))
        way: list[Fact] = []
        for number in range(restarts + 1):
            way += [seen(rank, state, number) for state in draw(st.sampled_from(STEPS))]
        way.append(seen(rank, draw(st.sampled_from([DONE, BAD, HALTED, GONE])), restarts))
        ways.append(way)
    facts: list[Fact] = list(phases)
    while any(ways):
        rank = draw(st.sampled_from([place for place, way in enumerate(ways) if way]))
        facts.append(ways[rank].pop(0))
    if draw(st.booleans()):
        facts.append(FailureSeen(failure=Failure(kind="oom", summary="x")))
    ending = draw(st.sampled_from(["all ended", "cut short", "goes on"]))
    if ending == "all ended":
        return History(members, tuple(facts), complete=True)
    cut = draw(st.integers(len(phases), len(facts) - 1))
    if ending == "cut short":
        end = draw(st.sampled_from([PREEMPTED, LOST]))
        return History(members, (*facts[:cut], end), complete=True)
    rest = view_of(facts[:cut], members)
    over = judge(rest, stop_requested=False).end is not None
    return History(members, tuple(facts[:cut]), complete=over)


STEPS = [(UP,), (COMING, UP), (WAITING, COMING, UP), (WAITING, UP), (WAITING,)]


@given(history=histories(), data=st.data(), stop=st.booleans())
def test_the_order_of_facts_repeats_and_delays_do_not_matter(
    history: History, data: st.DataObject, stop: bool
) -> None:
    repeats = data.draw(st.lists(st.sampled_from(history.facts), max_size=5)) if history.facts else []
    mixed = data.draw(st.permutations([*history.facts, *repeats]))
    assert judged(mixed, history.members, stop=stop) == judged(history.facts, history.members, stop=stop)


@given(history=histories(), data=st.data())
def test_what_the_view_keeps_does_not_depend_on_the_order(history: History, data: st.DataObject) -> None:
    mixed = data.draw(st.permutations(history.facts))
    assert view_of(mixed, history.members) == view_of(history.facts, history.members)


@given(history=histories(), stop=st.booleans())
def test_a_complete_history_ends_and_no_other_does(history: History, stop: bool) -> None:
    judgement = judged(history.facts, history.members, stop=stop)
    assert (judgement.end is not None) == history.complete
    if stop and judgement.end is not None:
        assert judgement.state.terminal


@given(history=histories(), stop=st.booleans())
def test_it_runs_only_when_all_its_members_run(history: History, stop: bool) -> None:
    for count in range(len(history.facts) + 1):
        view = view_of(history.facts[:count], history.members)
        if judge(view, stop_requested=stop).state is RunState.RUNNING:
            states = [replica.state for replica in view.replicas.values()]
            assert len(states) == history.members
            assert set(states) <= {UP, DONE}
            assert UP in states


@given(history=histories(), late=histories())
def test_an_end_is_final_whatever_comes_after_all_members_ended(history: History, late: History) -> None:
    """Late word of the same try: no restart that was not counted, nothing that unmakes an end."""
    before = view_of(history.facts, history.members)
    if len(before.replicas) < history.members or not all(r.state.ended for r in before.replicas.values()):
        return
    word = [
        fact
        for fact in late.facts
        if not isinstance(fact, EndSeen)
        and not (
            isinstance(fact, ReplicaSeen)
            and (
                fact.replica.rank >= history.members
                or fact.replica.restarts > before.replicas[fact.replica.rank].restarts
            )
        )
    ]
    after = reduce(merge, word, before)
    assert judge(after, stop_requested=False) == judge(before, stop_requested=False)


@given(history=histories())
def test_in_order_each_judgement_is_a_legal_move_or_none_at_all(history: History) -> None:
    """What the server does with it: it moves where the table allows, and ends once."""
    state = RunState.CLAIMED
    for count in range(1, len(history.facts) + 1):
        judgement = judged(history.facts[:count], history.members)
        if judgement.end is not None:
            assert may_move(state, judgement.state)
            return
        if may_move(state, judgement.state):
            state = judgement.state
    assert not state.terminal


@given(history=histories())
def test_a_judgement_says_the_same_of_state_and_end(history: History) -> None:
    for stop in (False, True):
        judgement = judged(history.facts, history.members, stop=stop)
        if judgement.end is None:
            assert judgement.state.active
        elif judgement.end in (AttemptEnd.LOST, AttemptEnd.PREEMPTED):
            assert judgement.state is RunState.QUEUED
        else:
            assert judgement.state == judgement.end.value
