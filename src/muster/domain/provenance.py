"""Where each value of a rendered object came from. Only previews ask; a launch does not pay for it.

A source is a few words: `queue v3`, `variable gpus`, `macro run_id`, `override`, `launch`, `job`,
`injected`; several of them, `queue v3, macro run_id`, where a text was put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.domain.path import Location
from muster.domain.template import Tree, sources_in

INJECTED = "injected"
LAUNCH = "launch"
OVERRIDE = "override"


@dataclass(frozen=True, kw_only=True)
class Origins:
    """Where the parts of one run came from."""

    config: Mapping[Location, str] = field(default_factory=dict)  #: each leaf of the bound config
    queue: str = "queue"
    image: str = LAUNCH
    command: str = LAUNCH
    inputs: str = LAUNCH
    env: Mapping[str, str] = field(default_factory=dict)  #: name → source, where it is not the launch

    def of_env(self, name: str) -> str:
        return self.env.get(name, LAUNCH)

    def below(self, *location: str | int) -> str:
        """The source of a value that was made from this one, or from all below it."""
        found = (source for place, source in self.config.items() if place[: len(location)] == location)
        return ", ".join(dict.fromkeys(found)) or INJECTED


def config_sources(
    template: Tree, bound: Tree, overridden: Iterable[Location], *, queue: str
) -> dict[Location, str]:
    """For each leaf of a bound config: the queue, its variables and macros, or an override."""
    places = tuple(overridden)
    texts = {place: value for place, value in leaves(template) if isinstance(value, str)}
    return {
        place: OVERRIDE
        if any(place[: len(over)] == over for over in places)
        else _text_source(texts[place], queue)
        if place in texts
        else queue
        for place, _ in leaves(bound)
    }


def _text_source(text: str, queue: str) -> str:
    variables, macros, own = sources_in(text)
    words = [f"variable {name}" for name in variables] + [f"macro {name}" for name in macros]
    return ", ".join([queue, *words] if own or not words else words)


def leaves(tree: Tree, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every scalar with its place, and every mapping or list that is empty."""
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from leaves(value, (*at, key))
    elif isinstance(tree, list) and tree:
        for place, value in enumerate(tree):
            yield from leaves(value, (*at, place))
    else:
        yield at, tree


def pointer(location: Location) -> str:
    """The place as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)
