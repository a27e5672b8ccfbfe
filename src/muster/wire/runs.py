"""Runs as they cross HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from muster.domain.inputs import names_to_data
from muster.domain.observation import Failure, Replica
from muster.domain.relaunch import Change
from muster.domain.resources import Resources
from muster.domain.run import AttemptEnd, Event, EventType, Priority, Run, RunState
from muster.domain.source import GitSource
from muster.domain.training import Launcher, Training
from muster.wire.base import Asked, Told

MAX_SOURCE_NAME = 200


class TrainingModel(Asked):
    """The portable shape of a distributed run."""

    nodes: int = 1
    procs_per_node: int | Literal["gpu"] = 1
    launcher: Launcher = Launcher.AUTO
    max_restarts: int = 0
    rdzv_timeout: int = 600
    shm: str | None = None

    def to_domain(self) -> Training:
        return Training(**self.model_dump())

    @classmethod
    def of(cls, training: Training) -> TrainingModel:
        return cls(**training.__dict__)


class RetryModel(Asked):
    max: int = 3
    on: list[AttemptEnd] = Field(default_factory=lambda: [AttemptEnd.PREEMPTED, AttemptEnd.LOST])


class GitModel(Asked):
    """Code in a repository."""

    url: str
    ref: str | None = Field(default=None, description="Branch, tag or commit; none: the default branch.")
    commit: str | None = Field(default=None, description="What `ref` is; none: the agent looks it up.")
    folder: str | None = Field(default=None, description="Where in the repository it starts.")

    def to_domain(self) -> GitSource:
        return GitSource(**self.model_dump())

    @classmethod
    def of(cls, git: GitSource) -> GitModel:
        return cls(**git.__dict__)


class LaunchRequest(Asked):
    """What to run, and where."""

    queue: str = "local"
    command: list[str] = Field(
        default_factory=list,
        description="Program and arguments; a first word ending in .py is a script. None with a `job`; "
        "an image may do without: it has an entrypoint.",
    )
    entity: str | None = None
    project: str | None = None
    name: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict, description="Inputs; the run reads MUSTER_CONFIG.")
    values: dict[str, Any] = Field(
        default_factory=dict,
        description="Values for the queue's variables; cpus, memory and gpus of each node also where it has "
        "no such variable and allows resources.",
    )
    training: TrainingModel | None = None
    retry: RetryModel = Field(default_factory=RetryModel)
    priority: Priority | None = Field(default=None, description="Absent: medium.")
    snapshot: str | None = Field(default=None, description="Id of an uploaded code snapshot.")
    image: str | None = None
    inputs: dict[str, Any] | None = Field(
        default=None, description="What may be in `config`: {schema, arguments, files}, as in muster.yaml."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Path in the queue's config → value, where the queue opens it.",
        examples=[{"spec.tasks[name=worker].replicas": 3}],
    )
    workdir: str | None = Field(
        default=None,
        max_length=1024,
        description="Where the program starts, if the queue allows it: absolute, or below the code.",
    )
    volumes: list[str] = Field(
        default_factory=list,
        max_length=32,
        description="Volume claims, if the queue allows them: CLAIM:/PATH or CLAIM:/PATH:ro.",
        examples=[["datasets:/data:ro"]],
    )
    git: GitModel | None = None
    source_name: str | None = Field(
        default=None,
        max_length=MAX_SOURCE_NAME,
        description="Of the snapshot's folder: its job is called after it.",
    )
    job_name: str | None = Field(
        default=None, description="What the job that this files is called; absent: after its source."
    )
    job: str | None = Field(
        default=None,
        max_length=256,
        description="[PROJECT/]NAME[:ALIAS]: command, config and training not given here are the job's.",
    )
    entrypoint: list[str] | None = Field(default=None, description="In place of the job's.")
    arguments: list[str] | None = Field(default=None, description="In place of the job's.")


class RerunRequest(Asked):
    """What is to be otherwise than in the run; what is absent stays."""

    queue: str | None = None
    project: str | None = None
    name: str | None = None
    entrypoint: list[str] | None = None
    arguments: list[str] | None = None
    config: dict[str, Any] = Field(default_factory=dict, description="Merged over the run's, key by key.")
    values: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict)
    workdir: str | None = Field(default=None, max_length=1024)
    volumes: list[str] | None = Field(default=None, max_length=32, description="In place of the run's.")
    training: TrainingModel | None = Field(default=None, description="Fields not given stay.")
    retry: RetryModel | None = None
    priority: Priority | None = None


class LaunchBatch(Asked):
    launches: list[LaunchRequest] = Field(min_length=1, max_length=5000)
    group: bool = Field(default=False, description="Make them one group, with an id of its own.")


class ResourcesModel(Told):
    """Of the whole run, all nodes together."""

    millicpus: int = 0
    memory: int = 0
    gpus: int = 0

    @classmethod
    def of(cls, resources: Resources) -> ResourcesModel:
        return cls(**resources.__dict__)

    def to_domain(self) -> Resources:
        return Resources(millicpus=self.millicpus, memory=self.memory, gpus=self.gpus)


class FailureModel(Told):
    kind: str
    summary: str
    advice: str = ""
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    evidence: str = ""

    @classmethod
    def of(cls, failure: Failure) -> FailureModel:
        return cls(**failure.__dict__)


class JobRefModel(Told):
    """One version of a job."""

    name: str
    version: int


class ChangeModel(Told):
    """One thing that is not as its job's version, or the run it was launched from, has it."""

    what: str
    before: Any
    after: Any

    @classmethod
    def of(cls, change: Change) -> ChangeModel:
        return cls(**change.__dict__)


