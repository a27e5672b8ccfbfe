"""Queues as they cross HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from muster.domain.queue import Queue
from muster.wire.base import Asked, Told


class QueueRequest(Asked):
    name: str
    resource: str = Field(default="process", description="Where runs go: process.")
    config: dict[str, Any] = Field(description="The template, with {{variables}} and ${macros}.")
    variables: dict[str, Any] = Field(default_factory=dict)
    entity: str | None = None


class QueueEdit(Asked):
    """What is absent stays."""

    config: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None


class QueueModel(Told):
    name: str
    entity: str
    resource: str
    version: int
    config: dict[str, Any]
    variables: dict[str, Any]
    paused_at: datetime | None
    created_at: datetime
    created_by: str
    waiting: int = Field(description="Runs that wait in it.")
    running: int = Field(description="Runs an agent has.")
    agents_online: int

    @classmethod
    def of(cls, queue: Queue, *, waiting: int, running: int, agents_online: int) -> QueueModel:
        return cls(
            name=queue.name,
            entity=queue.entity,
            resource=queue.engine,
            version=queue.version,
            config=dict(queue.config),
            variables=dict(queue.variables),
            paused_at=queue.paused_at,
            created_at=queue.created_at,
            created_by=queue.created_by,
            waiting=waiting,
            running=running,
            agents_online=agents_online,
        )
