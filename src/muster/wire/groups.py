"""Groups of runs as they cross HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from muster.domain.run import RunState
from muster.wire.base import Asked, Page, Told
from muster.wire.runs import LaunchRequest, RunModel


class GridRequest(Asked):
    """One launch for each combination of the values."""

    launch: LaunchRequest = Field(description="What all of them have in common.")
    grid: dict[str, list[Any]] = Field(
        description="Dotted name of an input → the values it takes: {optimizer.lr: [0.1, 0.01]}.",
        min_length=1,
    )


class GroupRuns(Page[RunModel]):
    """The runs of a group that was just launched, in the order of the grid."""

    id: str = Field(description="Of the group.")


class GroupModel(Told):
    """Runs that were launched together, as they stand."""

    id: str
    entity: str
    project: str
    queue: str
    author: str
    created_at: datetime
    total: int
    ended: bool = Field(description="All of them.")
    states: dict[RunState, int] = Field(description="How many runs are in each state.")
    version: int = Field(description="Changes with every event of the runs.")


class StoppedGroup(Told):
    group: GroupModel
    asked: int = Field(description="Runs that this asked to stop; the others had ended or were asked before.")
