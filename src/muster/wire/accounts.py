"""People, teams and keys as they cross HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from muster.domain.access import KeyKind, Role
from muster.wire.base import Asked, Told
from muster.wire.queues import LimitModel


class MeModel(Told):
    """Who the caller is."""

    name: str
    kind: KeyKind
    default_entity: str
    roles: dict[str, Role]
    server_admin: bool
    server_version: str


class SessionRequest(Asked):
    key: str = Field(default="", max_length=256, description="An API key of a person.")


class KeyRequest(Asked):
    label: str = Field(min_length=1, max_length=128)
    kind: Literal["user", "agent"] = "user"
    entity: str | None = Field(default=None, description="For agent keys: whose queues it may serve.")
    days: int | None = Field(default=None, ge=1, le=3650, description="Valid for so many days.")


class UserRequest(Asked):
    name: str
    admin: bool = False


class KeyModel(Told):
    id: str
    kind: KeyKind
    user: str
    entity: str | None
    label: str
    created_at: datetime
    expires_at: datetime | None


class NewKeyModel(KeyModel):
    key: str = Field(description="The key itself. It is never shown again.")


class EntityRequest(Asked):
    name: str


class EntityModel(Told):
    name: str
    kind: Literal["user", "team"]
    members: dict[str, Role]
    created_at: datetime
    limits: LimitModel = Field(
        default_factory=LimitModel, description="What all its queues together may run at once."
    )


class RoleRequest(Asked):
    role: Role


class AuditModel(Told):
    id: int
    at: datetime
    actor: str
    action: str
    entity: str
    target: str
    data: dict[str, Any]
