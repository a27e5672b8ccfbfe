"""The interface every engine has. Engines observe; the domain decides.

An engine is told to start, stop and clean attempts, and says what it sees as one stream of
observations for all of them. It never talks to the server or the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from muster.domain.cluster import Cluster
from muster.domain.observation import AttemptKey, Observation
from muster.domain.policy import Security
from muster.domain.resources import Resources
from muster.domain.template import find_macros
from muster.domain.training import Training


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run is, as far as an engine needs to know: enough to render it."""

    key: AttemptKey
    run_name: str
    project: str
    entity: str
    queue: str
    author: str
    config: Mapping[str, Any]  #: the queue's config with its variables bound, macros still in it
    command: tuple[str, ...]
    training: Training | None = None
    env: Mapping[str, str] = field(default_factory=dict)  #: what the launch set
    inputs: Mapping[str, Any] = field(default_factory=dict)  #: becomes MUSTER_CONFIG
    image: str | None = None
    has_code: bool = False  #: a snapshot is unpacked into the working directory first
    security: Security = Security.BASELINE


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """The exact object to submit, as plain data. Macros that only the agent knows are still in it."""

    key: AttemptKey
    engine: str
    manifest: Mapping[str, Any]
    replicas: int
    resources: Resources  #: of the whole attempt, all nodes together

    @cached_property
    def macros(self) -> frozenset[str]:
        """The names of the macros still in it; asked more than once on the way to a start."""
        return frozenset(find_macros(self.manifest))


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the agent prepared on this machine for one attempt; fills the remaining macros."""

    epoch: int
    workdir: Path
    output_dir: Path
    path_prepend: tuple[Path, ...] = ()  #: e.g. the bin directory of the prepared environment
    env: Mapping[str, str] = field(default_factory=dict)  #: secrets and tokens: never part of Rendered


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU."""

    uuid: str
    index: int
    name: str
    memory: int  #: bytes


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What the engine's machine has in all."""

    host: str
    locality: str  #: equal for agents that can see each other's processes
    total: Resources
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Use of one replica at one moment. Absent where the engine cannot tell."""

    key: AttemptKey
    rank: int
    at: float  #: Unix seconds
    cpu: float | None = None  #: cores in use
    memory: int | None = None  #: bytes resident
    gpu: float | None = None  #: mean utilisation of its GPUs, 0 … 1
    gpu_memory: int | None = None  #: bytes
    disk_read: int | None = None  #: bytes since start
    disk_write: int | None = None
    net_received: int | None = None  #: bytes since boot, of the whole host; on a cluster of the pod
    net_sent: int | None = None
    disk_used: int | None = None  #: bytes of the node's disk that it fills now


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """How far a replica's log is, and the engine's own mark of that place."""

    length: int
    mark: str = ""


NO_LOGS: Mapping[int, LogEnd] = {}
NO_CONFIG: Mapping[str, Any] = {}


class Engine(Protocol):
    """All verbs are idempotent: a repeat after a crash is harmless."""

    kind: str
    marks_logs: bool  #: its logs are elsewhere, and gone on with from the mark that the server has

    async def inventory(self) -> Inventory:
        """What there is in all; read once at start."""

    async def free(self) -> Resources:
        """What is not taken now, by this or any other agent of the host."""

    async def cluster(self) -> Cluster | None:
        """What the cluster has that it drives. None: there is none, or nothing new to say of it."""

    async def check(self, rendered: Rendered) -> None:
        """Raise `MusterError` if the engine would not take this."""

    async def submit(self, rendered: Rendered, place: Place) -> None:
        """Start all members or none. Raises `CannotPlace` if there is no room for all just now,
        `Overtaken` if a newer epoch was here, other `MusterError` if it can never start."""

    def observe(self) -> AsyncIterator[Observation]:
        """What happens, for all attempts submitted or adopted, as it happens."""

    async def adopt(
        self,
        key: AttemptKey,
        epoch: int,
        logs: Mapping[int, LogEnd] = NO_LOGS,
        config: Mapping[str, Any] = NO_CONFIG,
    ) -> bool:
        """Take charge of an attempt that another agent started. False: nothing of it is or was here.
        After True its state is told again through `observe`, including an end nobody saw.
        `logs`: rank → how much of its log is safe, for engines that mark logs.
        `config`: what it was started from, for engines that have to know what to look for."""

    async def stop(self, key: AttemptKey) -> None:
        """Ask all members to end, then make them. Does not block; the end comes as observations."""

    async def forget(self, key: AttemptKey) -> None:
        """Stop watching, touch nothing: the attempt belongs to another agent now."""

    async def usage(self) -> list[Sample]:
        """One sample per live replica, in one pass."""

    def log_path(self, key: AttemptKey, rank: int) -> Path:
        """The file into which this replica's output grows, byte for byte. May not exist yet."""

    def log_length(self, key: AttemptKey, rank: int) -> int | None:
        """How long that file is, where the engine itself writes it. None: look."""

    def log_mark(self, key: AttemptKey, rank: int, offset: int) -> LogEnd | None:
        """The last marked place of a log, no further than `offset`. None: none, or the engine marks none."""

    async def clean(self, key: AttemptKey) -> None:
        """Remove what is left of an ended attempt: files, cgroups, helper objects."""

    async def leftovers(self) -> list[AttemptKey]:
        """Attempts of which something is left here, running or not, whoever started them."""

    async def discard(self, key: AttemptKey) -> None:
        """End and remove what is left of an attempt that nobody wants any more."""

    def error_files(self, key: AttemptKey, rank: int) -> list[Path]:
        """Files in which the replica's launcher left its root cause, if it did."""

    async def close(self) -> None:
        """Stop observing. Leaves everything running."""
