"""The queue's config for the process engine: what a run may take of this machine, and how it is ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from muster.domain.definition import looks_like_objects
from muster.domain.errors import BadTemplate, UnknownKey
from muster.domain.resources import Resources

DEFAULT_STOP_GRACE = 30.0
KEYS = ("resources", "env", "workdir", "stop_grace", "python")


@dataclass(frozen=True, kw_only=True)
class ProcessConfig:
    """`{resources: {cpus, memory, gpus}, env, workdir, stop_grace, python}`; resources are per node."""

    resources: Resources = field(default_factory=Resources)
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None  #: absolute, or below the prepared directory; None: that directory itself
    stop_grace: float = DEFAULT_STOP_GRACE  #: seconds between SIGTERM and SIGKILL
    python: str | None = None  #: the interpreter for `.py` files; None: the one on the run's PATH

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        if looks_like_objects(given):
            raise BadTemplate(
                "The config is a Kubernetes object, and the queue is for processes.",
                hint="Say what is to run it: --resource kubernetes.",
            )
        for key in given:
            if key not in KEYS:
                raise UnknownKey(str(key), where="The process config", known=KEYS)
        return cls(
            resources=Resources.parse(_mapping(given, "resources")),
            env=_env(_mapping(given, "env")),
            workdir=_text(given, "workdir"),
            stop_grace=_seconds(given.get("stop_grace")),
            python=_text(given, "python"),
        )


def check_env_name(name: object) -> str:
    """The name, if a process can have an environment variable called so."""
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise BadTemplate(f"{name!r} cannot be the name of an environment variable.")
    return name


def _mapping(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadTemplate(f"{key} is {value!r}.", hint=f"Write {key} as names with values.")
    return value


def _env(given: Mapping[str, Any]) -> dict[str, str]:
    return {check_env_name(name): _env_value(name, value) for name, value in given.items()}


def _env_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadTemplate(f"env.{name} is {value!r}.", hint="Write text or a number.")


def _text(given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadTemplate(f"{key} is {value!r}.", hint=f"Write {key} as text.")
    return value


def _seconds(value: object) -> float:
    if value is None:
        return DEFAULT_STOP_GRACE
    try:
        seconds = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        seconds = -1.0
    if isinstance(value, bool) or not 0 <= seconds <= 86400:
        raise BadTemplate(f"stop_grace is {value!r}.", hint="Write seconds, 0 … 86400.")
    return seconds
