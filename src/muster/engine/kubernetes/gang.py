"""The members of a training: what a kind of workload is told about them, and what it makes of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from muster.domain.observation import AttemptKey
from muster.domain.provenance import INJECTED
from muster.engine.kubernetes.names import helper_name

EnvValue: TypeAlias = Mapping[str, Any]  #: `{value: …}` or `{valueFrom: …}`, as a container's `env` has it


@dataclass(frozen=True, kw_only=True)
class Gang:
    """How many there are, and under which names."""

    key: AttemptKey
    name: str  #: of the workload
    nodes: int
    source: str = INJECTED  #: of that number

    def helper_name(self, what: str) -> str:
        """Of an object that goes with the workload."""
        return helper_name(self.key, what)


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """How the members find each other."""

    gang: Gang
    #: what the kind's controller does not tell them itself, in one of the names that the launcher reads
    env: Mapping[str, EnvValue]
    companions: list[dict[str, Any]] = field(default_factory=list)


def value(text: str) -> EnvValue:
    return {"value": text}


def field_of_pod(path: str) -> EnvValue:
    """What only the cluster knows, by the downward API."""
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}
