"""What a job is: a recipe with a name, in versions told apart by their content.

The content is what runs: source, entrypoint, declared inputs, training. How it was launched (arguments and
config) is remembered beside it, as defaults for the next launch, and makes no new version; nor do the
values of a queue's variables, which say where it ran.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Self

from muster.domain.errors import BadInput, BadName, NotFound
from muster.domain.names import checked_name
from muster.domain.source import GitSource
from muster.domain.training import Launcher, Training

LATEST = "latest"  #: the alias of the newest version; nobody sets it
MAX_NAME = 64
PREFIX = "job-"

_VERSION = re.compile(r"v(0|[1-9][0-9]{0,8})")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)*)?")


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is run: an image, code, or code in an image."""

    image: str | None = None
    snapshot: str | None = None
    git: GitSource | None = None

    def __post_init__(self) -> None:
        if self.snapshot is not None and self.git is not None:
            raise BadInput(
                "A snapshot and a git repository are two sources of code.", hint="Give one of them."
            )

    def __bool__(self) -> bool:
        return self.image is not None or self.snapshot is not None or self.git is not None

    @property
    def kind(self) -> str:
        if self.git is not None:
            return "git"
        return "snapshot" if self.snapshot is not None else "image"

    def to_data(self) -> dict[str, Any]:
        given = {
            "image": self.image,
            "snapshot": self.snapshot,
            "git": asdict(self.git) if self.git else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        git = data.get("git")
        return cls(
            image=data.get("image"),
            snapshot=data.get("snapshot"),
            git=GitSource(**git) if git is not None else None,
        )

    def name(self, *, folder: str | None, entrypoint: Sequence[str]) -> str:
        """What a job of this source is called: `job-acme_train` for `acme/train:main`."""
        if self.git is not None:
            words = _git_words(self.git.url)
        elif self.snapshot is not None:
            script = next((word for word in reversed(entrypoint) if word.endswith(".py")), "")
            words = [folder or PurePosixPath(script).stem]
        else:
            words = _image_words(self.image or "")
        plain = [_NOT_IN_NAMES.sub("_", word) for word in words]
        text = "_".join(word for word in plain if word)[-(MAX_NAME - len(PREFIX)) :].strip("._-")
        return PREFIX + (text or self.kind)


def _image_words(image: str) -> list[str]:
    """`registry:5000/acme/train:main@sha256:…` → acme, train."""
    path = image.partition("@")[0]
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        path = rest
    folder, slash, name = path.rpartition("/")
    return [*folder.split("/"), name.partition(":")[0]]


def _git_words(url: str) -> list[str]:
    """`https://host/acme/train.git` and `git@host:acme/train.git` → acme, train."""
    path = url.split("://", 1)[1].partition("/")[2] if "://" in url else url.partition(":")[2]
    return path.strip("/").removesuffix(".git").split("/")


@dataclass(frozen=True, kw_only=True)
class JobContent:
    """What makes a version the one it is."""

    source: Source
    entrypoint: tuple[str, ...]
    inputs: Mapping[str, Any] | None = None  #: their schema, as the job declares it
    training: Training | None = None

    def to_data(self) -> dict[str, Any]:
        return {
            "source": self.source.to_data(),
            "entrypoint": list(self.entrypoint),
            "inputs": dict(self.inputs) if self.inputs is not None else None,
            "training": asdict(self.training) if self.training else None,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        training = data["training"]
        return cls(
            source=Source.from_data(data["source"]),
            entrypoint=tuple(data["entrypoint"]),
            inputs=data["inputs"],
            training=Training(**{**training, "launcher": Launcher(training["launcher"])})
            if training
            else None,
        )

    @property
    def digest(self) -> str:
        """Equal for equal content. A commit is one content, whichever branch or tag led to it."""
        git = self.source.git
        if git is not None and git.commit is not None:
            source = replace(self.source, git=replace(git, ref=None))
        else:
            source = self.source
        data = {**self.to_data(), "source": source.to_data()}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """How the launch that filed a version went on; where the next one starts from."""

    arguments: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        return {"arguments": list(self.arguments), "config": dict(self.config)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        return cls(arguments=tuple(data["arguments"]), config=data["config"])


@dataclass(frozen=True, kw_only=True)
class Job:
    id: str
    entity: str
    project: str
    name: str
    newest: int  #: version
    aliases: Mapping[str, int] = field(default_factory=dict)  #: without `latest`
    created_at: datetime
    created_by: str

    def resolve(self, wanted: str) -> int:
        """The version that `v3`, `latest` or another alias stands for."""
        if wanted == LATEST:
            return self.newest
        if wanted in self.aliases:
            return self.aliases[wanted]
        number = version_number(wanted)
        if number is None or number > self.newest:
            known = [LATEST, *self.aliases]
            raise NotFound(
                "job version",
                f"{self.name}:{wanted}",
                hint=f"It has v0 … v{self.newest}, and the aliases {', '.join(known)}.",
            )
        return number


@dataclass(frozen=True, kw_only=True)
class JobVersion:
    job_id: str
    version: int
    content: JobContent
    defaults: Defaults
    created_at: datetime
    created_by: str


@dataclass(frozen=True, kw_only=True)
class JobName:
    """How people name a job: `[PROJECT/]NAME[:ALIAS]`."""

    name: str
    project: str | None = None
    alias: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        place, slash, rest = text.rpartition("/")
        name, colon, alias = rest.partition(":")
        if "/" in place or not name or (slash and not place) or (colon and not alias):
            raise BadName(
                text[:200],
                what="job",
                rule="Write NAME, NAME:latest, NAME:v3, or with its project PROJECT/NAME.",
            )
        return cls(name=name, project=place or None, alias=alias or None)


def version_number(text: str) -> int | None:
    """3 for `v3`."""
    found = _VERSION.fullmatch(text)
    return int(found[1]) if found else None


def checked_alias(alias: str) -> str:
    """An alias that people may set."""
    checked_name(alias, what="alias")
    if alias == LATEST or version_number(alias) is not None:
        raise BadName(
            alias, what="alias", rule="`latest` and v0, v1 … say which version they are; use another."
        )
    return alias


def split(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A command as what is started, and what it is told: `python -m pkg x` → `python -m pkg`, `x`."""
    words = tuple(command)
    length = 1
    if words and _PYTHON.fullmatch(words[0]) and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            length = 3
        elif words[1].endswith(".py"):
            length = 2
    return words[:length], words[length:]
