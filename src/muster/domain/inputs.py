"""Inputs of a job: what it declares, what a launch gives, and how they reach the program.

    inputs:
      schema: {type: object, properties: {lr: {type: number, default: 0.1, minimum: 0}}}
      arguments: [lr, optimizer.name]        # --lr=0.1 --optimizer.name=adam; true: all of them
      files: {conf/train.yaml: [optimizer]}  # merged into this file of the code; true: all of them

They always reach the program as `MUSTER_CONFIG`, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from muster.domain.errors import BadDeclaration, BadInputValue, UnknownKey, nearest
from muster.domain.inputrule import refusal
from muster.domain.schema import Schema

#: MUSTER_CONFIG is one word of the environment, and Linux takes none of more than 128 KiB.
MAX_BYTES = 125 * 1024
MAX_DEPTH = 64
MAX_FILES = 20
FORMATS = (".yaml", ".yml", ".json", ".toml")

KEYS = ("schema", "arguments", "files")
_FLAG = re.compile(r"(?:--?)?[A-Za-z0-9][A-Za-z0-9._-]*")

#: Dotted names of inputs; True stands for all inputs.
Names = tuple[str, ...] | Literal[True]


@dataclass(frozen=True, kw_only=True)
class InputDeclaration:
    """What a job says about its inputs."""

    schema: Schema | None = None  #: None: anything goes
    arguments: Mapping[str, str] | Literal[True] = field(default_factory=dict)  #: name → flag
    files: Mapping[str, Names] = field(default_factory=dict)  #: path in the code → what goes into it

    @classmethod
    def parse(cls, data: object, *, where: str = "inputs") -> InputDeclaration:
        if not isinstance(data, Mapping):
            raise BadDeclaration(
                f"{where} is not a mapping.", hint=f"Write {where}: {{schema: …, arguments: …, files: …}}."
            )
        for key in data:
            if key not in KEYS:
                raise UnknownKey(str(key), where=where, known=KEYS)
        given = data.get("schema")
        schema = Schema.parse(given, where=f"{where}.schema") if given is not None else None
        return cls(
            schema=schema,
            arguments=_arguments(data.get("arguments"), schema, f"{where}.arguments"),
            files=_files(data.get("files"), schema, f"{where}.files"),
        )

    def to_data(self) -> dict[str, Any]:
        """What `parse` takes, in its longest form."""
        files = names_to_data(self.files)
        arguments = True if self.arguments is True else dict(self.arguments)
        return {
            **({"schema": dict(self.schema.data)} if self.schema else {}),
            **({"arguments": arguments} if arguments else {}),
            **({"files": files} if files else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """The inputs of one run, and how they reach its program."""

    inputs: Mapping[str, Any]
    arguments: tuple[str, ...] = ()  #: words for the end of the command
    files: Mapping[str, Names] = field(default_factory=dict)


def deliver(
    declaration: InputDeclaration | None, given: Mapping[str, Any], command: Sequence[str] = ()
) -> Delivery:
    """Check what was given, and work out where it goes. An option that is in the command already stands."""
    inputs = checked_inputs(declaration, given)
    if declaration is None:
        return Delivery(inputs=inputs)
    words = tuple(_words(declaration.arguments, inputs, command))
    return Delivery(inputs=inputs, arguments=words, files=declaration.files)


def checked_inputs(declaration: InputDeclaration | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with defaults filled in; refuses what the declaration does not allow."""
    _check_size(given)
    if declaration is None or declaration.schema is None:
        return dict(given)
    inputs = declaration.schema.filled(given)
    _check_size(inputs)
    problems = declaration.schema.problems(inputs)
    if problems:
        raise refusal(declaration.schema, problems)
    return inputs


def check_defaults(declaration: InputDeclaration, given: Mapping[str, Any]) -> None:
    """Refuse recorded inputs that no launch could be made with. What is missing, a launch may still give."""
    _check_size(given)
    if declaration.schema is None:
        return
    problems = declaration.schema.problems(declaration.schema.filled(given))
    wrong = [problem for problem in problems if problem.kind.name != "required"]
    if wrong:
        raise refusal(declaration.schema, wrong)


def names_to_data(files: Mapping[str, Names]) -> dict[str, Any]:
    return {path: True if names is True else list(names) for path, names in files.items()}


def names_from_data(data: Mapping[str, Any]) -> dict[str, Names]:
    return {path: True if names is True else tuple(names) for path, names in data.items()}


