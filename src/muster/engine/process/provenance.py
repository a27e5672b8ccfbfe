"""Where the values of a process manifest came from, for a preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.domain.provenance import INJECTED, Origins, Sources, uniform
from muster.engine.port import Rendered, Work
from muster.engine.process.render import last_word_on, render


def trace(work: Work, origins: Origins) -> tuple[Rendered, Sources]:
    """What `render` gives, and the source of each of its values."""
    rendered = render(work)
    manifest = rendered.manifest
    return rendered, {
        **uniform(dict(manifest), INJECTED),
        "stop_grace": origins.of_config("stop_grace"),
        "python": origins.of_config("python"),
        "replicas": [_replica(replica, work, origins) for replica in manifest["replicas"]],
    }


def _replica(replica: Mapping[str, Any], work: Work, origins: Origins) -> Sources:
    command = replica["command"]
    added = len(command) - len(work.command)  # a launcher or an interpreter before the launch's own words
    return {
        "rank": INJECTED,
        "command": [
            INJECTED if place < added else origins.of_word(place - added) for place in range(len(command))
        ],
        "env": {name: _env_source(name, work, origins) for name in replica["env"]},
        "workdir": origins.of_config("workdir"),
        "resources": {key: origins.of_config("resources", key) for key in replica["resources"]},
    }


def _env_source(name: str, work: Work, origins: Origins) -> str:
    if name == "MUSTER_CONFIG" and work.inputs:
        return origins.inputs
    if last_word_on(name, work):
        return INJECTED
    return origins.of_env(name) if name in work.env else origins.of_config("env", name)
