"""Muster launches machine-learning jobs.

::

    import muster

    run = muster.launch(".", command="train.py --epochs 3", training={"nodes": 2, "procs_per_node": 2})
    for line in run.logs(follow=True):
        print(line)
    assert run.wait() == "succeeded"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster._version import __version__

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.client.group import AsyncGroup, Group, launch_grid
    from muster.client.sdk import AsyncRun, Run, launch
    from muster.client.sync import Client
    from muster.domain.errors import MusterError
    from muster.domain.training import Training

__all__ = [
    "AsyncClient",
    "AsyncGroup",
    "AsyncRun",
    "Client",
    "Group",
    "MusterError",
    "Run",
    "Training",
    "__version__",
    "launch",
    "launch_grid",
]

_HOMES = {
    "AsyncClient": "muster.client.api",
    "AsyncGroup": "muster.client.group",
    "AsyncRun": "muster.client.sdk",
    "Client": "muster.client.sync",
    "Group": "muster.client.group",
    "MusterError": "muster.domain.errors",
    "Run": "muster.client.sdk",
    "Training": "muster.domain.training",
    "launch": "muster.client.sdk",
    "launch_grid": "muster.client.group",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: importing `muster` costs next to nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
