"""What a queue's owner rules besides its template: who goes first, how much, and what a launch may change.

Stored with every version of a queue. Rendering follows the version a run was launched with; order and
limits follow the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from muster.domain.errors import BadInput, UnknownKey, nearest
from muster.domain.path import parse as parse_path


class QueueOrder(StrEnum):
    SHARE = "share"  #: among equals of priority, whoever used least of late goes first
    FIFO = "fifo"  #: priority, then first in, first out


class Security(StrEnum):
    BASELINE = "baseline"  #: safe defaults where the owner wrote nothing
    RESTRICTED = "restricted"  #: passes the restricted Pod Security Standard


class Allowed(StrEnum):
    """What a launch may set of the pods that Muster writes in training mode."""

    IMAGE = "image"
    RESOURCES = "resources"
    WORKDIR = "workdir"
    VOLUMES = "volumes"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """At most so much at once. None: no limit."""

    runs: int | None = None
    gpus: int | None = None

    def __post_init__(self) -> None:
        for name in ("runs", "gpus"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, int) and not isinstance(value, bool) and value >= 0
            ):
                raise BadInput(
                    f"A limit of {name}: {value!r} is not possible.", hint="Use a whole number, 0 or more."
                )

    @classmethod
    def parse(cls, given: object, *, where: str) -> Self:
        if not isinstance(given, Mapping):
            raise BadInput(f"{where} is {given!r}, not a mapping.", hint="Write it as {runs: 8, gpus: 4}.")
        for key in given:
            if key not in ("runs", "gpus"):
                raise UnknownKey(str(key), where=where, known=("runs", "gpus"))
        return cls(runs=given.get("runs"), gpus=given.get("gpus"))

    def to_data(self) -> dict[str, int]:
        return {name: value for name in ("runs", "gpus") if (value := getattr(self, name)) is not None}

    def __bool__(self) -> bool:
        return self.runs is not None or self.gpus is not None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of a queue: all its runs together, and those of each user."""

    queue: Limit = field(default_factory=Limit)
    user: Limit = field(default_factory=Limit)

    @classmethod
    def parse(cls, given: object) -> Self:
        """`{runs, gpus, user: {runs, gpus}}`"""
        if not isinstance(given, Mapping):
            raise BadInput(
                f"limits is {given!r}, not a mapping.",
                hint="Write it as {runs: 8, gpus: 4, user: {gpus: 2}}.",
            )
        for key in given:
            if key not in ("runs", "gpus", "user"):
                raise UnknownKey(str(key), where="limits", known=("runs", "gpus", "user"))
        whole = {key: value for key, value in given.items() if key != "user"}
        return cls(
            queue=Limit.parse(whole, where="limits"),
            user=Limit.parse(given.get("user", {}), where="limits.user"),
        )

    def to_data(self) -> dict[str, Any]:
        user = self.user.to_data()
        return {**self.queue.to_data(), **({"user": user} if user else {})}

    def __bool__(self) -> bool:
        return bool(self.queue or self.user)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A queue's rules."""

    order: QueueOrder = QueueOrder.SHARE
    priorities: bool = True  #: False: a launch that names a priority is refused
    limits: Limits = field(default_factory=Limits)
    overridable: tuple[str, ...] | None = None  #: paths a launch may change; None: counts of replicas
    allow: frozenset[Allowed] = frozenset()
    security: Security = Security.BASELINE
    default_image: str | None = None  #: where neither run nor job names an image

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Read what an owner wrote, or what `to_data` made."""
        for key in given:
            if key not in KEYS:
                raise UnknownKey(str(key), where="the queue", known=KEYS)
        said = {key: value for key, value in given.items() if value is not None}
        fields: dict[str, Any] = {}
        if "order" in said:
            fields["order"] = QueueOrder(_one_of("order", said["order"], QueueOrder))
        if "security" in said:
            fields["security"] = Security(_one_of("security", said["security"], Security))
        if "priorities" in said:
            fields["priorities"] = _typed("priorities", said["priorities"], bool, "true or false")
        if "limits" in said:
            fields["limits"] = Limits.parse(said["limits"])
        if "overridable" in said:
            fields["overridable"] = tuple(_words("overridable", said["overridable"]))
            for path in fields["overridable"]:
                parse_path(path)
        if "allow" in said:
            fields["allow"] = frozenset(
                Allowed(_one_of("allow", word, Allowed)) for word in _words("allow", said["allow"])
            )
        if "default_image" in said:
            fields["default_image"] = _typed(
                "default_image", said["default_image"], str, "the name of an image"
            )
        return cls(**fields)

    def to_data(self) -> dict[str, Any]:
        """Only what is not the default, as `parse` reads it."""
        base = type(self)()
        data: dict[str, Any] = {}
        if self.order is not base.order:
            data["order"] = self.order.value
        if self.priorities is not base.priorities:
            data["priorities"] = self.priorities
        if self.limits:
            data["limits"] = self.limits.to_data()
        if self.overridable is not None:
            data["overridable"] = list(self.overridable)
        if self.allow:
            data["allow"] = sorted(self.allow)
        if self.security is not base.security:
            data["security"] = self.security.value
        if self.default_image is not None:
            data["default_image"] = self.default_image
        return data


KEYS = tuple(Policy.__dataclass_fields__)  #: as owners write them, beside `config` and `variables`


def _one_of(key: str, given: object, kind: type[StrEnum]) -> str:
    known = [member.value for member in kind]
    if given in known:
        return str(given)
    near = nearest(str(given), known)
    raise BadInput(
        f"{key}: {given!r} is not possible.",
        hint=f"Did you mean {near!r}?" if near else f"Use {', '.join(known)}.",
    )


def _typed(key: str, given: object, kind: type, wanted: str) -> Any:
    if not isinstance(given, kind):
        raise BadInput(f"{key}: {given!r} is not possible.", hint=f"Use {wanted}.")
    return given


def _words(key: str, given: object) -> list[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise BadInput(f"{key}: {given!r} is not a list of words.", hint=f"Write it as {key}: [one, two].")
    return list(given)
