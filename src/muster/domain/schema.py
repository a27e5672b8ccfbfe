"""The JSON Schema of a job's inputs: read with suspicion, then used to fill in and to check.

Draft 2020-12, without what a config never needs and a stranger could abuse: a `$ref` leads only to
`#/$defs/NAME` and never in a circle, nothing is fetched, patterns are matched in linear time (so they
have no look-around and no back-references), and size and depth are bounded.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from muster.domain.errors import BadDeclaration, nearest

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_BYTES = 128 * 1024
MAX_DEPTH = 64
MAX_NODES = 2_000  #: schemas, with each `$ref` counted as all that it stands for
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_ONE = frozenset(
    "items additionalProperties contains propertyNames not if then else unevaluatedItems"
    " unevaluatedProperties".split()
)
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_REFUSED = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary"})
_DEFS = "#/$defs/"
_PATTERN_BYTES = 1024 * 1024  #: of memory for one compiled pattern


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A checked schema of an object."""

    data: Mapping[str, Any]
    text: str = field(repr=False, compare=False)  #: the same as JSON: the key under which it is compiled once

    @classmethod
    def parse(cls, data: object, *, where: str) -> Schema:
        """Refuses, with the path within `where`, what cannot be used."""
        if not isinstance(data, Mapping):
            raise BadDeclaration(f"{where} is not a mapping.", hint="Write a JSON Schema of an object.")
        return _checked(_json(data, where), where)

    @classmethod
    def _read(cls, text: str, where: str) -> Schema:
        data: dict[str, Any] = json.loads(text)
        if str(data.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise BadDeclaration(
                f"{where} is written in {data['$schema']!r}.", hint=f"Muster reads {DIALECT}."
            )
        _check_meta(data, where)
        if data.get("type", "object") != "object":
            raise BadDeclaration(
                f"{where}.type is {json.dumps(data['type'])}: inputs have names.",
                hint="Write `type: object`, with the inputs as its `properties`.",
            )
        _Walk(data, where).check()
        _compile(text, where)
        schema = cls(data=data, text=text)
        schema._check_defaults(where)
        return schema

    def problems(self, value: Mapping[str, Any]) -> list[ValidationError]:
        """All that is wrong with a value."""
        return list(_compile(self.text, "schema").iter_errors(dict(value)))

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A copy with defaults where nothing was given, declared inputs first and in their order.

        An object that was not given is made if the defaults in it are all it needs.
        """
        found = self._fill(self.data, copy.deepcopy(dict(given)))
        names = list(self._properties(self.data))
        order = {name: place for place, name in enumerate(names)}
        return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))

    def names_at(self, path: Sequence[str]) -> list[str] | None:
        """The inputs declared under this path; None: the path itself is not declared."""
        places = [self.data]
        for name in path:
            places = [found[name] for place in places if name in (found := self._properties(place))]
            if not places:
                return None
        return [name for place in places for name in self._properties(place)]

    def rules_at(self, path: Sequence[str | int]) -> Mapping[str, Any]:
        """The keywords that hold for the value at this path, as far as the way there is plain."""
        place: Any = self.data
        for part in path:
            if isinstance(part, int):
                place = next((s["items"] for s in self._layers(place) if "items" in s), {})
            else:
                place = self._properties(place).get(part, {})
        rules: dict[str, Any] = {}
        for layer in self._layers(place):
            rules = {**layer, **rules}
        return rules

    def _layers(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        """The schema and all that holds along with it: `$ref`, `allOf`."""
        if not isinstance(schema, Mapping):
            return
        yield schema
        if "$ref" in schema:
            yield from self._layers(self.data["$defs"][_def_name(schema["$ref"])])
        for part in schema.get("allOf", ()):
            yield from self._layers(part)

    def _properties(self, schema: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for layer in self._layers(schema):
            for name, rule in layer.get("properties", {}).items():
                found.setdefault(name, rule)
        return found

    def _fill(self, schema: Any, value: Any) -> Any:
        if isinstance(value, list):
            for layer in self._layers(schema):
                if isinstance(layer.get("items"), Mapping):
                    value = [self._fill(layer["items"], item) for item in value]
            return value
        if not isinstance(value, dict):
            return value
        for layer in self._layers(schema):
            for name, rule in layer.get("properties", {}).items():
                if name in value:
                    value[name] = self._fill(rule, value[name])
                    continue
                defaults = [part["default"] for part in self._layers(rule) if "default" in part]
                if defaults:
                    value[name] = self._fill(rule, copy.deepcopy(defaults[0]))
                elif made := self._made_of_defaults(rule):
                    value[name] = made
        return value

    def _made_of_defaults(self, rule: Any) -> dict[str, Any]:
        """Empty, unless an object made of defaults alone has all that it must have."""
        made: dict[str, Any] = self._fill(rule, {})
        needed = {name for layer in self._layers(rule) for name in layer.get("required", ())}
        return made if needed <= made.keys() else {}

    def _check_defaults(self, where: str) -> None:
        """All at once: a list of them, against a schema of such a list."""
        found = [(path, schema) for path, schema in _schemas(self.data, where) if "default" in schema]
        rules = {"prefixItems": [schema for _, schema in found], "$defs": self.data.get("$defs", {})}
        defaults = [self._fill(schema, copy.deepcopy(schema["default"])) for _, schema in found]
        for error in _compile.__wrapped__(json.dumps(rules), where).iter_errors(defaults) if found else ():
            path = found[int(error.instance_path[0])][0]
            said = error.message[:200]
            raise BadDeclaration(f"{path}.default breaks its own rule: {said}.", hint="Mend one of them.")


def _json(data: Mapping[str, Any], where: str) -> str:
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except RecursionError as error:
        raise BadDeclaration(f"{where} is nested too deep.") from error
    except (TypeError, ValueError) as error:  # not JSON: NaN, a date, half a character
        raise BadDeclaration(f"{where} has what JSON cannot write: {error}.") from error
    if size > MAX_BYTES:
        raise BadDeclaration(
            f"{where} has {size:,} bytes; {MAX_BYTES // 1024} KiB are allowed.", hint="Declare less."
        )
    return text


def _check_meta(data: Mapping[str, Any], where: str) -> None:
    from jsonschema_rs import ValidationError, meta

    _check_depth(data, where)
    try:
        meta.validate(dict(data))
    except ValidationError as error:
        path = ".".join([where, *map(str, error.instance_path)])
        if error.instance_path and error.instance_path[-1] == "type":
            near = nearest(str(error.instance), TYPES)
            hint = f"Did you mean {near!r}?" if near else f"Types: {', '.join(TYPES)}."
            raise BadDeclaration(f"{path}: {error.instance!r} is not a type.", hint=hint) from error
        raise BadDeclaration(f"{path}: {error.message[:200]}.", hint="See json-schema.org.") from error


def _check_depth(value: object, where: str, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise BadDeclaration(f"{where} is nested more than {MAX_DEPTH} levels deep.", hint="Use $defs.")
    parts: Sequence[object] = ()
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list):
        parts = value
    for part in parts:
        _check_depth(part, where, depth + 1)


@lru_cache(maxsize=256)
def _checked(text: str, where: str) -> Schema:
    """Read once: the launches of a batch all bring the same one along."""
    return Schema._read(text, where)


@lru_cache(maxsize=256)
def _compile(text: str, where: str) -> Draft202012Validator:
    """Done once for all launches under it; a grid of thousands asks thousands of times."""
    from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError, ValidationErrorKind

    try:
        return Draft202012Validator(
            text,
            offline=True,
            validate_formats=True,
            pattern_options=RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES),
        )
    except ValidationError as error:
        path = ".".join([where, *map(str, error.instance_path)])
        if isinstance(error.kind, ValidationErrorKind.Format):
            raise BadDeclaration(
                f"{path}: {str(error.instance)[:80]!r} is not a pattern that can be used.",
                hint="Patterns have no look-around and no back-references, and their repeats are few.",
            ) from error
        raise BadDeclaration(f"{path}: {error.message[:200]}.") from error


def _schemas(schema: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every schema in it, each with its path."""
    if not isinstance(schema, Mapping):
        return  # true or false
    yield path, schema
    for below, part in _parts(schema, path):
        yield from _schemas(part, below)


def _parts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside one."""
    for key, value in schema.items():
        if key in _ONE:
            yield f"{path}.{key}", value
        elif key in _LISTED:
            yield from ((f"{path}.{key}[{place}]", part) for place, part in enumerate(value))
        elif key in _NAMED:
            yield from ((f"{path}.{key}.{name}", part) for name, part in value.items())


class _Walk:
    """Follows each reference once, and counts what they stand for."""

    def __init__(self, root: Mapping[str, Any], where: str) -> None:
        self._root = root
        self._where = where
        self._sizes: dict[str, int] = {}  #: of what is in `$defs`
        self._open: list[str] = []  #: references we are inside of

    def check(self) -> None:
        for path, schema in _schemas(self._root, self._where):
            for key in _REFUSED & schema.keys():
                raise BadDeclaration(f"{path} uses {key}.", hint="References are written #/$defs/NAME.")
        if self._size(self._root, self._where) > MAX_NODES:
            raise BadDeclaration(
                f"{self._where} stands for more than {MAX_NODES:,} rules, with references written out.",
                hint="Declare less.",
            )

    def _size(self, schema: Any, path: str) -> int:
        if not isinstance(schema, Mapping):
            return 1
        size = 1 + sum(self._size(part, below) for below, part in _parts(schema, path))
        if "$ref" in schema:
            size += self._target(schema["$ref"], path)
        return min(size, MAX_NODES + 1)

    def _target(self, ref: str, path: str) -> int:
        name = _def_name(ref)
        known = self._root.get("$defs", {})
        if not ref.startswith(_DEFS) or name not in known:
            near = nearest(name, known)
            hint = f"Did you mean {_DEFS}{near}?" if near else f"References are written {_DEFS}NAME."
            raise BadDeclaration(f"{path}.$ref leads to {ref!r}, which is not in $defs.", hint=hint)
        if name in self._open:
            raise BadDeclaration(f"{path}.$ref leads back to {ref!r}.", hint="Inputs end somewhere.")
        if name not in self._sizes:
            self._open.append(name)
            self._sizes[name] = self._size(known[name], f"{self._where}.$defs.{name}")
            self._open.pop()
        return self._sizes[name]


def _def_name(ref: str) -> str:
    return ref.removeprefix(_DEFS).replace("~1", "/").replace("~0", "~")
