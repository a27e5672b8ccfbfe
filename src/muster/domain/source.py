"""Where the code of a run comes from, and which job it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from muster.domain.errors import BadInput

MAX_IMAGE = 512
#: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`; never an option, whatever it is given to later
_IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?::\d+(?=/))?(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z0-9+._-]+:[A-Za-z0-9=_-]+)?"
)


@dataclass(frozen=True, kw_only=True)
class GitSource:
    """Code in a repository, at a commit once somebody has looked it up."""

    url: str
    ref: str | None = None  #: branch, tag or commit, as asked; None: the default branch
    commit: str | None = None
    folder: str | None = None  #: within the repository; None: its root


def checked_image(image: str) -> str:
    """The name of an image, as registries have them."""
    if len(image) > MAX_IMAGE or not _IMAGE.fullmatch(image):
        raise BadInput(
            f"{image[:100]!r} is not the name of an image.",
            hint="Write it as a registry has it: acme/train:main or registry.host:5000/acme/train:main.",
            facts={"field": "image"},
        )
    return image


@dataclass(frozen=True, kw_only=True)
class JobRef:
    """One version of a job."""

    id: str
    version: int
