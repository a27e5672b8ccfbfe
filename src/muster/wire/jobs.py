"""Jobs as they cross HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from muster.domain.job import LATEST, Job, JobVersion
from muster.wire.base import Asked, Told
from muster.wire.runs import MAX_SOURCE_NAME, GitModel, TrainingModel


class JobRequest(Asked):
    """A version to file without launching it."""

    name: str | None = Field(default=None, description="None: after the source.")
    entity: str | None = None
    project: str | None = None
    image: str | None = Field(default=None, min_length=1, max_length=512)
    snapshot: str | None = Field(default=None, description="Id of an uploaded code snapshot.")
    git: GitModel | None = None
    source_name: str | None = Field(default=None, max_length=MAX_SOURCE_NAME)
    command: list[str] = Field(default_factory=list, description="Entrypoint and default arguments.")
    config: dict[str, Any] = Field(default_factory=dict, description="Defaults of the inputs.")
    inputs: dict[str, Any] | None = Field(default=None, description="What inputs it takes.")
    training: TrainingModel | None = None


class JobEdit(Asked):
    name: str = Field(description="What it is called from now on.")


class AliasRequest(Asked):
    version: str = Field(default=LATEST, description="v3, or an alias.")


class JobModel(Told):
    """A recipe. Its versions are listed by themselves."""

    name: str
    entity: str
    project: str
    version: int = Field(description="The newest.")
    aliases: dict[str, int] = Field(description="Which version each stands for.")
    created_at: datetime
    created_by: str

    @classmethod
    def of(cls, job: Job) -> JobModel:
        return cls(
            name=job.name,
            entity=job.entity,
            project=job.project,
            version=job.newest,
            aliases={LATEST: job.newest, **job.aliases},
            created_at=job.created_at,
            created_by=job.created_by,
        )


class JobVersionModel(Told):
    """What is run, and how it was first launched."""

    job: str
    entity: str
    project: str
    version: int
    aliases: list[str]
    image: str | None
    snapshot: str | None
    git: GitModel | None
    entrypoint: list[str]
    inputs: dict[str, Any] | None
    training: TrainingModel | None
    arguments: list[str] = Field(description="Of the launch that filed it; a launch may replace them.")
    config: dict[str, Any]
    created_at: datetime
    created_by: str

    @classmethod
    def of(cls, job: Job, version: JobVersion) -> JobVersionModel:
        content, defaults = version.content, version.defaults
        source = content.source
        aliases = [alias for alias, number in job.aliases.items() if number == version.version]
        return cls(
            job=job.name,
            entity=job.entity,
            project=job.project,
            version=version.version,
            aliases=[*([LATEST] if version.version == job.newest else []), *aliases],
            image=source.image,
            snapshot=source.snapshot,
            git=GitModel.of(source.git) if source.git else None,
            entrypoint=list(content.entrypoint),
            inputs=dict(content.inputs) if content.inputs is not None else None,
            training=TrainingModel.of(content.training) if content.training else None,
            arguments=list(defaults.arguments),
            config=dict(defaults.config),
            created_at=version.created_at,
            created_by=version.created_by,
        )
