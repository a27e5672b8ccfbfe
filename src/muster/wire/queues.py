"""Queues as they cross HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from muster.domain import policy
from muster.domain.policy import Allowed, Limit, Limits, Policy, QueueOrder, Security
from muster.domain.queue import Queue, QueueVersion
from muster.wire.base import Asked, Told
from muster.wire.runs import ResourcesModel, RunModel

MOST = 1_000_000_000  #: no limit is meant to be larger
ConfigText = Field(
    description="The template, with {{variables}} and ${macros}: a mapping, or YAML or JSON text."
)


class LimitModel(Asked):
    """At most so much at once; absent: no limit."""

    runs: int | None = Field(default=None, ge=0, le=MOST)
    gpus: int | None = Field(default=None, ge=0, le=MOST)

    def to_domain(self) -> Limit:
        return Limit(runs=self.runs, gpus=self.gpus)

    @classmethod
    def of(cls, limit: Limit) -> Self:
        return cls(runs=limit.runs, gpus=limit.gpus)


class LimitsModel(LimitModel):
    """Of all runs of the queue together, and of those of each user."""

    user: LimitModel = Field(default_factory=LimitModel)

    @classmethod
    def of_queue(cls, limits: Limits) -> Self:
        return cls(runs=limits.queue.runs, gpus=limits.queue.gpus, user=LimitModel.of(limits.user))


class Rules(Asked):
    """What an owner rules besides the template. In an edit, what is absent stays, and null is the default."""

    order: QueueOrder | None = Field(
        default=None, description="share: whoever used least of late goes first."
    )
    priorities: bool | None = Field(default=None, description="false: a launch may not name a priority.")
    limits: LimitsModel | None = None
    overridable: list[str] | None = Field(
        default=None, description="Paths of the config that a launch may change; null: counts of replicas."
    )
    allow: list[Allowed] | None = Field(default=None, description="What a launch may set in training mode.")
    security: Security | None = None
    default_image: str | None = Field(default=None, description="Where neither run nor job names one.")

    def said(self) -> dict[str, Any]:
        """What is there, as `Policy.parse` reads it."""
        given = self.model_dump(mode="json", include=set(policy.KEYS) & self.model_fields_set)
        if given.get("limits"):
            given["limits"] = _without_none(given["limits"])
        return given


class QueueRequest(Rules):
    name: str
    resource: str = Field(default="process", description="Where runs go: process.")
    config: dict[str, Any] | str = ConfigText
    variables: dict[str, Any] = Field(default_factory=dict)
    entity: str | None = None


class QueueEdit(Rules):
    """What is absent stays."""

    config: dict[str, Any] | str | None = Field(default=None, description=ConfigText.description)
    variables: dict[str, Any] | None = None


class RulesModel(Told):
    """A queue's rules, with defaults for what its owner did not say."""

    order: QueueOrder = QueueOrder.SHARE
    priorities: bool = True
    limits: LimitsModel = Field(default_factory=LimitsModel)
    overridable: list[str] | None = None
    allow: list[Allowed] = Field(default_factory=list)
    security: Security = Security.BASELINE
    default_image: str | None = None


class QueueModel(RulesModel):
    name: str
    entity: str
    resource: str
    version: int
    config: dict[str, Any]
    variables: dict[str, Any]
    paused_at: datetime | None = Field(description="Since then no run of it is started.")
    draining_at: datetime | None = Field(default=None, description="Since then it takes no launches.")
    created_at: datetime
    created_by: str
    waiting: int = Field(description="Runs that wait in it.")
    running: int = Field(description="Runs an agent has.")
    agents_online: int
    oldest_waiting_at: datetime | None = Field(
        default=None, description="When the run that waits longest was launched."
    )
    gpus_used: int = Field(default=0, description="GPUs that its runs have.")
    gpus_total: int | None = Field(
        default=None, description="GPUs of its agents that are online; null: a cluster has them."
    )

    @classmethod
    def of(
        cls,
        queue: Queue,
        *,
        waiting: int,
        running: int,
        agents_online: int,
        oldest_waiting_at: datetime | None = None,
        gpus_used: int = 0,
        gpus_total: int | None = None,
    ) -> QueueModel:
        return cls(
            name=queue.name,
            entity=queue.entity,
            resource=queue.engine,
            version=queue.version,
            config=dict(queue.config),
            variables=dict(queue.variables),
            paused_at=queue.paused_at,
            draining_at=queue.draining_at,
            created_at=queue.created_at,
            created_by=queue.created_by,
            waiting=waiting,
            running=running,
            agents_online=agents_online,
            oldest_waiting_at=oldest_waiting_at,
            gpus_used=gpus_used,
            gpus_total=gpus_total,
            **_rules(queue.policy),
        )


