"""Where the values of a process manifest came from, for a preview."""

from __future__ import annotations

from muster.domain.path import Location
from muster.domain.provenance import INJECTED, Origins, leaves, pointer
from muster.engine.port import Rendered, Work
from muster.engine.process.render import last_word_on, render


def trace(work: Work, origins: Origins) -> tuple[Rendered, dict[str, str]]:
    """What `render` gives, and the source of each of its values."""
    rendered = render(work)
    added = len(rendered.manifest["replicas"][0]["command"]) - len(work.command)
    found = {}
    for place, _ in leaves(rendered.manifest):
        found[pointer(place)] = _source(place, work, origins, added=added)
    return rendered, found


def _source(place: Location, work: Work, origins: Origins, *, added: int) -> str:
    """`added`: words that come before the launch's own in the command."""
    match place:
        case ("stop_grace" | "python" as key,) | ("replicas", _, "workdir" as key):
            return origins.below(key)
        case ("replicas", _, "resources", str(key)):
            return origins.below("resources", key)
        case ("replicas", _, "command", int(number)):
            return origins.command if number >= added else INJECTED
        case ("replicas", _, "env", str(name)):
            return _env_source(name, work, origins)
        case _:
            return INJECTED


def _env_source(name: str, work: Work, origins: Origins) -> str:
    if name == "MUSTER_CONFIG" and work.inputs:
        return origins.inputs
    if last_word_on(name, work):
        return INJECTED
    if name in work.env:
        return origins.of_env(name)
    return origins.below("env", name)
