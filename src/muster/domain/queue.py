"""A named place to run: an engine, a config template, its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.domain.errors import BadInput, nearest
from muster.domain.policy import Policy

#: resource kind as users write it → engine. W&B's names are accepted.
ENGINES: Mapping[str, str] = {
    "process": "process",
    "local-process": "process",
    "kubernetes": "kubernetes",
}


def engine_for(resource: str) -> str:
    engine = ENGINES.get(resource)
    if engine is None:
        near = nearest(resource, ENGINES)
        hint = f"Did you mean {near!r}?" if near else f"This version has: {', '.join(sorted(ENGINES))}."
        raise BadInput(f"There is no resource kind {resource!r}.", hint=hint)
    return engine


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue at its newest version."""

    id: str
    entity: str
    name: str
    engine: str
    version: int
    config: Mapping[str, Any]
    variables: Mapping[str, Any] = field(default_factory=dict)  #: name → definition, as stored
    policy: Policy = field(default_factory=Policy)
    follows_inventory: bool = False  #: its maxima are what its agents' machines have
    paused_at: datetime | None = None  #: no run of it is started
    draining_at: datetime | None = None  #: nothing more is launched into it
    created_at: datetime
    created_by: str
