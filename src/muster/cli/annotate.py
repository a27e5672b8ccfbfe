"""YAML in which every line says where its value came from."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

from muster.cli import yamlfile

_COLUMN = 60  #: comments start at most here, or right behind a longer line


def annotated(manifest: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    """`manifest` with `# source` behind each value that has one; still the same YAML."""
    text = yamlfile.dump(manifest, width=yamlfile.UNFOLDED)  # a comment cannot stand within a folded text
    comments = dict(_comments(text, sources))
    lines = text.split("\n")
    column = min(_COLUMN, max((len(lines[number]) for number in comments), default=0))
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{column}}  # {comment}"
    return "\n".join(lines)


def _comments(text: str, sources: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Line → comment."""
    from ruamel.yaml import YAML

    root = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    stack: list[tuple[str, Any]] = [("", root)]
    while stack:
        pointer, node = stack.pop()
        source = sources.get(pointer)
        if source is not None:
            yield node.start_mark.line, source
        elif isinstance(node.value, list):
            for number, item in enumerate(node.value):
                key, value = (item[0].value, item[1]) if isinstance(item, tuple) else (str(number), item)
                stack.append((f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}", value))
