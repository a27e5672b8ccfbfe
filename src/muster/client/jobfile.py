"""`muster.yaml`: what a folder of code says about the job in it.

name: train
entrypoint: [train.py]
inputs:
  schema: {type: object, properties: {lr: {type: number, default: 0.1}}}
  arguments: [lr]
  files: {conf/train.yaml: true}
training: {nodes: 2, procs_per_node: gpu}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.domain import document
from muster.domain.errors import BadConfigFile, BadDeclaration, UnknownKey
from muster.domain.inputs import KEYS, InputDeclaration
from muster.domain.names import checked_name
from muster.domain.training import checked_shape

FILE = "muster.yaml"
_KEYS = ("name", "entrypoint", "inputs", "training")
_SCHEMA_KEYS = frozenset({"$schema", "$ref", "type", "properties", "allOf", "anyOf", "oneOf"})


@dataclass(frozen=True, kw_only=True)
class JobFile:
    name: str | None = None  #: of the job
    entrypoint: tuple[str, ...] = ()
    inputs: InputDeclaration | None = None
    training: Mapping[str, Any] | None = None  #: the fields of the shape that it gives

    @classmethod
    def parse(cls, data: object, *, where: str = FILE) -> JobFile:
        if not isinstance(data, Mapping):
            raise BadDeclaration(f"{where} is not a mapping.", hint=f"It has the keys {', '.join(_KEYS)}.")
        for key in data:
            if key not in _KEYS:
                raise UnknownKey(str(key), where=where, known=_KEYS)
        name, inputs, training = data.get("name"), data.get("inputs"), data.get("training")
        if name is not None and not isinstance(name, str):
            raise BadDeclaration(f"{where}: name is not text.", hint="Write `name: train`.")
        return cls(
            name=checked_name(name, what="job") if name is not None else None,
            entrypoint=_entrypoint(data.get("entrypoint"), where),
            inputs=InputDeclaration.parse(inputs) if inputs is not None else None,
            training=checked_shape(training, where=f"training of {where}") if training is not None else None,
        )

    def command(self, words: Sequence[str]) -> list[str]:
        """The command of a launch: the words given; or the entrypoint, with the options given behind it."""
        if self.entrypoint and (not words or words[0].startswith("-")):
            return [*self.entrypoint, *words]
        return list(words)

    def shape(self, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The training of a launch: what it gives, field by field, over what the file says."""
        if self.training is None:
            return given
        return {**self.training, **(given or {})}


def read_jobfile(folder: Path) -> JobFile:
    """What the folder says; nothing, if it has no such file."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            raw = file.read(document.MAX_BYTES + 1)
    except FileNotFoundError:
        return JobFile()
    except OSError as error:
        raise BadConfigFile(f"{path} cannot be read: {error.strerror}.", hint="Check the file.") from error
    return parse_jobfile(raw, path=FILE)


def parse_jobfile(raw: bytes, *, path: str) -> JobFile:
    """`path` is what errors call it."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadConfigFile(f"{path} is not UTF-8 text.") from error
    data = document.parse(text, name=path)
    return JobFile.parse(data, where=path) if data is not None else JobFile()


def declaration_in(data: Mapping[str, Any]) -> InputDeclaration:
    """Of a whole `muster.yaml`, of what is under its `inputs`, or of a JSON Schema alone."""
    keys = set(data)
    if "inputs" in keys and keys <= set(_KEYS):
        return InputDeclaration.parse(data["inputs"])
    if keys & set(KEYS):
        return InputDeclaration.parse(data)
    if not keys & _SCHEMA_KEYS:
        raise BadDeclaration(
            "this declares no inputs.", hint=f"Write {', '.join(KEYS)}, or a JSON Schema with `properties`."
        )
    return InputDeclaration.parse({"schema": data})


def _entrypoint(given: object, where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given or not all(isinstance(word, str) and word for word in given):
        raise BadDeclaration(
            f"{where}: entrypoint is not a list of words.", hint="Write `entrypoint: [train.py]`."
        )
    return tuple(given)
