"""Runs side by side: only what is not the same in all of them is worth a column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from muster.domain.inputs import flattened


def differences(configs: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The dotted names whose values differ, in the order they appear; and of each run, its own values."""
    flat = [dict(flattened(config)) for config in configs]
    names = list(dict.fromkeys(name for config in flat for name in config))
    differing = [name for name in names if len({_key(config, name) for config in flat}) > 1]
    return differing, [{name: config[name] for name in differing if name in config} for config in flat]


def _key(config: Mapping[str, Any], name: str) -> str | None:
    """Equal for equal values; None for none. As JSON, so that 1 and true are two things."""
    return json.dumps(config[name], sort_keys=True) if name in config else None
