"""What all models that cross HTTP share."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

PROTOCOL = "1"  #: of agents; sent as the header `Muster-Protocol`
PROTOCOL_HEADER = "Muster-Protocol"


class Asked(BaseModel):
    """A request: a key nobody knows is refused, not ignored; so is a number that is none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Reported(BaseModel):
    """What an agent says: a server passes over keys that a newer agent adds. Within one protocol new keys
    are therefore such that nothing goes wrong without them."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Told(BaseModel):
    """An answer: a client passes over keys that a newer server adds."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Told, Generic[T]):
    items: list[T]
    next: str | None = Field(default=None, description="Pass as `cursor` for the following page.")


class Problem(Told):
    """RFC 9457 problem document."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of what is wrong.")
    hint: str = Field(default="", description="What to do about it.")
    facts: dict[str, Any] = Field(default_factory=dict)
