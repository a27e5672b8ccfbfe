"""What is in a queue's config: variables, macros and objects with their places, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.domain.definition import MANY_OBJECTS, Written
from muster.domain.document import Path, walk, written
from muster.domain.errors import BadDocument, MusterError
from muster.domain.suggest import suggested_type
from muster.domain.template import Tree, find_macros, find_variables
from muster.domain.variables import Variable

#: Macros that every engine fills; others come from the agent's environment, if it allows them.
MACROS = ("image_uri", "run_id", "run_name", "project_name", "entity_name", "author", "queue_name", "attempt")


@dataclass(frozen=True, kw_only=True)
class Use:
    """One place in the config; line and column where it came from text."""

    path: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, kw_only=True)
class FoundVariable:
    name: str
    uses: tuple[Use, ...]
    declared: Mapping[str, Any] | None  #: None: it is missing
    suggested: Mapping[str, Any]  #: a declaration that would do
    option: str  #: the same for the command line


@dataclass(frozen=True, kw_only=True)
class FoundMacro:
    name: str
    uses: tuple[Use, ...]
    known: bool  #: filled by every engine


@dataclass(frozen=True, kw_only=True)
class FoundObject:
    kind: str
    api_version: str
    name: str
    use: Use


@dataclass(frozen=True, kw_only=True)
class Fault:
    message: str
    hint: str = ""
    line: int | None = None
    column: int | None = None

    @classmethod
    def of(cls, error: MusterError) -> Fault:
        message = error.problem if isinstance(error, BadDocument) else error.detail
        return cls(
            message=message.rstrip("."),
            hint=error.hint,
            line=error.facts.get("line"),
            column=error.facts.get("column"),
        )


@dataclass(frozen=True, kw_only=True)
class Survey:
    resource: str
    config: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[FoundVariable, ...] = ()
    macros: tuple[FoundMacro, ...] = ()
    objects: tuple[FoundObject, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def missing(self) -> list[FoundVariable]:
        return [variable for variable in self.variables if variable.declared is None]


def survey(found: Written, *, resource: str, declared: Mapping[str, Any]) -> Survey:
    """Look through a config. `declared` are variables as their owner wrote them."""
    config = found.config or {}
    rules, faults = _rules(found, declared)
    variables = []
    for name, paths in _uses(config, find_variables).items():
        kind = suggested_type(name, paths)
        rule = rules.get(name)
        variables.append(
            FoundVariable(
                name=name,
                uses=_places(found, paths),
                declared=rule.to_data() if rule else None,
                suggested={"type": kind.value},
                option=f"--var {name}:{kind}",
            )
        )
    macros = [
        FoundMacro(name=name, uses=_places(found, paths), known=name in MACROS)
        for name, paths in _uses(config, find_macros).items()
    ]
    return Survey(
        resource=resource,
        config=config,
        policy=found.policy,
        variables=tuple(variables),
        macros=tuple(macros),
        objects=tuple(_objects(found, config)) if resource == MANY_OBJECTS else (),
        faults=tuple(faults),
    )


def _rules(found: Written, declared: Mapping[str, Any]) -> tuple[dict[str, Variable], list[Fault]]:
    rules: dict[str, Variable] = {}
    faults: list[Fault] = []
    used = find_variables(found.config or {})
    for name, rule in declared.items():
        line, column = found.places.get(("variables", name), (None, None))
        try:
            rules[name] = Variable.parse(name, rule)
        except MusterError as error:
            faults.append(Fault(message=error.detail.rstrip("."), hint=error.hint, line=line, column=column))
            continue
        if name not in used:
            faults.append(
                Fault(
                    message=f'Variable "{name}" is declared, but the template never uses it',
                    hint=f"Write {{{{{name}}}}} where its value belongs, or drop the variable.",
                    line=line,
                    column=column,
                )
            )
    return rules, faults


def _uses(config: Tree, names_in: Callable[[str], Sequence[str]]) -> dict[str, list[Path]]:
    """name → where it is used, in the order of the config."""
    uses: dict[str, list[Path]] = {}
    for path, value in walk(config):
        for name in names_in(value) if isinstance(value, str) else ():
            uses.setdefault(name, []).append(path)
    return uses


def _places(found: Written, paths: Sequence[Path]) -> tuple[Use, ...]:
    return tuple(_use(found, path) for path in paths)


def _use(found: Written, path: Path) -> Use:
    line, column = found.place(path) or (None, None)
    return Use(path=written(path), line=line, column=column)


def _objects(found: Written, config: Mapping[str, Any]) -> Iterator[FoundObject]:
    path: Path = ()
    if set(config) == {MANY_OBJECTS} and isinstance(config[MANY_OBJECTS], Mapping):
        config, path = config[MANY_OBJECTS], (MANY_OBJECTS,)
    items = config.get("items") if config.get("kind") == "List" else None
    if not isinstance(items, list):
        yield _object(found, config, path)
        return
    for place, item in enumerate(items):
        if isinstance(item, Mapping):
            yield _object(found, item, (*path, "items", place))


def _object(found: Written, item: Mapping[str, Any], path: Path) -> FoundObject:
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return FoundObject(
        kind=str(item.get("kind", "Job")),
        api_version=str(item.get("apiVersion", "batch/v1")),
        name=str(name) if name is not None else "",
        use=_use(found, path),
    )
