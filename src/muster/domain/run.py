"""What a run is, and which states may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from muster.domain.errors import BadInput, IllegalMove, UnknownKey
from muster.domain.inputs import Names
from muster.domain.observation import Failure
from muster.domain.policy import Security
from muster.domain.relaunch import Change
from muster.domain.resources import Resources
from muster.domain.source import GitSource, JobRef
from muster.domain.training import Training
from muster.domain.volume import Volume


class RunState(StrEnum):
    QUEUED = "queued"  #: waits for an agent
    CLAIMED = "claimed"  #: an agent has it
    PREPARING = "preparing"  #: code, environment, image
    PENDING = "pending"  #: handed to the engine, waits for a place
    STARTING = "starting"  #: some members are up
    RUNNING = "running"  #: all members are up
    STOPPING = "stopping"  #: somebody asked it to stop
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL

    @property
    def active(self) -> bool:
        """An agent has it, or had it when last heard of."""
        return self in ACTIVE

    def ended_attempts(self, newest: int) -> int:
        """How many attempts of a run in this state are over, of which `newest` is the newest."""
        return newest - 1 if self.active else newest


_S = RunState
TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.STOPPED})
_ON_THE_WAY = (_S.CLAIMED, _S.PREPARING, _S.PENDING, _S.STARTING, _S.RUNNING)
ACTIVE = frozenset({*_ON_THE_WAY, _S.STOPPING})


def _moves() -> dict[RunState, frozenset[RunState]]:
    """Forward along the way, never back but to the queue; from anywhere to an end."""
    table: dict[RunState, frozenset[RunState]] = {
        # A run may be stopped before anybody has it, or fail when its attempts are used up.
        _S.QUEUED: frozenset({_S.CLAIMED, _S.STOPPED, _S.FAILED}),
        # A stopping run never goes back to the queue: it was asked to end.
        _S.STOPPING: TERMINAL,
    }
    for place, state in enumerate(_ON_THE_WAY):
        table[state] = frozenset({*_ON_THE_WAY[place + 1 :], _S.STOPPING, _S.QUEUED, *TERMINAL})
    for state in TERMINAL:
        table[state] = frozenset()
    return table


MOVES: Mapping[RunState, frozenset[RunState]] = _moves()  #: the whole state machine


def may_move(old: RunState, new: RunState) -> bool:
    return new in MOVES[old]


def require_move(run_id: str, old: RunState, new: RunState) -> None:
    if not may_move(old, new):
        raise IllegalMove(f"Run {run_id} is {old}; it cannot become {new}.")


class Priority(StrEnum):
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


#: A run of this priority is ordered as if it had been launched this much earlier. So every run
#: ages: a low one waits at most 12 h behind newer high ones, and the order is one fixed number.
HEAD_START: Mapping[Priority, timedelta] = {
    Priority.CRITICAL: timedelta(days=30),
    Priority.HIGH: timedelta(hours=12),
    Priority.MEDIUM: timedelta(hours=6),
    Priority.LOW: timedelta(0),
}


def queue_rank(created_at: datetime, priority: Priority) -> int:
    """Place in the queue's order, smaller first, in microseconds. Fixed at launch, kept by retries."""
    return int((created_at - HEAD_START[priority]).timestamp() * 1_000_000)


def launched_at(rank: int, priority: Priority) -> datetime:
    """When a run of this rank was launched."""
    return datetime.fromtimestamp(rank / 1_000_000, UTC) + HEAD_START[priority]