def selected(inputs: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The part of the inputs that these names mean, nested as the inputs are."""
    if names is True:
        return dict(inputs)
    found: dict[str, Any] = {}
    for name in names:
        *way, last = name.split(".")
        here: Any = inputs
        for part in (*way, last):
            here = here.get(part, _ABSENT) if isinstance(here, Mapping) else _ABSENT
        if here is _ABSENT:
            continue
        place = found
        for part in way:
            place = place.setdefault(part, {})
        place[last] = here
    return found


def flattened(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is no mapping, under its dotted name."""
    if isinstance(value, Mapping) and (value or not name):
        for key, part in value.items():
            yield from flattened(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The opposite of `flattened`."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        *way, last = name.split(".")
        place = tree
        for part in way:
            place = place.setdefault(part, {})
        place[last] = value
    return tree


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings are joined, anything else of `over` replaces what is there."""
    result = dict(under)
    for key, value in over.items():
        there = result.get(key)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        result[key] = merged(there, value) if both else value  # type: ignore[arg-type]
    return result


_ABSENT = object()


def _words(
    arguments: Mapping[str, str] | Literal[True], inputs: Mapping[str, Any], command: Sequence[str]
) -> Iterator[str]:
    typed = {word.partition("=")[0] for word in command}
    if arguments is True:
        found = [(f"--{name}", value) for name, value in flattened(inputs)]
    else:
        found = [
            (flag + key.removeprefix(name), value)
            for name, flag in arguments.items()
            for key, value in flattened(selected(inputs, (name,)))
        ]
    for word, value in found:
        if value is None or word in typed:
            continue  # the program's own default; or what was typed by hand
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield from (word, text) if _is_short(word) else (f"{word}={text}",)


def _is_short(flag: str) -> bool:
    """`-l 0.1`, not `-l=0.1`: most programs would read the `=` as part of the value."""
    return flag.startswith("-") and not flag.startswith("--")


def _arguments(given: object, schema: Schema | None, where: str) -> Mapping[str, str] | Literal[True]:
    if given is None or given is False:
        return {}
    if given is True:
        return True
    if isinstance(given, list):
        names = _names(given, schema, where)
        return {name: f"--{name}" for name in names}
    if not isinstance(given, Mapping):
        raise BadDeclaration(
            f"{where} is neither a list of inputs, nor a mapping, nor true.", hint=f"{where}: [lr, seed]"
        )
    for name, flag in given.items():
        if not isinstance(flag, str) or not _FLAG.fullmatch(flag):
            raise BadDeclaration(
                f"{where}.{name}: {flag!r} is not the name of an option.", hint="Write --learning-rate."
            )
    names = _names(list(given), schema, where)
    return {name: given[name] for name in names}


def _files(given: object, schema: Schema | None, where: str) -> dict[str, Names]:
    if given is None:
        return {}
    if isinstance(given, list):
        given = dict.fromkeys((str(path) for path in given), True)
    if not isinstance(given, Mapping):
        raise BadDeclaration(
            f"{where} is neither a list of files nor a mapping.", hint=f"{where}: {{conf/train.yaml: [lr]}}"
        )
    if len(given) > MAX_FILES:
        raise BadDeclaration(f"{where} has {len(given)} files; at most {MAX_FILES} can be managed.")
    files: dict[str, Names] = {}
    for path, names in given.items():
        _check_path(str(path), where)
        if names is not True and not isinstance(names, list):
            raise BadDeclaration(f"{where}.{path} is neither a list of inputs nor true.")
        files[str(path)] = True if names is True else _names(names, schema, f"{where}.{path}")
    return files


def _check_path(path: str, where: str) -> None:
    parts = path.split("/")
    if not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise BadDeclaration(
            f"{where}: {path!r} does not lead to a file within the code.",
            hint="Name it as seen from the folder that is launched, such as conf/train.yaml.",
        )
    if PurePosixPath(path).suffix not in FORMATS:
        raise BadDeclaration(
            f"{where}: {path!r} is of no known format.", hint=f"Known: {', '.join(FORMATS)}."
        )


def _names(given: Sequence[object], schema: Schema | None, where: str) -> tuple[str, ...]:
    for name in given:
        if not isinstance(name, str) or not all(name.split(".")):
            raise BadDeclaration(
                f"{where}: {name!r} is not the name of an input.", hint="Write optimizer.lr."
            )
        if given.count(name) > 1:
            raise BadDeclaration(f"{where} names {name!r} twice.", hint="Name it once.")
        if schema is not None:
            _check_declared(name, schema, where)
    return tuple(str(name) for name in given)


def _check_declared(name: str, schema: Schema, where: str) -> None:
    parts = name.split(".")
    if schema.names_at(parts) is not None:
        return
    *way, last = parts
    known = schema.names_at(way) or []
    near = nearest(last, known)
    hint = f"Did you mean {'.'.join([*way, near])!r}?" if near else f"Declared: {', '.join(known) or 'none'}."
    raise BadDeclaration(f"{where} names {name!r}, which the schema does not declare.", hint=hint)


def _check_size(inputs: Mapping[str, Any]) -> None:
    _check_depth(inputs)
    try:
        size = len(json.dumps(inputs, separators=(",", ":"), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInputValue(f"The inputs have what JSON cannot write: {error}.") from error
    if size > MAX_BYTES:
        raise BadInputValue(
            f"The inputs have {size:,} bytes as JSON; {MAX_BYTES // 1024} KiB are allowed.",
            hint="Put long values into a file of the code, and name the file.",
        )


def _check_depth(value: object, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise BadInputValue(
            f"The inputs are nested more than {MAX_DEPTH} levels deep.", hint="Make it flatter."
        )
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list):
        parts = value
    for part in parts:
        _check_depth(part, depth + 1)
