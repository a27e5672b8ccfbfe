"""Config files that Muster manages: inputs are merged into the run's own copy before it starts.

Mappings are joined, anything else is replaced. What is not an input stays as it was written: order,
comments and quotes in YAML and TOML, order and indentation in JSON.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from muster.domain.errors import BadManagedFile
from muster.domain.inputs import Names, selected

if TYPE_CHECKING:
    from ruamel.yaml import YAML

MAX_BYTES = 4 * 1024 * 1024
_PLAIN_TEXT = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
#: What a YAML 1.1 reader such as PyYAML takes for something else than text.
_NOT_TEXT = frozenset("y n yes no on off true false null".split())


def merge_into_files(workdir: Path, files: Mapping[str, Names], inputs: Mapping[str, Any]) -> None:
    """Merge the inputs into each of these files of a run's working directory."""
    for path, names in files.items():
        _merge_into(_inside(workdir, path), path, selected(inputs, names))


def merge_text(text: str, tree: Mapping[str, Any], *, path: str) -> str:
    """The text of a config file with `tree` merged into it; the end of `path` tells its format."""
    from ruamel.yaml.error import YAMLError
    from tomlkit.exceptions import TOMLKitError

    try:
        return _MERGERS[PurePosixPath(path).suffix](text, tree, path)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise _unreadable(where, getattr(error, "problem", None) or error) from error
    except json.JSONDecodeError as error:
        raise _unreadable(f"{path}:{error.lineno}:{error.colno}", error.msg) from error
    except TOMLKitError as error:
        raise _unreadable(path, error) from error
    except RecursionError as error:
        raise _unreadable(path, "it is nested too deep") from error


def _unreadable(where: str, said: object) -> BadManagedFile:
    return BadManagedFile(
        f"{where}: the file cannot be read: {str(said)[:200]}.", hint="Mend it in the code, and launch again."
    )


def _inside(workdir: Path, path: str) -> Path:
    """The real file, which a link may lead to, but never out of the working directory."""
    root = workdir.resolve()
    try:
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError in Python 3.12
        raise BadManagedFile(
            f"The code has no file {path!r}, into which inputs should be merged.",
            hint="Add it to the code, or take it out of `files` in the inputs of the job.",
        ) from error
    if not real.is_relative_to(root):
        raise BadManagedFile(
            f"{path!r} leads out of the code.", hint="Put the file itself there, not a link."
        )
    if not real.is_file():
        raise BadManagedFile(f"{path!r} is not a file.", hint="Name a YAML, JSON or TOML file of the code.")
    return real


def _merge_into(real: Path, path: str, tree: Mapping[str, Any]) -> None:
    if real.stat().st_size > MAX_BYTES:
        raise BadManagedFile(f"{path!r} has more than {MAX_BYTES // 2**20} MiB.")
    try:
        text = real.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8 text") from error
    merged = merge_text(text, tree, path=path)
    if merged == text:
        return
    # A new file under a name of its own: the code may have planted a link under any that can be guessed.
    handle, scratch = tempfile.mkstemp(dir=real.parent)
    with open(handle, "wb") as file:
        os.fchmod(handle, real.stat().st_mode & 0o777)
        file.write(merged.encode())
    os.replace(scratch, real)


def _merge(
    place: MutableMapping[str, Any],
    tree: Mapping[str, Any],
    write: Callable[[Any], Any],
    own: Callable[[Any, str], Any] = MutableMapping.get,
) -> None:
    """`write` makes a value of the file's kind; `own` gives what is at a key, to be changed there alone."""
    for key, value in tree.items():
        there = place.get(key)
        if isinstance(there, MutableMapping) and isinstance(value, Mapping):
            _merge(own(place, key), value, write, own)
        elif key not in place or not _same(there, value):
            place[key] = write(value)


def _same(there: object, value: object) -> bool:
    """What has the value already keeps the form it was written in. `1`, `1.0` and `true` differ."""
    return there == value and _kind(there) is _kind(value)


def _kind(value: object) -> type:
    return next((kind for kind in (bool, float) if isinstance(value, kind)), object)


def _mapping(data: object, path: str) -> Any:
    if not isinstance(data, MutableMapping):
        raise BadManagedFile(f"{path!r} is not a mapping, so that inputs have no place in it.")
    return data


def _merge_yaml(text: str, tree: Mapping[str, Any], path: str) -> str:
    from ruamel.yaml.comments import CommentedMap

    yaml = _yaml(text)
    documents = list(yaml.load_all(text))
    if len(documents) > 1:
        raise BadManagedFile(f"{path!r} has {len(documents)} documents.", hint="Inputs are merged into one.")
    data = documents[0] if documents else None
    data = CommentedMap() if data is None else _mapping(data, path)
    _merge(data, tree, _yaml_value, _Aliases(data).own)
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


