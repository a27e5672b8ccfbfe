"""What became of a training of two: the run's state and reason, and of each member what there is to tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.runs import ClusterBench
from installation import text_of
from muster.agent.postmortem import find_cause
from muster.client.sdk import Run
from muster.client.sync import Client
from muster.domain.failure import named
from muster.domain.observation import AttemptKey, ReplicaSeen, ReplicaState
from muster.domain.run import RunState
from muster.domain.verdict import AttemptView, judge, merge


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One member, as it was told at last."""

    state: ReplicaState
    reason: str
    restarts: int
    log: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    state: RunState
    summary: str  #: why
    members: Sequence[Seen]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is expected of a member; texts are patterns of the whole."""

    state: ReplicaState
    reason: str = ""
    restarts: int = 0
    log: str = ""

    def fits(self, seen: Seen) -> bool:
        return (
            (seen.state, seen.restarts) == (self.state, self.restarts)
            and re.fullmatch(self.reason, seen.reason) is not None
            and re.fullmatch(self.log, seen.log, re.DOTALL) is not None
        )


@dataclass(frozen=True, kw_only=True)
class Expected:
    state: RunState
    summary: str = ""  #: a pattern of the whole
    members: Sequence[Sequence[Told]]  #: each as one of these

    def check(self, seen: Outcome) -> None:
        assert seen.state is self.state, seen
        assert re.fullmatch(self.summary, seen.summary), seen
        assert len(seen.members) == len(self.members), seen
        for member, allowed in zip(seen.members, self.members, strict=True):
            assert any(told.fits(member) for told in allowed), f"{member} is none of {allowed}"


def engine_outcome(bench: ClusterBench, key: AttemptKey, *, stop: bool = False) -> Outcome:
    """As the agent and the server conclude from what the engine has said."""
    replicas = bench.replicas(key)
    view = AttemptView(members=2)
    for one in bench.seen:
        if one.key == key and isinstance(one.fact, ReplicaSeen):
            view = merge(view, one.fact)
    judged = judge(view, stop_requested=stop)
    summary = judged.reason
    if ReplicaState.FAILED in {one.state for one in replicas.values()}:
        summary = find_cause(bench.engine, key, replicas).summary
    elif failure := named(judged.reason):
        summary = failure.summary
    members = [
        Seen(state=one.state, reason=one.reason, restarts=one.restarts, log=said(bench, key, rank))
        for rank, one in sorted(replicas.items())
    ]
    return Outcome(state=judged.state, summary=summary, members=members)


def said(bench: ClusterBench, key: AttemptKey, rank: int) -> str:
    return of_program(bench.log(key, rank).decode())


def run_outcome(client: Client, run: Run) -> Outcome:
    """As a user is told."""
    replicas = client.list_replicas(run.id).items
    members = [
        Seen(
            state=ReplicaState(one.state),
            reason=one.reason,
            restarts=one.restarts,
            log=of_program(text_of(run, one.rank)),
        )
        for one in sorted(replicas, key=lambda one: one.rank)
    ]
    return Outcome(state=run.state, summary=run.why().summary, members=members)


def of_program(log: str) -> str:
    """Kubeflow's operator has workers wait in a container of its own, which talks."""
    lines = log.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("[init-pytorch]"))
