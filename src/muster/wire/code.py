"""Code snapshots as they cross HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from muster.wire.base import Asked, Told


class SnapshotRequest(Asked):
    manifest: dict[str, Any] = Field(description="Files with path, mode, size and SHA-256.")
    entity: str | None = None


class SnapshotModel(Told):
    id: str
    entity: str
    missing: list[str] = Field(description="SHA-256 of the files to send.")
    complete: bool


class SnapshotContent(Told):
    id: str
    entity: str
    manifest: dict[str, Any]