class RunModel(Told):
    """One launch, as it stands."""

    id: str
    name: str
    state: RunState
    queue: str
    project: str
    entity: str
    author: str
    priority: Priority
    command: list[str]
    env: dict[str, str]
    config: dict[str, Any]
    values: dict[str, Any]
    training: TrainingModel | None
    retry: RetryModel
    snapshot: str | None
    image: str | None
    overrides: dict[str, Any] = Field(
        default_factory=dict, description="What the launch changed of the queue's config."
    )
    workdir: str | None = Field(default=None, description="As the launch set it.")
    volumes: list[str] = Field(default_factory=list, description="That the launch brought.")
    git: GitModel | None = None
    job: JobRefModel | None = Field(default=None, description="What it was launched from, or filed.")
    rerun_of: str | None = None
    overridden: list[ChangeModel] = Field(default_factory=list, description="Not as recorded there.")
    queue_version: int
    nodes: int
    resources: ResourcesModel
    attempt: int
    failure: FailureModel | None
    stop_requested_by: str | None
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    version: int = Field(description="Grows with every event of the run.")
    group: str | None = Field(default=None, description="Runs that were launched together have one.")
    input_arguments: list[str] = Field(
        default_factory=list, description="The words at the end of `command` that were made of inputs."
    )
    managed_files: dict[str, list[str] | Literal[True]] = Field(
        default_factory=dict, description="Config files of the code, and which inputs are merged into them."
    )

    @classmethod
    def of(cls, run: Run, *, job_names: Mapping[str, str] | None = None) -> RunModel:
        """`job_names`: by their ids. An agent hears of no job."""
        spec, head = run.spec, run.head
        job = (job_names or {}).get(run.job.id) if run.job else None
        return cls.model_construct(
            id=run.id,
            name=run.name,
            state=head.state,
            queue=run.queue,
            project=run.project,
            entity=run.entity,
            author=run.author,
            priority=run.priority,
            command=list(spec.whole_command),
            env=dict(spec.env),
            config=dict(spec.inputs),
            values=dict(spec.values),
            training=TrainingModel.of(spec.training) if spec.training else None,
            retry=RetryModel(max=spec.retry.max, on=sorted(spec.retry.on)),
            snapshot=spec.snapshot,
            image=spec.image,
            overrides=dict(spec.overrides),
            workdir=spec.workdir,
            volumes=[str(volume) for volume in spec.volumes],
            git=GitModel.of(spec.git) if spec.git else None,
            job=JobRefModel(name=job, version=run.job.version) if job and run.job else None,
            rerun_of=spec.rerun_of,
            overridden=[ChangeModel.of(change) for change in spec.changed],
            queue_version=run.queue_version,
            nodes=head.nodes,
            resources=ResourcesModel.of(spec.resources),
            attempt=head.attempt,
            failure=FailureModel.of(run.failure) if run.failure else None,
            stop_requested_by=head.stop_requested_by,
            created_at=run.created_at,
            claimed_at=run.claimed_at,
            started_at=head.started_at,
            ended_at=run.ended_at,
            version=head.last_event,
            group=run.group,
            input_arguments=list(spec.input_arguments),
            managed_files=names_to_data(spec.managed_files),
        )