class AttemptEnd(StrEnum):
    """How one try ended. Preempted and lost end the attempt, not always the run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"
    LOST = "lost"


RETRYABLE = frozenset({AttemptEnd.PREEMPTED, AttemptEnd.LOST, AttemptEnd.FAILED})


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often, and after which ends, another attempt is made."""

    max: int = 3
    on: frozenset[AttemptEnd] = frozenset({AttemptEnd.PREEMPTED, AttemptEnd.LOST})

    def __post_init__(self) -> None:
        if not 0 <= self.max <= 100:
            raise BadInput(f"retry.max={self.max} is not possible.", hint="Use 0 … 100.")
        for end in self.on - RETRYABLE:
            known = ", ".join(sorted(RETRYABLE))
            raise BadInput(f"A run that {end} is not tried again.", hint=f"retry.on takes {known}.")

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Retry:
        for key in given:
            if key not in ("max", "on"):
                raise UnknownKey(str(key), where="retry", known=("max", "on"))
        base = cls()
        ends = given.get("on", base.on)
        try:
            return cls(max=int(given.get("max", base.max)), on=frozenset(AttemptEnd(end) for end in ends))
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"retry is not {{max, on}}: {error}.", hint="retry: {max: 3, on: [lost]}"
            ) from error

    def again_after(self, end: AttemptEnd, attempt: int) -> bool:
        return end in self.on and attempt <= self.max


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to speak for one attempt of a run, until it expires or is overtaken."""

    run_id: str
    attempt: int
    epoch: int  #: grows with every claim; a report with a smaller one is refused
    agent_id: str
    expires_at: datetime


LEASE_TTL = timedelta(seconds=15)
RENEW_EVERY = timedelta(seconds=5)
#: Who was given a run and has said nothing since is not waited for as long as who has: it may have been away
#: already, and what it was given lie in a connection that nobody reads.
UNHEARD_AFTER = timedelta(seconds=3)
#: A host-bound run is given up only after this: until then its processes may still be alive there.
LOST_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What was launched. Never changes."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    input_arguments: tuple[str, ...] = ()  #: made of inputs, for the end of the command
    managed_files: Mapping[str, Names] = field(default_factory=dict)  #: of the code → inputs merged into it
    training: Training | None = None
    retry: Retry = field(default_factory=Retry)
    snapshot: str | None = None
    image: str | None = None
    git: GitSource | None = None
    rerun_of: str | None = None  #: the run it was launched again from
    changed: tuple[Change, ...] = ()  #: what is not as its job's version, or that run, has it
    overrides: Mapping[str, Any] = field(default_factory=dict)  #: path in the config → value, as accepted
    workdir: str | None = None  #: of the program, as the launch set it
    volumes: tuple[Volume, ...] = ()  #: that the launch brought
    values: Mapping[str, Any] = field(default_factory=dict)  #: the queue's variables as accepted
    config: Mapping[str, Any] = field(default_factory=dict)  #: the queue's config, bound to `values`
    resources: Resources = field(default_factory=Resources)  #: of all nodes together
    security: Security = Security.BASELINE  #: what the queue's version asked for

    @property
    def whole_command(self) -> tuple[str, ...]:
        return (*self.command, *self.input_arguments)

    @property
    def nodes(self) -> int:
        return self.training.nodes if self.training else 1


@dataclass(frozen=True, kw_only=True)
class RunHead:
    """The moving part of a run: what is needed to decide about it, and no more."""

    id: str
    entity: str
    queue_id: str
    state: RunState
    nodes: int
    attempt: int  #: 0 before the first claim
    epoch: int
    agent_id: str | None
    lease_expires_at: datetime | None
    stop_requested_at: datetime | None
    stop_requested_by: str | None
    started_at: datetime | None
    last_event: int

    @property
    def leased_at(self) -> datetime | None:
        """When its agent was given the lease, or was heard when it was last renewed."""
        return self.lease_expires_at - LEASE_TTL if self.lease_expires_at else None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One launch of a job, whole."""

    head: RunHead
    project: str
    queue: str
    queue_version: int
    name: str
    author: str
    priority: Priority
    rank: int
    spec: RunSpec
    failure: Failure | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    job: JobRef | None = None  #: the version it was launched from, or that its launch filed
    group: str | None = None  #: runs that were launched together, as one grid

    @property
    def id(self) -> str:
        return self.head.id

    @property
    def entity(self) -> str:
        return self.head.entity

    @property
    def state(self) -> RunState:
        return self.head.state


class EventType(StrEnum):
    STATE = "state"  #: the run moved; data: from, to, reason
    NOTE = "note"  #: progress or a warning; data: level, message
    REPLICA = "replica"  #: a member moved; data: rank, state, …
    ATTEMPT = "attempt"  #: a try began or ended; data: end, reason
    LEASE = "lease"  #: an agent took, lost or took over the run; data: agent, epoch
    STOP = "stop"  #: somebody asked it to stop


@dataclass(frozen=True, kw_only=True)
class Event:
    """One dated fact about a run. The run's state is what its events add up to."""

    id: int  #: grows over all runs; the cursor of event streams
    run_id: str
    seq: int  #: 1, 2, 3 … within the run
    attempt: int
    type: EventType
    at: datetime
    actor: str
    data: Mapping[str, Any]
