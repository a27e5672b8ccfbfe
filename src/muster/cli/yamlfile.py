"""Config files: YAML or JSON that says what JSON could say, read with an eye on slips and tricks.

Refused, with file, line and column: duplicate keys, keys that are not text, tabs, control characters,
dates and other types that JSON does not have, aliases that contain themselves or blow up.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from muster.domain.errors import BadConfigFile

if TYPE_CHECKING:
    from ruamel.yaml import YAML

MAX_BYTES = 1024 * 1024
MAX_NODES = 100_000  #: with every alias counted as what it stands for
MAX_DEPTH = 100
STDIN = "-"
UNFOLDED = 2**30  #: a width at which no text is broken into lines

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null")})
_MERGE = f"{_TAG}merge"


def read_mapping(path: Path | str) -> dict[str, Any]:
    """The mapping in this file; `-` is standard input."""
    name = "<stdin>" if str(path) == STDIN else str(path)
    return parse_mapping(_read(path, name), name=name)


def parse_mapping(text: str, *, name: str) -> dict[str, Any]:
    """The mapping this text is; `name` is what errors call it."""
    value = parse(text, name=name)
    if not isinstance(value, dict):
        what = {list: "a list", type(None): "empty"}.get(type(value), "a single value")
        raise BadConfigFile(f"{name} is {what}.", hint="Write it as `key: value` lines.")
    return value


def parse(text: str, *, name: str) -> Any:
    """Whatever this text is: mapping, list or scalar."""
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    yaml = _yaml()
    try:
        node = yaml.compose(io.StringIO(text))
        if node is None:
            return None
        _Checker(name).check(node)
        return _plain(yaml.constructor.construct_document(node), name)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        said = error.problem or "it cannot be read"
        if said.startswith("but "):
            said = f"{error.context}, {said}"
        hint = "Indent with spaces; YAML has no tabs." if "'\\t'" in said else "Mend it there."
        raise BadConfigFile(f"{where}: {said}.", hint=hint) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        raise BadConfigFile(
            f"{name}:{line}:{column}: the character U+{ord(text[error.position]):04X} is not allowed.",
            hint="Remove it.",
        ) from error
    except RecursionError as error:
        raise BadConfigFile(f"{name} is nested too deep.") from error
    except ValueError as error:  # such as an integer of a million digits
        raise BadConfigFile(f"{name} has a value that cannot be read: {error}.") from error


def dump(data: Mapping[str, Any], *, width: int = 100) -> str:
    """YAML for people: in the order given, text of several lines as such."""
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        pass

    Representer.add_representer(str, _represent_text)
    yaml = _yaml()
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.width = width
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(dict(data), stream)
    return stream.getvalue()


def _yaml() -> YAML:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True)


def _represent_text(representer: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return representer.represent_scalar(f"{_TAG}str", text, style=style)


def _read(path: Path | str, name: str) -> str:
    try:
        if str(path) == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadConfigFile(f"{name} cannot be read: {error.strerror}.", hint="Check the path.") from error
    if len(data) > MAX_BYTES:
        raise BadConfigFile(f"{name} is larger than 1 MiB.", hint="A config is a few lines of YAML.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise BadConfigFile(f"{name}:{line}:{column}: this is not UTF-8 text.") from error


class _Checker:
    """Walks the tree before anything is made of it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_NODES
        self._open: set[int] = set()  #: nodes we are inside of

    def check(self, node: Any) -> None:
        self._left -= 1
        if self._left < 0:
            self._refuse(node, "the aliases stand for too much", "Write it without aliases.")
        if id(node) in self._open:
            self._refuse(node, "this contains itself", "Remove the alias.")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(node, f"this is nested more than {MAX_DEPTH} levels deep", "Make it flatter.")
        if not isinstance(node.value, list):
            self._check_scalar(node)
            return
        if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            self._refuse(node, f"the type {_short(node.tag)} is not allowed", "Use mappings and lists.")
        self._open.add(id(node))
        seen: set[str] = set()
        for item in node.value:
            if not isinstance(item, tuple):
                self.check(item)
                continue
            key, value = item
            self._check_key(key, seen)
            self.check(value)
        self._open.remove(id(node))

    def _check_key(self, key: Any, seen: set[str]) -> None:
        if key.tag == _MERGE:
            return
        if key.tag != f"{_TAG}str" or isinstance(key.value, list):
            shown = repr(key.value) if not isinstance(key.value, list) else "this"
            self._refuse(key, f"the key {shown} is not text", "Put it in quotes.")
        if key.value in seen:
            self._refuse(key, f"the key {key.value!r} is there twice", "Drop one of them.")
        seen.add(key.value)

    def _check_scalar(self, node: Any) -> None:
        if node.tag in _SCALARS:
            return
        kind = "date" if node.tag == f"{_TAG}timestamp" else _short(node.tag)
        self._refuse(node, f"a value of type {kind} is not allowed", "Put it in quotes to make it text.")

    def _refuse(self, node: Any, problem: str, hint: str) -> NoReturn:
        mark = node.start_mark
        raise BadConfigFile(f"{self._name}:{mark.line + 1}:{mark.column + 1}: {problem}.", hint=hint)


def _short(tag: object) -> str:
    return str(tag).removeprefix(_TAG)


def _plain(value: Any, name: str) -> Any:
    """A copy made of plain types, each alias written out; numbers that JSON cannot write are refused."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, name) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadConfigFile(f"{name} has {value} as a value, which JSON cannot write.")
        return float(value)
    return value
