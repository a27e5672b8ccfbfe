"""From observations to state: the one place where facts become conclusions.

Facts may come late, twice or out of order. `merge` keeps, of each member, the furthest it was seen;
`judge` then says where the attempt stands. Both are pure, and the order of facts does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from muster.domain.run import AttemptEnd, RunState

_PHASES = {None: 0, Phase.PREPARING: 1, Phase.PENDING: 2, Phase.STARTING: 3, Phase.RUNNING: 4}
_PROGRESS = {ReplicaState.PENDING: 0, ReplicaState.STARTING: 1, ReplicaState.RUNNING: 2}


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """All that is known of one attempt."""

    members: int  #: how many replicas there will be
    phase: Phase | None = None
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    end: EndSeen | None = None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    state: RunState  #: where the run stands while the attempt goes on
    end: AttemptEnd | None = None  #: set once the attempt is over
    reason: str = ""


def merge(view: AttemptView, fact: Fact) -> AttemptView:
    """The view with one more fact in it."""
    match fact:
        case PhaseSeen(phase=phase):
            return replace(view, phase=phase) if _PHASES[phase] > _PHASES[view.phase] else view
        case ReplicaSeen(replica=seen):
            known = view.replicas.get(seen.rank)
            if known is not None and not _is_news(known, seen):
                return view
            return replace(view, replicas={**view.replicas, seen.rank: seen})
        case EndSeen():
            return view if view.end else replace(view, end=fact)
        case FailureSeen(failure=failure):
            return view if view.failure else replace(view, failure=failure)
        case Noted():
            return view


def _is_news(known: Replica, seen: Replica) -> bool:
    """An ended member stays as it ended, unless it was restarted since."""
    if seen.restarts != known.restarts:
        return seen.restarts > known.restarts
    if known.state.ended:
        return False
    if seen.state.ended:
        return True
    return _PROGRESS[seen.state] >= _PROGRESS[known.state] and seen != known


def judge(view: AttemptView, *, stop_requested: bool) -> Judgement:
    """Where the attempt stands, from all that is known of it."""
    states = [replica.state for replica in view.replicas.values()]
    all_ended = len(states) >= view.members and all(state.ended for state in states)
    if all_ended:
        return _judge_ended(view, stop_requested=stop_requested)
    if view.end is not None:
        return _judge_cut_short(view.end, stop_requested=stop_requested)
    if stop_requested:
        return Judgement(state=RunState.STOPPING)
    all_up = len(states) >= view.members and all(_is_up(state) for state in states)
    if all_up or view.phase is Phase.RUNNING:
        return Judgement(state=RunState.RUNNING)
    if any(state is not ReplicaState.PENDING for state in states):
        return Judgement(state=RunState.STARTING)
    if view.phase is not None:
        return Judgement(state=RunState(view.phase))
    return Judgement(state=RunState.PENDING if states else RunState.CLAIMED)


def _is_up(state: ReplicaState) -> bool:
    return state in (ReplicaState.RUNNING, ReplicaState.SUCCEEDED)


def _judge_ended(view: AttemptView, *, stop_requested: bool) -> Judgement:
    replicas = sorted(view.replicas.values(), key=lambda replica: replica.rank)
    states = {replica.state for replica in replicas}
    if states == {ReplicaState.SUCCEEDED}:
        return Judgement(state=RunState.SUCCEEDED, end=AttemptEnd.SUCCEEDED)
    if stop_requested:
        return Judgement(state=RunState.STOPPED, end=AttemptEnd.STOPPED)
    if view.end is not None and view.end.end is End.PREEMPTED:
        return Judgement(state=RunState.QUEUED, end=AttemptEnd.PREEMPTED, reason=view.end.reason)
    if ReplicaState.PREEMPTED in states:  # whoever failed then failed for want of it
        reason = _reason(replicas, ReplicaState.PREEMPTED)
        return Judgement(state=RunState.QUEUED, end=AttemptEnd.PREEMPTED, reason=reason)
    if ReplicaState.FAILED in states:
        return Judgement(state=RunState.FAILED, end=AttemptEnd.FAILED)
    if ReplicaState.LOST in states:
        reason = _reason(replicas, ReplicaState.LOST)
        return Judgement(state=RunState.QUEUED, end=AttemptEnd.LOST, reason=reason)
    reason = _reason(replicas, ReplicaState.STOPPED) or "It was ended from outside Muster."
    return Judgement(state=RunState.FAILED, end=AttemptEnd.FAILED, reason=reason)


def _reason(replicas: Sequence[Replica], state: ReplicaState) -> str:
    """The words about the first member that ended so."""
    return next(replica.reason for replica in replicas if replica.state is state)


def _judge_cut_short(seen: EndSeen, *, stop_requested: bool) -> Judgement:
    if stop_requested:
        return Judgement(state=RunState.STOPPED, end=AttemptEnd.STOPPED, reason=seen.reason)
    if seen.end is End.COULD_NOT_START:
        return Judgement(state=RunState.FAILED, end=AttemptEnd.FAILED, reason=seen.reason)
    if seen.end is End.PREEMPTED:
        return Judgement(state=RunState.QUEUED, end=AttemptEnd.PREEMPTED, reason=seen.reason)
    return Judgement(state=RunState.QUEUED, end=AttemptEnd.LOST, reason=seen.reason)
