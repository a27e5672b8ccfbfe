"""`muster run compare`: what differs between runs, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.options import Group, Json, SomeRuns
from muster.cli.output import connect, show_json, show_table
from muster.cli.pick import pick_runs
from muster.cli.table import Cell, column
from muster.cli.usage import BadUsage
from muster.cli.words import state, took
from muster.domain.compare import differences
from muster.domain.inputrule import shown

if TYPE_CHECKING:
    from muster.client.sync import Client
    from muster.wire.runs import RunModel

PAGE = 1000


def compare(
    runs: SomeRuns = None,
    group: Group = None,
    all_inputs: Annotated[bool, typer.Option("--all-inputs", help="Also inputs that are the same.")] = False,
    json: Json = False,
) -> None:
    """Show runs side by side: the inputs that differ, the state, how long it took, why it failed."""
    with connect() as client:
        found = runs_meant(client, runs, group)
    configs = [_asked(run) for run in found]
    names, own = differences([*configs, {}] if all_inputs else configs)
    if json:
        items = [_told(run, values) for run, values in zip(found, own, strict=False)]
        show_json({"items": items, "next": None, "inputs": names})
        return
    columns = (
        column("NAME", least=12),
        column("STATE"),
        column("TOOK"),
        *(column(name, least=max(6, len(name))) for name in names),
        column("FAILURE", least=12, spare=1),
    )
    rows = [_row(run, names, values) for run, values in zip(found, own, strict=False)]
    show_table(columns, rows, empty="No runs here.")


def runs_meant(client: Client, words: Sequence[str] | None, group: str | None) -> list[RunModel]:
    """Those named, in that order; or those of a group, in the order they were launched."""
    if bool(words) == bool(group):
        raise BadUsage("Say which runs.", hint="Name them, or give their group: --group ID")
    if words:
        return pick_runs(client, words)
    return of_group(client, group or "")


def of_group(client: Client, group: str) -> list[RunModel]:
    client.get_group(group)  # one that is not there is refused by its name
    found: list[RunModel] = []
    following: str | None = None
    while True:
        page = client.list_runs(group=group, limit=PAGE, cursor=following)
        found += page.items
        following = page.next
        if following is None:
            return found[::-1]


def _asked(run: RunModel) -> dict[str, Any]:
    """All that may have been asked for differently."""
    more = {"queue": run.queue, "command": " ".join(_words(run))}
    return {**run.config, **{f"set {name}": value for name, value in run.values.items()}, **more}


def _words(run: RunModel) -> Sequence[str]:
    """Without what was made of inputs: those are told by name."""
    return run.command[: len(run.command) - len(run.input_arguments)]


def _row(run: RunModel, names: Sequence[str], values: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        run.name,
        state(run.state),
        took(run.started_at, run.ended_at),
        *(shown(values[name]) if name in values else "–" for name in names),
        run.failure.summary if run.failure else "",
    )


def _told(run: RunModel, values: dict[str, Any]) -> dict[str, Any]:
    began, ended = run.started_at, run.ended_at
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state.value,
        "seconds": (ended - began).total_seconds() if began and ended else None,
        "failure": run.failure.model_dump() if run.failure else None,
        "inputs": values,
    }