class PlaceRequest(Asked):
    """Where a run that waits is to stand. Exactly one of these."""

    priority: Priority | None = None
    before: str | None = Field(default=None, description="Right before this run, with its priority.")
    behind: str | None = Field(default=None, description="Right behind this run, with its priority.")


class ReplicaModel(Told):
    """One member of an attempt."""

    rank: int
    attempt: int
    state: str
    node: str
    handle: str
    devices: list[str]
    exit_code: int | None
    signal: int | None
    restarts: int
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    log_bytes: int | None

    @classmethod
    def of(cls, replica: Replica, attempt: int) -> ReplicaModel:
        values = {**replica.__dict__, "devices": list(replica.devices), "state": replica.state.value}
        return cls(attempt=attempt, **values)


class EventModel(Told):
    """One dated fact about a run."""

    id: int
    run_id: str
    seq: int
    attempt: int
    type: EventType
    at: datetime
    actor: str
    data: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> EventModel:
        return cls.model_construct(**{**event.__dict__, "data": dict(event.data)})


class RunNameModel(Told):
    id: str
    name: str
    author: str
    state: str


class ExplanationModel(Told):
    """Why it waits, or why it ended as it did."""

    summary: str
    details: list[str]
    advice: str
    place: int | None
    ahead: list[RunNameModel]
    holding: list[RunNameModel]
    eta: datetime | None = Field(description="An estimate from how long this queue's last runs took.")
    failure: FailureModel | None


class PreviewModel(Told):
    """Exactly what would be started. Macros only the agent knows are still in the manifest."""

    engine: str
    manifest: dict[str, Any]
    sources: dict[str, str] = Field(
        default_factory=dict,
        description="Where each value came from: JSON pointer in the manifest → queue v3, variable gpus, "
        "macro run_id, override, launch, job or injected; several where a text was put together.",
    )
    resources: ResourcesModel
    values: dict[str, Any]
    queue: str
    queue_version: int
    checked: str = Field(description="Who checked it beyond the server, if anybody.")


class ManifestModel(Told):
    run_id: str
    attempt: int
    manifest: dict[str, Any]
    submitted: bool = Field(description="False: no agent has submitted it yet; this is what it would be.")
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each value came from, as in a preview."
    )


class UsageSeries(Told):
    rank: int
    attempt: int
    at: list[float] = Field(description="Unix seconds.")
    values: dict[str, list[float | None]]


class LogChunk(Told):
    """A piece of one replica's output, as it is in the event stream of a log."""

    rank: int
    attempt: int
    offset: int
    text: str


class LogMapModel(Told):
    """Where the lines of one replica's log are: its spans, in order. A line is in the span it begins in."""

    rank: int
    attempt: int
    length: int = Field(description="Bytes.")
    lines: int
    ended: bool = Field(description="The last line has its end, or there is none.")
    offsets: list[int] = Field(description="Where each span begins.")
    firsts: list[int] = Field(description="How many lines begin before it.")
    times: list[float | None] = Field(description="Unix seconds: it was written no earlier.")


class LogMatchModel(Told):
    """A line that was looked for."""

    rank: int
    line: int = Field(description="Counted from 0.")
    offset: int = Field(description="The byte it begins at.")
