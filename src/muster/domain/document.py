"""What people write: YAML or JSON that says what JSON could say, read with an eye on slips and tricks.

Refused, with line and column: duplicate keys, keys that are not text, tabs, control characters, merge keys,
dates and other types that JSON does not have, numbers it cannot write, aliases that contain themselves or
blow up, more than a megabyte. Server and command line read with the same eyes.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from muster.domain.errors import BadDocument, BadInput, TooLarge

if TYPE_CHECKING:
    from ruamel.yaml import YAML

MAX_BYTES = 1024 * 1024
MAX_NODES = 20_000  #: with every alias counted as what it stands for
MAX_DEPTH = 100
MAX_DIGITS = 300

Path: TypeAlias = tuple[str | int, ...]  #: keys and positions, from the top
Place: TypeAlias = tuple[int, int]  #: line and column, counted from one

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null")})
_NUMBERS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_MERGE = f"{_TAG}merge"
#: What no database, process or terminal should be given: control characters and halves of characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Document:
    value: Any
    places: Mapping[Path, Place]  #: of every value in it


def read(text: str, *, name: str = "") -> Document:
    """The one document this text is; `name` is what errors call it."""
    found = read_all(text, name=name)
    if len(found) > 1:
        line, column = found[1].places[()]
        raise BadDocument(
            "a second document begins here",
            name=name,
            line=line,
            column=column,
            hint="Keep one, and drop the `---` before the other.",
        )
    return found[0] if found else Document(value=None, places={(): (1, 1)})


def read_all(text: str, *, name: str = "") -> list[Document]:
    """Every document of this text, but for empty ones."""
    from ruamel.yaml.composer import MaxDepthExceededError
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    if len(data := text.encode(errors="replace")) > MAX_BYTES:
        raise too_large(name, place_in(data, MAX_BYTES))
    try:
        nodes = [node for node in _yaml().compose_all(io.StringIO(text)) if not _is_empty(node)]
        return [_Reader(name).document(node) for node in nodes]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or "it cannot be read"
        if isinstance(error, MaxDepthExceededError):
            said = f"this is nested more than {MAX_DEPTH} levels deep"
        if said.startswith("but "):
            said = f"{error.context}, {said}"
        hint = "Indent with spaces; YAML has no tabs." if "'\\t'" in said else "Mend it there."
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise BadDocument(said, name=name, line=line, column=column, hint=hint) from error
    except ReaderError as error:
        line, column = place_in(text, error.position)
        what = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise BadDocument(what, name=name, line=line, column=column, hint="Remove it.") from error


def parse(text: str, *, name: str = "") -> Any:
    """Whatever this text is: mapping, list or scalar."""
    return read(text, name=name).value


def parse_json(data: bytes) -> Any:
    """The body of a request. Python's own reader takes the last of duplicate keys, and this one none."""
    text = data.decode("utf-8")

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise BadInput(f"The key {twice!r} is there twice in one object.", hint="Drop one of them.")
        return made

    return json.loads(text, object_pairs_hook=mapping)


