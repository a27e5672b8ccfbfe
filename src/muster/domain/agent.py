"""A program near the compute that claims runs and drives an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.domain.resources import Resources
from muster.domain.run import LEASE_TTL


@dataclass(frozen=True, kw_only=True)
class Agent:
    id: str
    entity: str
    name: str
    incarnation: str  #: new at every start, so that a restarted agent with the old name is a new one
    engine: str
    host: str
    locality: str  #: equal for agents that can see each other's processes
    version: str
    max_jobs: int
    total: Resources
    devices: tuple[Mapping[str, Any], ...]
    free: Resources | None
    registered_at: datetime
    seen_at: datetime
    left_at: datetime | None
    paused_at: datetime | None = None  #: since then it is given no run; what it has goes on

    def online(self, now: datetime) -> bool:
        return self.left_at is None and now - self.seen_at < LEASE_TTL
