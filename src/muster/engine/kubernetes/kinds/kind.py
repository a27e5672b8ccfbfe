"""What there is to know about a kind of workload. One file of this package, one row of its table.

A kind that has no row still runs, as its owner wrote it: see `muster.engine.kubernetes.kinds.unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from muster.engine.kubernetes.course import Reader
from muster.engine.kubernetes.gang import Gang, Meeting
from muster.engine.kubernetes.write import Writer


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a kind calls the things that are added where its owner is silent."""

    spec: Mapping[str, Any] = field(default_factory=dict)  #: into `spec`
    policy: Mapping[str, Any] = field(default_factory=dict)  #: into `spec.runPolicy`
    around: Mapping[str, Any] = field(default_factory=dict)  #: beside each pod template
    pod: Mapping[str, Any] = field(default_factory=dict)  #: into each pod's spec
    container: str | None = None  #: what the first container must be called


@dataclass(frozen=True, kw_only=True)
class Form:
    """How Muster writes a workload of this kind from a pod template."""

    longest_name: Callable[[int], int]  #: of the workload, for so many nodes
    #: puts `spec` in the place of the `template` of an object
    write: Callable[[Writer, dict[str, Any], Gang], Meeting]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """How a kind's pods tell which member each of them is."""

    label: str = ""  #: its number among those of its role
    job_label: str = ""  #: where a role has several Jobs: the number of its Job
    name_label: str = ""  #: of pods whose name ends in their number, should they lack the label


class Feature(StrEnum):
    """What people ask of a kind; a row of the table in the docs."""

    GANG_PLACEMENT = "All members are placed, or none"
    GANG_RESTART = "All members are started anew when one fails"
    MEMBER_RESTART = "One member alone is started anew"
    SUSPEND = "Held back, and released later"
    DEADLINE = "Ended when it takes too long"
    CLEAN_UP = "Removed some time after its end"
    RANKS = "Members are numbered"


NATIVE, MUSTER, NOT = "native", "Muster", "—"


@dataclass(frozen=True, kw_only=True)
class Kind:
    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    read: Reader
    suspend: tuple[str, ...] | None = None  #: the field that holds it back
    rules: Rules = Rules()
    form: Form | None = None  #: None: it runs as its owner wrote it, and in no other way
    numbers: Numbers = Numbers()
    leader: tuple[str, ...] = ()  #: where the role is described whose members come first
    main: str = ""  #: the container that runs the program, where there is one of this name; else the first
    has_pods: bool = True  #: it describes its pods itself
    is_foreign: bool = False  #: it may make pods that bear none of our labels
    features: Mapping[Feature, str] = field(default_factory=dict)
    traps: tuple[str, ...] = ()  #: what surprised others, for the docs

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


TTL = 86400  #: seconds; a safety net, the agent removes what has ended long before
NEVER: Mapping[str, Any] = {"restartPolicy": "Never"}
NO_RETRY: Mapping[str, Any] = {"backoffLimit": 0}
EXPIRES: Mapping[str, Any] = {"ttlSecondsAfterFinished": TTL}