class QueueVersionModel(RulesModel):
    """A queue as it was at one version."""

    queue: str
    version: int
    newest: int = Field(description="The queue's newest version.")
    config: dict[str, Any]
    variables: dict[str, Any]
    created_at: datetime
    created_by: str

    @classmethod
    def of(cls, queue: Queue, version: QueueVersion) -> QueueVersionModel:
        return cls(
            queue=queue.name,
            version=version.version,
            newest=queue.version,
            config=dict(version.config),
            variables=dict(version.variables),
            created_at=version.created_at,
            created_by=version.created_by,
            **_rules(version.policy),
        )


class VersionSummary(Told):
    """One version in a list."""

    version: int
    created_at: datetime
    created_by: str
    changed: list[str] = Field(description="The keys in which it differs from the version before.")


class DiffModel(Told):
    """How two versions of a queue differ."""

    queue: str
    from_version: int
    to_version: int
    changed: list[str]
    diff: str = Field(description="Unified diff of both as YAML; empty where they are equal.")


class RollbackRequest(Asked):
    version: int = Field(ge=1, le=2**31 - 1)


class ParseRequest(Asked):
    """A config to look through, before it is a queue's."""

    text: str = Field(description="YAML or JSON: a config, or a queue's whole file.")
    resource: str | None = Field(
        default=None, description="Absent: what the file says, else what it looks like."
    )
    variables: dict[str, Any] = Field(default_factory=dict, description="Declared beside the file.")


class UseModel(Told):
    path: str
    line: int | None
    column: int | None


class FoundVariableModel(Told):
    name: str
    uses: list[UseModel]
    declared: dict[str, Any] | None = Field(description="Null: it has yet to be declared.")
    suggested: dict[str, Any] = Field(description="A declaration that would do.")
    option: str = Field(description="The same for the command line.")


class FoundMacroModel(Told):
    name: str
    uses: list[UseModel]
    known: bool = Field(description="False: only an agent's environment may have it.")


class FoundObjectModel(Told):
    kind: str
    api_version: str
    name: str
    use: UseModel


class FaultModel(Told):
    message: str
    hint: str
    line: int | None
    column: int | None


class ParseModel(Told):
    """What was found, and what keeps it from being a queue."""

    usable: bool = Field(description="Nothing is wrong, and nothing is missing.")
    resource: str
    config: dict[str, Any] | None
    variables: list[FoundVariableModel]
    macros: list[FoundMacroModel]
    objects: list[FoundObjectModel]
    errors: list[FaultModel]
    rules: dict[str, Any] = Field(default_factory=dict, description="Rules that the file states.")


class TrialRequest(Rules):
    """A config to try out, before it is a queue's."""

    text: str = Field(description="YAML or JSON: a config, or a queue's whole file.")
    resource: str = "process"
    name: str = Field(default="queue", max_length=64)
    variables: dict[str, Any] = Field(default_factory=dict, description="Declared beside the file.")
    values: dict[str, Any] = Field(
        default_factory=dict, description="Of variables; absent: the default, or one that is allowed."
    )


class TrialModel(Told):
    """What a launch into it would start: with a sample command or image, and a sample id."""

    engine: str
    manifest: dict[str, Any]
    sources: dict[str, str] = Field(description="JSON pointer in the manifest → where the value came from.")
    resources: ResourcesModel
    values: dict[str, Any]


class HistoryModel(Told):
    """How full a queue has been, worked out from the times of its runs."""

    at: list[datetime]
    waiting: list[int] = Field(description="Runs that waited at that time.")
    running: list[int] = Field(description="Runs that an agent had.")
    gpus: list[int] = Field(description="GPUs that these had.")
    whole: bool = Field(description="False: there were too many runs to count them all.")


class LineModel(Told):
    """What waits in a queue, in the order in which it would be started, one after the other."""

    items: list[RunModel]
    more: int = Field(description="Runs that wait behind these.")
    users: int = Field(description="How many users wait. Between them, fair share decides first.")


def _rules(policy: Policy) -> dict[str, Any]:
    return {
        "order": policy.order,
        "priorities": policy.priorities,
        "limits": LimitsModel.of_queue(policy.limits),
        "overridable": None if policy.overridable is None else list(policy.overridable),
        "allow": sorted(policy.allow),
        "security": policy.security,
        "default_image": policy.default_image,
    }


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in data.items()
        if value is not None
    }
