"""One run, for people: what it is, how it stands, why."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from muster.cli.output import show, show_facts
from muster.cli.words import ago, count, moment, state, took, visible, written
from muster.domain.resources import format_cpus, readable_bytes

if TYPE_CHECKING:
    from datetime import datetime

    from muster.wire.runs import ExplanationModel, GitModel, RunModel, TrainingModel

EVIDENCE_LINES = 30


def show_run(run: RunModel, *, newest: int | None = None) -> None:
    """`newest`: the version its queue has now, where that is of interest."""
    show(Text(run.name, style="bold"), f"  {run.id}")
    show_facts(
        [
            ("state", _standing(run)),
            ("why", visible(run.failure.summary) if run.failure else ""),
            ("queue", _queue(run, newest)),
            ("project", f"{run.entity}/{run.project}"),
            ("author", run.author),
            ("group", run.group or ""),
            ("command", shlex.join(run.command)),
            ("image", run.image or ""),
            ("code", run.snapshot[:12] if run.snapshot else repository(run.git)),
            ("job", f"{run.job.name}:v{run.job.version}" if run.job else ""),
            ("rerun of", run.rerun_of or ""),
            ("changed", _changes(run)),
            ("shape", shape_of(run.training)),
            ("asks for", _resources(run)),
            ("values", pairs_of(run.values)),
            ("overrides", pairs_of(run.overrides)),
            ("starts in", visible(run.workdir or "")),
            ("volumes", visible(" ".join(run.volumes))),
            ("config", pairs_of(run.config)),
            ("merged into", ", ".join(run.managed_files)),
            ("env", pairs_of(run.env)),
            ("priority", run.priority.value if run.priority.value != "medium" else ""),
            ("attempt", str(run.attempt) if run.attempt > 1 else ""),
            ("created", _when(run.created_at)),
            ("started", _when(run.started_at)),
            ("ended", _when(run.ended_at)),
        ]
    )


def show_explanation(
    why: ExplanationModel, standing: Text | None = None, *, say: Callable[..., None] = show
) -> None:
    """The sentence, what it rests on, what to do."""
    if standing is not None:
        say(standing, "  ", why.summary)
    else:
        say(why.summary)
    for detail in why.details:
        say("  ", detail)
    for title, runs in (("ahead of it", why.ahead), ("holding what it needs", why.holding)):
        if runs:
            names = ", ".join(f"{run.name} ({run.author}, {run.state})" for run in runs[:5])
            say("  ", Text(f"{title}: ", style="dim"), names)
    if why.eta is not None:
        say("  ", Text("likely start: ", style="dim"), f"{moment(why.eta)}, as the last runs went")
    if why.failure and why.failure.evidence:
        lines = why.failure.evidence.rstrip("\n").split("\n")
        for line in lines[-EVIDENCE_LINES:]:
            say(Text("  │ ", style="dim"), line)
    if why.advice:
        say(Text("→ ", style="dim"), why.advice)


def _queue(run: RunModel, newest: int | None) -> str:
    newer = f"; the newest is {newest}" if newest not in (None, run.queue_version) else ""
    return f"{run.queue} (version {run.queue_version}{newer})"


def repository(git: GitModel | None) -> str:
    """`https://host/code.git, folder x, main (0a1b2c3d4e5f)`"""
    if git is None:
        return ""
    at = git.commit[:12] if git.commit else ""
    ref = git.ref or "the default branch"
    folder = f", folder {git.folder}" if git.folder else ""
    return visible(f"{git.url}{folder}, {ref}{f' ({at})' if at and at != ref[:12] else ''}")


def _changes(run: RunModel) -> str:
    """What is not as in its job, or in the run it was launched from."""
    return visible(
        "\n".join(f"{item.what}: {_value(item.before)} → {_value(item.after)}" for item in run.overridden)
    )


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return shlex.join(map(written, value)) or "none" if isinstance(value, list) else written(value)


def _standing(run: RunModel) -> Text:
    text = state(run.state)
    length = took(run.started_at, run.ended_at)
    if length:
        text.append(f" {'after' if run.state.terminal else 'for'} {length}", style="default")
    return text


def shape_of(training: TrainingModel | None) -> str:
    if training is None:
        return ""
    procs = training.procs_per_node
    each = "one process a GPU" if procs == "gpu" else "1 process" if procs == 1 else f"{procs} processes"
    restarts = f", {count(training.max_restarts, 'restart')}" if training.max_restarts else ""
    return f"{count(training.nodes, 'node')}, {each} each, launcher {training.launcher}{restarts}"


def _resources(run: RunModel) -> str:
    asked = run.resources
    parts = []
    if asked.gpus:
        parts.append(count(asked.gpus, "GPU"))
    if asked.millicpus:
        cpus = format_cpus(asked.millicpus)
        parts.append("1 CPU" if cpus == "1" else f"{cpus} CPUs")
    if asked.memory:
        parts.append(readable_bytes(asked.memory))
    return ", ".join(parts)


def pairs_of(values: Mapping[str, Any]) -> str:
    return visible(" ".join(f"{name}={written(value)}" for name, value in values.items()))


def _when(at: datetime | None) -> str:
    return f"{moment(at)}  ({ago(at)})" if at else ""
