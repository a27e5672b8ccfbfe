"""Where each value of a rendered object came from. Only previews ask; a launch does not pay for it.

A source is a few words: `queue v3`, `variable gpus`, `macro run_id`, `override`, `launch`, `job`,
`injected`; several of them, `queue v3, macro run_id`, where a text was put together. A tree of sources has
the shape of what it is about, with a source in place of each leaf: a scalar, or an empty mapping or list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from muster.domain.path import Location, at, with_value
from muster.domain.template import Tree, sources_in

Sources: TypeAlias = Any  #: a tree of sources

INJECTED = "injected"
LAUNCH = "launch"
JOB = "job"  #: the recorded version that is launched
OVERRIDE = "override"


@dataclass(frozen=True, kw_only=True)
class Origins:
    """Where the parts of one run came from."""

    config: Sources = INJECTED  #: of the bound config
    image: str = LAUNCH
    command: Sequence[str] = ()  #: of each of its words; those behind these are made of inputs
    inputs: str = LAUNCH
    training: str = LAUNCH
    env: Mapping[str, str] = field(default_factory=dict)  #: name → source, where it is not the launch

    def of_word(self, place: int) -> str:
        """Of a word of the command."""
        return self.command[place] if place < len(self.command) else self.inputs

    def of_env(self, name: str) -> str:
        return self.env.get(name, LAUNCH)

    def of_config(self, *location: str) -> str:
        """Of a value that was made from this part of the config."""
        found = at(self.config, location)
        return INJECTED if found is None else ", ".join(dict.fromkeys(_leaves(found)))


def config_sources(
    template: Tree, bound: Tree, changed: Iterable[tuple[Location, str]], *, queue: str
) -> Sources:
    """Of a bound config: the queue, its variables and macros, or what changed it."""
    found = _template_sources(template, queue)
    for place, source in changed:
        found = with_value(found, place, uniform(at(bound, place), source))
    return found


def uniform(tree: Tree, source: str) -> Sources:
    """One source for all of this."""
    if isinstance(tree, dict) and tree:
        return {key: uniform(value, source) for key, value in tree.items()}
    if isinstance(tree, list) and tree:
        return [uniform(value, source) for value in tree]
    return source


def pointers(sources: Sources, prefix: str = "") -> dict[str, str]:
    """JSON pointer (RFC 6901) of each leaf → its source."""
    found: dict[str, str] = {}
    _add_pointers(found, sources, prefix)
    return found


def _add_pointers(found: dict[str, str], sources: Sources, prefix: str) -> None:
    if isinstance(sources, dict):
        for key, value in sources.items():
            _add_pointers(found, value, f"{prefix}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(sources, list):
        for place, value in enumerate(sources):
            _add_pointers(found, value, f"{prefix}/{place}")
    else:
        found[prefix] = sources


def _template_sources(tree: Tree, queue: str) -> Sources:
    if isinstance(tree, str):
        return _text_source(tree, queue) if "{{" in tree or "${" in tree else queue
    if isinstance(tree, dict) and tree:
        return {key: _template_sources(value, queue) for key, value in tree.items()}
    if isinstance(tree, list) and tree:
        return [_template_sources(value, queue) for value in tree]
    return queue


@lru_cache(maxsize=4096)  # a preview is made again with every keystroke
def _text_source(text: str, queue: str) -> str:
    variables, macros, own = sources_in(text)
    words = [f"variable {name}" for name in variables] + [f"macro {name}" for name in macros]
    return ", ".join([queue, *words] if own or not words else words)


def _leaves(sources: Sources) -> Iterator[str]:
    if isinstance(sources, dict | list):
        for value in sources.values() if isinstance(sources, dict) else sources:
            yield from _leaves(value)
    else:
        yield sources
