"""What agents and the server say to each other: protocol 1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from muster.domain.agent import Agent
from muster.domain.observation import (
    AttemptKey,
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
from muster.domain.policy import Security
from muster.domain.run import EventType, RunState
from muster.wire.base import Reported, Told
from muster.wire.runs import ResourcesModel, RunModel

_INT = 2**31 - 1
_LARGEST = 2**60
Attempt = Annotated[int, Field(ge=1, le=_INT)]
Epoch = Annotated[int, Field(ge=1, le=_INT)]
Rank = Annotated[int, Field(ge=0, le=1_000_000)]


def _sane(size: ResourcesModel) -> ResourcesModel:
    if not all(0 <= number <= _LARGEST for number in (size.millicpus, size.memory, size.gpus)):
        raise ValueError("no machine has less than nothing or more than 2^60 of a thing")
    return size


Capacity = Annotated[ResourcesModel, AfterValidator(_sane)]  #: of a machine, as its agent says it


class AgentRequest(Reported):
    """An agent introduces itself."""

    name: str = Field(min_length=1, max_length=128)
    incarnation: str = Field(min_length=8, max_length=32)
    engine: str = Field(max_length=32)
    host: str = Field(max_length=128)
    locality: str = Field(max_length=128, description="Equal for agents that can see each other's processes.")
    version: str = Field(max_length=32)
    max_jobs: int = Field(ge=1, le=100_000)
    total: Capacity
    devices: list[dict[str, Any]] = Field(default_factory=list)
    queues: list[str] = Field(min_length=1)
    entity: str | None = None


class AgentModel(Told):
    id: str
    name: str
    entity: str
    engine: str
    host: str
    version: str
    max_jobs: int
    queues: list[str]
    total: ResourcesModel
    free: ResourcesModel | None
    devices: list[dict[str, Any]]
    online: bool
    running: int
    registered_at: datetime
    seen_at: datetime
    left_at: datetime | None = Field(default=None, description="When it said good-bye.")
    paused_at: datetime | None = Field(default=None, description="Since then it is given no run.")

    @classmethod
    def of(cls, agent: Agent, *, queues: list[str], running: int, now: datetime) -> AgentModel:
        return cls(
            id=agent.id,
            name=agent.name,
            entity=agent.entity,
            engine=agent.engine,
            host=agent.host,
            version=agent.version,
            max_jobs=agent.max_jobs,
            queues=queues,
            total=ResourcesModel.of(agent.total),
            free=ResourcesModel.of(agent.free) if agent.free else None,
            devices=[dict(device) for device in agent.devices],
            online=agent.online(now),
            running=running,
            registered_at=agent.registered_at,
            seen_at=agent.seen_at,
            left_at=agent.left_at,
            paused_at=agent.paused_at,
        )


class AgentRunModel(Told):
    """A run that an agent has."""

    id: str
    name: str
    state: RunState
    queue: str
    author: str
    claimed_at: datetime | None
    started_at: datetime | None
    resources: ResourcesModel
    nodes: list[str] = Field(description="Where its members are, as far as that is known.")
    devices: list[str] = Field(description="The GPUs that its members have.")


class WordModel(Told):
    """Something an agent said about a run."""

    run_id: str
    run_name: str
    attempt: int
    type: EventType
    at: datetime
    data: dict[str, Any]


class AgentDetail(Told):
    """An agent, what it has now, and what it said last."""

    agent: AgentModel
    runs: list[AgentRunModel]
    words: list[WordModel] = Field(description="Newest first.")


class HeldModel(Reported):
    run_id: str
    attempt: Attempt
    epoch: Epoch
    stopping: bool = False


class PollRequest(Reported):
    """The held request: what the agent has, what it could take on, how long it will wait."""

    incarnation: str
    held: list[HeldModel] = Field(default_factory=list, max_length=100_000)
    slots: int = Field(ge=0, le=100_000)
    draining: bool = Field(default=False, description="Takes no new run; it is about to stop.")
    free: Capacity
    wait: float = Field(default=5.0, ge=0, le=30)


class ClaimModel(Told):
    """A run handed to the agent, under an epoch."""

    run: RunModel
    bound_config: dict[str, Any]
    attempt: int
    epoch: int
    adopt: bool = Field(description="Somebody may have started it already: look before starting.")
    report_seq: int = Field(default=0, description="Newest report of this epoch that was applied.")
    token: str = Field(description="For the run itself; good while this attempt lives.")
    security: Security = Security.BASELINE
    code_key: str | None = Field(
        default=None, description="Reads the run's snapshot and nothing else; good while this attempt lives."
    )
    public_url: str | None = Field(
        default=None, description="Where runs reach the server; none: where the agent does."
    )

    def secrets(self, url: str) -> dict[str, str]:
        """What the attempt must know and nobody else; `url`: where the agent reaches the server."""
        base = self.public_url or url
        found = {"MUSTER_URL": base, "MUSTER_API_KEY": self.token}
        if self.run.snapshot is not None and self.code_key is not None:
            found["MUSTER_CODE_URL"] = f"{base}/api/v1/snapshots/{self.run.snapshot}"
            found["MUSTER_CODE_KEY"] = self.code_key
        return found

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(run_id=self.run.id, attempt=self.attempt)


class KeyModel(Told):
    run_id: str
    attempt: int

    def to_domain(self) -> AttemptKey:
        return AttemptKey(run_id=self.run_id, attempt=self.attempt)


class PollAnswer(Told):
    claims: list[ClaimModel] = Field(default_factory=list)
    stops: list[KeyModel] = Field(default_factory=list)
    drops: list[KeyModel] = Field(
        default_factory=list, description="No longer its own: forget, do not touch."
    )


class PhaseFact(Reported):
    type: Literal["phase"] = "phase"
    phase: Phase
    detail: str = ""


class ReplicaFact(Reported):
    type: Literal["replica"] = "replica"
    rank: Rank
    state: ReplicaState
    node: str = ""
    handle: str = ""
    devices: list[str] = Field(default_factory=list)
    exit_code: int | None = None
    signal: int | None = None
    restarts: int = 0
    reason: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    log_bytes: int | None = None


class NoteFact(Reported):
    type: Literal["note"] = "note"
    message: str = Field(max_length=4096)
    level: Literal["info", "warning"] = "info"


class EndFact(Reported):
    type: Literal["end"] = "end"
    end: End
    reason: str = ""


class FailureFact(Reported):
    type: Literal["failure"] = "failure"
    kind: str = Field(max_length=64)
    summary: str
    advice: str = ""
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    evidence: str = Field(default="", max_length=65536)


class ManifestFact(Reported):
    type: Literal["manifest"] = "manifest"
    manifest: dict[str, Any]


FactModel = Annotated[
    PhaseFact | ReplicaFact | NoteFact | EndFact | FailureFact | ManifestFact, Field(discriminator="type")
]


def fact_to_wire(fact: Fact) -> FactModel:
    match fact:
        case PhaseSeen():
            return PhaseFact.model_construct(type="phase", phase=fact.phase, detail=fact.detail)
        case ReplicaSeen(replica=replica):
            values = {**replica.__dict__, "devices": list(replica.devices)}
            return ReplicaFact.model_construct(type="replica", **values)
        case Noted():
            return NoteFact(
                message=fact.message[:4096], level="warning" if fact.level == "warning" else "info"
            )
        case EndSeen():
            return EndFact.model_construct(type="end", end=fact.end, reason=fact.reason)
        case FailureSeen(failure=failure):
            return FailureFact.model_construct(type="failure", **failure.__dict__)


def fact_from_wire(model: PhaseFact | ReplicaFact | NoteFact | EndFact | FailureFact) -> Fact:
    values = {name: value for name, value in model.__dict__.items() if name != "type"}
    match model:
        case PhaseFact():
            return PhaseSeen(**values)
        case ReplicaFact():
            return ReplicaSeen(replica=Replica(**{**values, "devices": tuple(model.devices)}))
        case NoteFact():
            return Noted(**values)
        case EndFact():
            return EndSeen(**values)
        case FailureFact():
            return FailureSeen(failure=Failure(**values))


class ReportModel(Reported):
    run_id: str
    attempt: Attempt
    epoch: Epoch
    seq: int = Field(ge=1, le=_INT, description="Grows with every report of this attempt and epoch.")
    fact: FactModel


class ReportBatch(Reported):
    incarnation: str
    reports: list[ReportModel] = Field(max_length=10_000)


class RefusedModel(Told):
    run_id: str
    attempt: int
    epoch: int = Field(description="Under which the refused report came.")
    reason: Literal["stale", "gone"]


class ReportAnswer(Told):
    refused: list[RefusedModel] = Field(default_factory=list)


class LogPiece(Reported):
    """One piece of one replica's output; its bytes follow the index line in the same order."""

    run_id: str
    attempt: Attempt
    epoch: Epoch
    rank: Rank
    offset: int = Field(ge=0)
    length: int = Field(ge=0)
    mark: str | None = Field(
        default=None, max_length=4096, description="The agent's own note of where these bytes end."
    )


class LogIndex(Reported):
    """First line of a log upload; the raw bytes of all pieces follow."""

    incarnation: str
    pieces: list[LogPiece] = Field(max_length=10_000)


class LogLength(Told):
    run_id: str
    attempt: int
    rank: int
    length: int | None = Field(description="Bytes the server has now; null: not the agent's run any more.")
    marked: int = Field(default=0, description="Up to where there is a mark.")
    mark: str | None = Field(default=None, description="The newest mark; told to who asks with no bytes.")


class LogAnswer(Told):
    lengths: list[LogLength]


class UsageSample(Reported):
    run_id: str
    attempt: Attempt
    rank: Rank
    at: float
    cpu: float | None = None
    memory: int | None = None
    gpu: float | None = None
    gpu_memory: int | None = None
    disk_read: int | None = None
    disk_write: int | None = None
    net_received: int | None = None
    net_sent: int | None = None
    disk_used: int | None = None


class UsageBatch(Reported):
    incarnation: str
    samples: list[UsageSample] = Field(max_length=10_000)


class LeaveRequest(Reported):
    incarnation: str
