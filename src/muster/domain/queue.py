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
#: and those that are to come
PLANNED: Mapping[str, str] = {
    "docker": "docker",
    "local-container": "docker",
    "slurm": "slurm",
}


def engine_for(resource: str) -> str:
    engine = ENGINES.get(resource)
    if engine is None and resource in PLANNED:
        raise BadInput(
            f"This version of Muster has no engine {PLANNED[resource]!r} yet"
            + (f", which {resource!r} needs." if resource != PLANNED[resource] else "."),
            hint=f"It has: {', '.join(sorted(ENGINES))}.",
        )
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

    def definition(self) -> dict[str, Any]:
        """What makes up a version, as an owner writes it."""
        return as_written(self.config, self.variables, self.policy)


@dataclass(frozen=True, kw_only=True)
class QueueVersion:
    """What a queue was at one time."""

    version: int
    config: Mapping[str, Any]
    variables: Mapping[str, Any]
    policy: Policy
    created_at: datetime
    created_by: str

    def definition(self) -> dict[str, Any]:
        return as_written(self.config, self.variables, self.policy)


def as_written(config: Mapping[str, Any], variables: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """The keys of a queue's file, without those that have nothing to say."""
    said = {"variables": dict(variables)} if variables else {}
    return {**policy.to_data(), **said, "config": dict(config)}


def changed_keys(older: Mapping[str, Any], newer: Mapping[str, Any]) -> list[str]:
    """The keys in which two definitions differ."""
    return sorted(key for key in {*older, *newer} if older.get(key) != newer.get(key))
