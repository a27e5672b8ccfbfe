"""Launching again what is recorded, with some of it replaced; and what was replaced, for people to see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from muster.domain.inputs import merged
from muster.domain.training import Training


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a launch can begin from: of a job's version, or of an earlier run."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    config: Mapping[str, Any]
    training: Training | None

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.entrypoint, *self.arguments)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that is not as recorded. None: there was none, or there is none any more."""

    what: str  #: `config.lr`, `arguments`, `training.nodes` …
    before: Any
    after: Any


def replaced(
    base: Recipe,
    *,
    entrypoint: Sequence[str] | None = None,
    arguments: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    training: Training | None = None,
    given: frozenset[str] | None = None,
) -> Recipe:
    """`base` with what is given in its place. Config is merged, key by key; of `training`, the fields
    named in `given` count (None: all of them)."""
    return Recipe(
        entrypoint=base.entrypoint if entrypoint is None else tuple(entrypoint),
        arguments=base.arguments if arguments is None else tuple(arguments),
        config=merged(base.config, config or {}),
        training=_training(base.training, training, given),
    )


def _training(base: Training | None, asked: Training | None, given: frozenset[str] | None) -> Training | None:
    if asked is None:
        return base
    if base is None or given is None:
        return asked
    return replace(base, **{name: getattr(asked, name) for name in given})


def changes(before: Recipe, after: Recipe) -> tuple[Change, ...]:
    """What is not as it was, in the order of a launch."""
    found: list[Change] = []
    for name in ("entrypoint", "arguments"):
        old, new = list(getattr(before, name)), list(getattr(after, name))
        if old != new:
            found.append(Change(what=name, before=old, after=new))
    found += differences("config", before.config, after.config)
    found += differences("training", _shape(before.training), _shape(after.training))
    return tuple(found)


def differences(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Each value that differs, named by its way: `config.optim.lr`."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        if name not in before and isinstance(new, Mapping) and new:
            old = {}
        if name not in after and isinstance(old, Mapping) and old:
            new = {}
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(f"{what}.{name}", old, new)
        elif old != new or (name in before) != (name in after):
            yield Change(what=f"{what}.{name}", before=old, after=new)


def _shape(training: Training | None) -> dict[str, Any]:
    given = asdict(training) if training else {}
    return {name: value for name, value in given.items() if value is not None}