def check_tree(tree: object, *, what: str) -> None:
    """Refuse data from elsewhere that this module would not have read."""
    for count, (path, value) in enumerate(walk(tree, what=what)):
        if count >= MAX_NODES:
            raise BadInput(f"{what} has more than {MAX_NODES} values.", hint="Make it smaller.")
        keys = value if isinstance(value, Mapping) else ()
        for key in keys:
            if not isinstance(key, str):
                raise BadInput(f"{written(path, what)} has the key {key!r}, which is not text.")
        for text in (*keys, value):
            if isinstance(text, str) and (bad := _FORBIDDEN.search(text)):
                character = f"U+{ord(bad[0]):04X}"
                raise BadInput(
                    f"{written(path, what)}: the character {character} is not allowed.", hint="Remove it."
                )
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"{written(path, what)} is {value}, which JSON cannot write.")
        if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
            raise BadInput(f"{written(path, what)} has more than {MAX_DIGITS} digits.")
    if len(json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_BYTES:
        raise too_large(what)


def dump(data: Mapping[str, Any], *, width: int = 100) -> str:
    """YAML for people: in the order given, text of several lines as such."""
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        pass

    Representer.add_representer(str, _represent_text)
    Representer.ignore_aliases = lambda self, data: True  # type: ignore[method-assign]
    yaml = _yaml()
    yaml.Representer = Representer
    yaml.default_flow_style = False
    yaml.width = width
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(dict(data), stream)
    return stream.getvalue()


def written(path: Path, root: str = "") -> str:
    """A path as people write it: `spec.containers[0].env`."""
    text = root
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def place_in(text: str | bytes, position: int) -> Place:
    """Line and column of a position in the text, or of a byte."""
    if isinstance(text, str):
        return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return text.count(b"\n", 0, position) + 1, position - text.rfind(b"\n", 0, position)


def too_large(name: str, place: Place | None = None) -> TooLarge:
    where = f": its limit is passed at line {place[0]}, column {place[1]}" if place else ""
    return TooLarge(
        f"{name or 'The text'} is larger than 1 MiB{where}.", hint="A config is a few lines of YAML."
    )


def walk(tree: object, path: Path = (), *, what: str = "This") -> Iterator[tuple[Path, object]]:
    """Every value with its path, those that hold others first."""
    if len(path) >= MAX_DEPTH and isinstance(tree, Mapping | list):
        raise BadInput(f"{what} is nested more than {MAX_DEPTH} levels deep.", hint="Make it flatter.")
    yield path, tree
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from walk(value, (*path, key), what=what)
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from walk(value, (*path, place), what=what)


def _yaml() -> YAML:
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer, ComposerError

    class Counting(Composer):
        """Gives up where there is too much, not after all of it was read."""

        count = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.count += 1
            if self.count > 2 * MAX_NODES:  # keys are counted here as well
                mark = self.parser.peek_event().start_mark
                raise ComposerError(None, None, f"there are more than {MAX_NODES} values before this", mark)
            return super().compose_node(parent, index)

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = Counting
    yaml.max_depth = MAX_DEPTH + 1
    yaml.composer.warn_double_anchors = False  # the later one counts, as YAML says
    return yaml


def _is_empty(node: Any) -> bool:
    return node is None or (node.tag == f"{_TAG}null" and node.value == "")


def _represent_text(representer: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return representer.represent_scalar(f"{_TAG}str", text, style=style)


class _Reader:
    """Makes plain values of a tree of nodes, each alias written out."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_NODES
        self._open: set[int] = set()  #: nodes we are inside of
        self._top: Any = None  #: and the uppermost of them, below the document itself
        self._places: dict[Path, Place] = {}
        self._scalars = _yaml().constructor

    def document(self, node: Any) -> Document:
        return Document(value=self._value(node, ()), places=self._places)

    def _value(self, node: Any, path: Path) -> Any:
        self._left -= 1
        if len(path) <= 1:
            self._top = node
        if self._left < 0:  # an alias leads back to its anchor; what it blows up is here
            self._refuse(self._top, "the aliases stand for too much", "Write it without aliases.")
        if id(node) in self._open:
            self._refuse(node, "this contains itself", "Remove the alias.")
        self._places[path] = _place(node)
        if not isinstance(node.value, list):
            return self._scalar(node)
        if len(self._open) >= MAX_DEPTH:
            self._refuse(node, f"this is nested more than {MAX_DEPTH} levels deep", "Make it flatter.")
        if node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            self._refuse(node, f"the type {_short(node.tag)} is not allowed", "Use mappings and lists.")
        self._open.add(id(node))
        value = self._mapping(node, path) if node.tag == f"{_TAG}map" else self._list(node, path)
        self._open.remove(id(node))
        return value

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.value:
            name = self._key(key, made)
            made[name] = self._value(value, (*path, name))
        return made

    def _list(self, node: Any, path: Path) -> list[Any]:
        return [self._value(item, (*path, place)) for place, item in enumerate(node.value)]

    def _key(self, key: Any, seen: Mapping[str, Any]) -> str:
        if key.tag == _MERGE:
            self._refuse(key, "merge keys are not read", "Write the keys themselves here.")
        if key.tag != f"{_TAG}str" or isinstance(key.value, list):
            which = "a key" if isinstance(key.value, list) else f"the key {key.value!r}"
            self._refuse(key, f"{which} is not text", "Put it in quotes.")
        name = self._text(key)
        if name in seen:
            self._refuse(key, f"the key {name!r} is there twice", "Drop one of them.")
        return name

    def _scalar(self, node: Any) -> Any:
        if node.tag not in _SCALARS:
            kind = "date" if node.tag == f"{_TAG}timestamp" else _short(node.tag)
            self._refuse(node, f"a value of type {kind} is not allowed", "Put it in quotes to make it text.")
        if node.tag in _NUMBERS:
            return self._number(node)
        if node.tag == f"{_TAG}str":
            return self._text(node)
        try:
            return self._scalars.construct_object(node)
        except KeyError:  # !!bool of something else
            self._refuse(node, f"this is no {_short(node.tag)}", "Put it in quotes to make it text.")

    def _number(self, node: Any) -> int | float:
        if len(node.value) > MAX_DIGITS:
            self._refuse(node, "this number is too long", "Put it in quotes to make it text.")
        try:
            number: int | float = self._scalars.construct_object(node)
        except ValueError:
            self._refuse(node, "this number cannot be read", "Put it in quotes to make it text.")
        if isinstance(number, float) and not math.isfinite(number):
            self._refuse(node, f"JSON cannot write the number {number}", "Put it in quotes to make it text.")
        return float(number) if isinstance(number, float) else int(number)

    def _text(self, node: Any) -> str:
        text = str(node.value)
        if bad := _FORBIDDEN.search(text):
            with suppress(UnicodeDecodeError):  # JSON writes 😀 as two halves that belong together
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
                bad = _FORBIDDEN.search(text)
        if bad:
            self._refuse(node, f"the character U+{ord(bad[0]):04X} is not allowed", "Remove it.")
        return text

    def _refuse(self, node: Any, problem: str, hint: str) -> NoReturn:
        line, column = _place(node)
        raise BadDocument(problem, name=self._name, line=line, column=column, hint=hint)


def _place(node: Any) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _short(tag: object) -> str:
    return str(tag).removeprefix(_TAG)
