"""One PyTorchTrainingJob of the cluster: who it is, what it asks for, what was written about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.engine.kubernetes.names import MAX, legal_name
from muster.operator.spec import Slot, Spec, read_spec
from muster.operator.status import Status, read_status

_INFIX = 5  #: characters of the uid, so that a job of the same name has other pods
_LIVES = len("-9999")


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    uid: str
    name: str
    namespace: str
    spec: Spec
    version: str = ""  #: of the object that this was read from
    generation: int = 0
    deleting: bool = False
    status: Status = field(default_factory=Status)

    @property
    def service(self) -> str:
        """The headless Service that gives its pods their names; the PodGroup is called the same."""
        longest = max(len(f"-{spec.type}-{spec.replicas - 1}") for spec in self.spec.replicas)
        room = MAX - _INFIX - 1 - longest - _LIVES
        # The name of a Service begins with a letter.
        stem = legal_name(self.name if self.name[:1].isalpha() else f"j-{self.name}", room)
        return f"{stem}-{self.uid[:_INFIX]}"

    def host(self, slot: Slot) -> str:
        """What a replica is called by the others, whichever pod is in its place."""
        return f"{self.service}-{slot}"

    def pod_name(self, slot: Slot, life: int) -> str:
        """One for each life: to create it twice is to be told that it is there."""
        return f"{self.host(slot)}-{life}" if life else self.host(slot)

    @property
    def master(self) -> str:
        """Where all of them meet."""
        return f"{self.host(self.spec.slots[0])}.{self.service}"


def read_job(item: Mapping[str, Any]) -> TrainingJob:
    metadata = item["metadata"]
    return TrainingJob(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        spec=read_spec(item["spec"]),
        version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        status=read_status(item.get("status") or {}),
    )
