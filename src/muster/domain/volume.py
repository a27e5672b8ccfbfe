"""Volumes that a launch brings to its pods: claims that are there already, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from muster.domain.errors import BadInput

_CLAIM = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_RESERVED = ("/dev", "/muster", "/proc", "/sys")
_FACTS = {"field": "volumes"}
_EXAMPLE = "Write CLAIM:/PATH or CLAIM:/PATH:ro, such as datasets:/data:ro."


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A persistent volume claim, and where it is mounted."""

    claim: str
    path: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """`CLAIM:/PATH[:ro]`"""
        claim, colon, rest = text.partition(":")
        path, colon, mode = rest.partition(":")
        if not _CLAIM.fullmatch(claim) or (colon and mode not in ("ro", "rw")):
            raise BadInput(f"{text[:200]!r} is not a volume.", hint=_EXAMPLE, facts=_FACTS)
        return cls(claim=claim, path=_checked_path(path, text), read_only=mode == "ro")

    def __str__(self) -> str:
        return f"{self.claim}:{self.path}{':ro' if self.read_only else ''}"


def _checked_path(path: str, text: str) -> str:
    clean = path.rstrip("/")
    parts = clean.split("/")[1:]
    if not path.startswith("/") or not clean or any(part in ("", ".", "..") for part in parts):
        raise BadInput(
            f"{text[:200]!r} is not a volume: it has no path of its own.", hint=_EXAMPLE, facts=_FACTS
        )
    if not clean.isprintable() or len(clean) > 1024:
        raise BadInput(
            f"{text[:200]!r} is not a volume: its path cannot be used.", hint=_EXAMPLE, facts=_FACTS
        )
    for reserved in _RESERVED:
        if clean == reserved or clean.startswith(f"{reserved}/"):
            raise BadInput(
                f"{text[:200]!r}: nothing can be mounted in {reserved}.",
                hint="Choose another path.",
                facts=_FACTS,
            )
    return clean
