"""What an engine reports: dated facts about one attempt, never conclusions.

What the facts mean for the run is decided in `muster.domain.verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, kw_only=True, order=True)
class AttemptKey:
    """Names one try of one run."""

    run_id: str
    attempt: int


class ReplicaState(StrEnum):
    PENDING = "pending"  #: known, not yet placed or started
    STARTING = "starting"  #: placed, its program not yet running
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  #: ended by itself with an error
    STOPPED = "stopped"  #: ended because somebody or the gang asked it to
    PREEMPTED = "preempted"  #: taken away by the engine: evicted, or its place given to another
    LOST = "lost"  #: gone without a word

    @property
    def ended(self) -> bool:
        return self in ENDED


ENDED = frozenset(ReplicaState) - {ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.RUNNING}


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One member of an attempt as the engine sees it now."""

    rank: int
    state: ReplicaState
    node: str = ""  #: host or Kubernetes node
    handle: str = ""  #: pid, pod name …: how a person finds it on the engine
    devices: tuple[str, ...] = ()  #: GPUs it holds
    exit_code: int | None = None
    signal: int | None = None
    restarts: int = 0
    reason: str = ""  #: the engine's own words
    started_at: datetime | None = None
    ended_at: datetime | None = None
    log_bytes: int | None = None  #: final length of its log, known once it has ended


class Phase(StrEnum):
    """Where an attempt is, where its replicas alone cannot tell."""

    PREPARING = "preparing"  #: code, environment, image
    PENDING = "pending"  #: handed to the engine, waiting for a place
    STARTING = "starting"  #: placed, members coming up
    RUNNING = "running"  #: as many members run as can at once; others come after them


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why it went wrong, for people: class, sentence, evidence, advice."""

    kind: str  #: a class of `muster.domain.failure`, such as "out_of_memory"
    summary: str
    advice: str = ""
    rank: int | None = None  #: the first member to fail
    exit_code: int | None = None
    signal: int | None = None
    evidence: str = ""  #: traceback or log lines


@dataclass(frozen=True, kw_only=True)
class PhaseSeen:
    phase: Phase
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class ReplicaSeen:
    replica: Replica


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Progress or a warning worth keeping as an event of the run."""

    message: str
    level: str = "info"  #: info or warning


class End(StrEnum):
    """How an attempt ended where replicas alone cannot tell."""

    COULD_NOT_START = "could_not_start"  #: preparing or submitting failed: the run failed
    PREEMPTED = "preempted"
    LOST = "lost"  #: nothing can be found of it


@dataclass(frozen=True, kw_only=True)
class EndSeen:
    end: End
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class FailureSeen:
    """The root cause, found near the processes (log tail, error file)."""

    failure: Failure


Fact = PhaseSeen | ReplicaSeen | Noted | EndSeen | FailureSeen


@dataclass(frozen=True, kw_only=True)
class Observation:
    key: AttemptKey
    at: datetime
    fact: Fact
