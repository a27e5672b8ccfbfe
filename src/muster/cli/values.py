"""`NAME=VALUE` options: environment, variables, inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.cli.usage import BadUsage, as_usage


def pairs(option: str, given: Sequence[str], *, example: str) -> dict[str, str]:
    """Names with their texts, each name once."""
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise BadUsage(f"{option} {word}: this is not NAME=VALUE.", hint=f"Write {option} {example}.")
        if name in found:
            raise BadUsage(f"{option} gives {name!r} twice.", hint="Give it once.")
        found[name] = value
    return found


def inputs(given: Sequence[str]) -> dict[str, Any]:
    """`lr=0.01` is a number as in YAML; `optim.lr=0.01` is `{optim: {lr: 0.01}}`."""
    tree: dict[str, Any] = {}
    for name, text in pairs("--config", given, example="lr=0.01").items():
        *way, last = name.split(".")
        if not all((*way, last)):
            raise BadUsage(f"--config {name}: a part of the name is empty.", hint="Write optim.lr=0.01.")
        place = tree
        for part in way:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise BadUsage(f"--config {name}: {part!r} is a value already.", hint="Rename one of them.")
        if last in place:
            raise BadUsage(f"--config {name}: it has a value already.", hint="Give it once.")
        place[last] = scalar(text, option=f"--config {name}")
    return tree


def changes(given: Sequence[str]) -> dict[str, Any]:
    """`spec.tasks[name=worker].replicas=3`: paths with their values, read as in YAML."""
    from muster.domain import path

    found: dict[str, Any] = {}
    for word in given:
        parts = path.split(word)
        if parts is None:
            raise BadUsage(
                f"--override {word}: this is not PATH=VALUE.",
                hint="Write --override 'spec.tasks[name=worker].replicas=3'.",
            )
        name, text = parts
        with as_usage("--override"):
            path.parse(name)
        if name in found:
            raise BadUsage(f"--override gives {name} twice.", hint="Give it once.")
        found[name] = scalar(text, option=f"--override {name}")
    return found


def volumes(given: Sequence[str]) -> list[str]:
    """`datasets:/data:ro`"""
    from muster.domain.volume import Volume

    with as_usage("--volume"):
        return [str(Volume.parse(word)) for word in given]


def scalar(text: str, *, option: str) -> Any:
    """What YAML reads in this text: `3`, `0.01`, `true`, `null`, `[1, 2]`; else the text itself."""
    from muster.cli import yamlfile
    from muster.domain.errors import BadConfigFile

    quoted = text[:1] in ("'", '"', "[", "{")
    if not quoted and not _is_plain(text):
        return text
    try:
        value = yamlfile.parse(text, name=option)
        return value if quoted or not isinstance(value, dict | list) else text
    except BadConfigFile as error:
        if not quoted:
            return text
        hint = f"Quote it to make it text: {option}={_quoted(text)}"
        raise BadUsage(f"{option}={text}: {error.detail}", hint=hint) from error


def _is_plain(text: str) -> bool:
    """May YAML read this as one scalar? Text with spaces, `#` or `:` would mean something else there."""
    return bool(text) and all(character.isalnum() or character in "+-._~" for character in text)


def _quoted(text: str) -> str:
    return "\"'" + text.replace("'", "''") + "'\""