#: `key:`, perhaps a comment, perhaps lines without a value; then the first line below it.
_BELOW = r":[ ]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*"
_LIST_BELOW = re.compile(rf"^( *)[^\s#-][^\n]*{_BELOW}( *)- ", re.MULTILINE)
_MAPPING_BELOW = re.compile(rf"^[A-Za-z_][^\n]*{_BELOW}( +)[^\s#-]", re.MULTILINE)


def _yaml(text: str) -> YAML:
    """Reads and writes with the indentation of this text."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import RoundTripConstructor
    from ruamel.yaml.representer import RoundTripRepresenter

    class Constructor(RoundTripConstructor):
        def construct_yaml_float(self, node: Any) -> Any:
            value = super().construct_yaml_float(node)
            return value if node.anchor else _Float.written(float(value), node.value)

    class Representer(RoundTripRepresenter):
        pass

    Constructor.add_constructor(_FLOAT, Constructor.construct_yaml_float)
    Representer.add_representer(_Float, lambda made, value: made.represent_scalar(_FLOAT, value.text))
    yaml = YAML()
    yaml.Constructor, yaml.Representer = Constructor, Representer
    yaml.preserve_quotes = True
    yaml.width = 2**16
    listed, below = _LIST_BELOW.search(text), _MAPPING_BELOW.search(text)
    offset = len(listed[2]) - len(listed[1]) if listed else 0
    yaml.indent(mapping=len(below[1]) if below else 2, sequence=offset + 2, offset=offset)
    return yaml


class _Aliases:
    """Knows where each mapping of a document is written, and where an alias only repeats it."""

    def __init__(self, document: Any) -> None:
        self._written: dict[int, tuple[int, Any]] = {}
        self._visit(document)

    def own(self, place: Any, key: str) -> Any:
        """The mapping at a key. One that an alias or a `<<` brought there becomes a copy first: a change of
        it is no change of what it repeats."""
        there = place[key]
        if self._written.get(id(there), (id(place), key)) != (id(place), key):
            place[key] = there = copy.deepcopy(there)
            there.yaml_set_anchor(None)
        return there

    def _visit(self, node: Any) -> None:
        entries: list[tuple[Any, Any]] = []
        if isinstance(node, MutableMapping):
            entries = list(node.items())
        elif isinstance(node, list):
            entries = list(enumerate(node))
        for key, value in entries:
            if isinstance(value, MutableMapping | list) and id(value) not in self._written:
                self._written[id(value)] = (id(node), key)
                self._visit(value)


_FLOAT = "tag:yaml.org,2002:float"


class _Float(float):
    """A number and how it is written: ruamel.yaml would write some that it read a last digit off."""

    text: str

    @classmethod
    def written(cls, value: float, text: str) -> _Float:
        made = cls(value)
        made.text = text
        return made


def _yaml_value(value: Any) -> Any:
    """As YAML 1.1 and 1.2 both read it: a 1.1 reader takes `on` for true and `12:30:00` for a number."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return CommentedMap((key, _yaml_value(item)) for key, item in value.items())
    if isinstance(value, list):
        items = CommentedSeq(_yaml_value(item) for item in value)
        if not any(isinstance(item, Mapping | list) for item in value):
            items.fa.set_flow_style()
        return items
    if isinstance(value, str):
        plain = _PLAIN_TEXT.fullmatch(value) and value.lower() not in _NOT_TEXT
        return value if plain else DoubleQuotedScalarString(value)
    if isinstance(value, float):
        mantissa, e, exponent = repr(value).partition("e")  # `1.0e-05`: PyYAML takes `1e-05` for text
        return _Float.written(value, f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}")
    return value


def _merge_json(text: str, tree: Mapping[str, Any], path: str) -> str:
    data = _mapping(json.loads(text) if text.strip() else {}, path)
    _merge(data, tree, lambda value: value)
    found = re.search(r"\{\n([ \t]+)\"", text)
    indent = (found[1] if "\t" in found[1] else len(found[1])) if found else (None if text.strip() else 2)
    return json.dumps(data, indent=indent, ensure_ascii=False) + ("\n" if text.endswith("\n") else "")


def _merge_toml(text: str, tree: Mapping[str, Any], path: str) -> str:
    import tomlkit

    _refuse_null(tree, path)
    document = tomlkit.parse(text)
    _merge(document, tree, lambda value: value)
    return tomlkit.dumps(document)


def _refuse_null(value: object, path: str, name: str = "") -> None:
    if value is None:
        raise BadManagedFile(
            f"The input {name!r} is null, which TOML cannot write into {path!r}.", hint="Give it a value."
        )
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        _refuse_null(part, path, f"{name}.{key}" if name else str(key))


_MERGERS: Mapping[str, Callable[[str, Mapping[str, Any], str], str]] = {
    ".yaml": _merge_yaml,
    ".yml": _merge_yaml,
    ".json": _merge_json,
    ".toml": _merge_toml,
}
