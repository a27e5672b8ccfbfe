"""`muster run`: look at runs, follow them, explain them, stop them, delete them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.compare import compare, runs_meant
from muster.cli.complete import job_names, queue_names, run_orders
from muster.cli.line import move
from muster.cli.main import FAILED
from muster.cli.options import Entity, Group, Json, ManyRuns, OneRun, SomeRuns, Yes
from muster.cli.output import (
    confirm,
    connect,
    hint,
    say,
    show,
    show_json,
    show_json_items,
    show_table,
)
from muster.cli.pick import pick_run, pick_runs
from muster.cli.rerun import RerunCommand, rerun
from muster.cli.table import Cell, column
from muster.cli.usage import BadUsage
from muster.cli.words import ago, count, state, took
from muster.domain.run import RunState
from muster.domain.runorder import NEWEST, RunKey, RunOrder

if TYPE_CHECKING:
    from muster.client.sync import Client
    from muster.wire.runs import RunModel

app = typer.Typer(
    help="Look at runs, follow, explain, stop and delete them.", no_args_is_help=True, add_completion=False
)

Attempt = Annotated[int | None, typer.Option(min=1, metavar="N", help="Attempt; by default the newest.")]
Rank = Annotated[int | None, typer.Option(min=0, metavar="N", help="One replica only.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")]

PAGE = 1000  #: runs in one answer, at most
COLUMNS = (
    column("ID"),
    column("NAME", least=20),
    column("STATE"),
    column("QUEUE", least=6, spare=1),
    column("PROJECT", least=8, spare=4),
    column("AUTHOR", least=6, spare=3),
    column("CREATED"),
    column("TOOK", spare=2),
)


@app.command("list")
def list_runs(
    states: Annotated[
        list[RunState] | None, typer.Option("--state", help="In this state only. Repeat.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", metavar="QUEUE", help="Of this queue.", autocompletion=queue_names),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", metavar="PROJECT", help="Of this project.")
    ] = None,
    entity: Entity = None,
    author: Annotated[str | None, typer.Option(metavar="USER", help="Launched by this user.")] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", "-j", metavar="NAME[:ALIAS]", help="Of this job.", autocompletion=job_names),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Launched by you.")] = False,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="In the name, or at the start of the id.")
    ] = None,
    group: Annotated[str | None, typer.Option(metavar="ID", help="Of this group (of a grid).")] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="[-]COLUMN",
            help=f"By {', '.join(RunKey)}; with a -, the greatest first.",
            autocompletion=run_orders,
        ),
    ] = str(NEWEST),
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    json: Json = False,
) -> None:
    """List runs, newest first."""
    RunOrder.parse(sort)
    if mine and author:
        raise BadUsage("--mine and --author say different things.", hint="Give one of them.")
    with connect() as client:
        found: list[RunModel] = []
        following: str | None = None
        who = client.get_me().name if mine else author
        while everything or len(found) < limit:
            page = client.list_runs(
                entity=entity or client.settings.entity,
                project=project,
                queue=queue,
                author=who,
                job=_in_project(job, client.settings.project),
                state=states,
                text=text,
                group=group,
                sort=sort,
                limit=PAGE if everything else min(PAGE, limit - len(found)),
                cursor=following,
            )
            found += page.items
            following = page.next
            if following is None:
                break
    if json:
        show_json_items(found, following)
        return
    show_table(COLUMNS, [_row(run) for run in found], empty="No runs here.")
    if following is not None:
        which = "newest" if sort == str(NEWEST) else "first"
        hint(f"These are the {which} {len(found)}; --all shows all of them.")


def _in_project(job: str | None, project: str | None) -> str | None:
    """The job as it is meant where a project is set."""
    return f"{project}/{job}" if job and project and "/" not in job else job


def _row(run: RunModel) -> tuple[Cell, ...]:
    return (
        run.id,
        run.name,
        state(run.state),
        run.queue,
        run.project,
        run.author,
        ago(run.created_at),
        took(run.started_at, run.ended_at),
    )


app.command("rerun", cls=RerunCommand)(rerun)
app.command("move", no_args_is_help=True)(move)


@app.command("show")
def show_one(run: OneRun, json: Json = False) -> None:
    """Show one run: what it is, and how it stands."""
    from muster.cli.describe import show_run

    with connect() as client:
        found = pick_run(client, run)
        if json:
            show_json(found)
            return
        queue = None if found.state.terminal else client.get_queue(found.queue, entity=found.entity)
    show_run(found, newest=queue.version if queue else None)


@app.command()
def logs(
    run: OneRun,
    follow: Follow = False,
    rank: Rank = None,
    attempt: Attempt = None,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="The last N lines of each replica.")
    ] = None,
    json: Json = False,
) -> None:
    """Print what a run printed."""
    from muster.cli import logs as log_reader

    with connect() as client:
        found = pick_run(client, run)
        options = log_reader.Wanted(rank=rank, attempt=attempt, tail=tail)
        if follow:
            client.wait(log_reader.follow(client.asynchronous, found, options, json=json))
        else:
            client.wait(log_reader.read(client.asynchronous, found, options, json=json))


@app.command()
def events(run: OneRun, follow: Follow = False, json: Json = False) -> None:
    """Print what happened to a run, in order. With --follow --json, one JSON document a line."""
    from muster.cli import events as sentences

    with connect() as client:
        found = pick_run(client, run)
        client.wait(sentences.show_events(client.asynchronous, found, follow=follow, json=json))


@app.command()
def why(run: OneRun, json: Json = False) -> None:
    """Say why a run waits, or why it ended as it did."""
    from muster.cli.describe import show_explanation

    with connect() as client:
        found = pick_run(client, run)
        explanation = client.explain_run(found.id)
    if json:
        show_json(explanation)
    else:
        show_explanation(explanation, state(found.state))


app.command("compare")(compare)


@app.command()
def stop(
    runs: SomeRuns = None,
    group: Group = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when they have ended.")] = False,
    json: Json = False,
) -> None:
    """Stop runs. What they have printed and kept stays."""
    if group is not None and not runs:
        _stop_group(group, wait=wait, json=json)
        return
    with connect() as client:
        meant = runs_meant(client, runs, group)
        stopped = [client.stop_run(run.id) for run in meant]
        if wait:
            stopped = [_until_ended(client, run) for run in stopped]
    if json:
        show_json_items(stopped)
        return
    for before, run in zip(meant, stopped, strict=True):
        more = "  had ended already" if before.state.terminal else ""
        show(state(run.state), f"  {run.name}  {run.id}{more}")


def _stop_group(group: str, *, wait: bool, json: bool) -> None:
    from muster.cli.grid import follow_group, summary

    with connect() as client:
        done = client.stop_group(group)
        if wait:
            now = client.wait(follow_group(client.asynchronous, group))
            done = done.model_copy(update={"group": now})
    if json:
        show_json(done)
        return
    show(f"Asked {count(done.asked, 'run')} of {done.group.total} to stop: ", summary(done.group))


@app.command()
def delete(runs: ManyRuns, yes: Yes = False, json: Json = False) -> None:
    """Delete runs that have ended, with all that is kept of them."""
    with connect() as client:
        meant = pick_runs(client, runs)
        names = ", ".join(run.name for run in meant[:5]) + (" …" if len(meant) > 5 else "")
        confirm(f"Delete {names}? Logs, events, usage and manifests are lost.", yes=yes)
        for run in meant:
            client.delete_run(run.id)
    if json:
        show_json_items(meant)
    else:
        show(f"Deleted {count(len(meant), 'run')}.")


@app.command()
def replicas(run: OneRun, attempt: Attempt = None, json: Json = False) -> None:
    """List the members of a run."""
    with connect() as client:
        page = client.list_replicas(pick_run(client, run).id, attempt=attempt)
    if json:
        show_json(page)
        return
    columns = (
        column("RANK", right=True),
        column("STATE"),
        column("NODE", least=8),
        column("HANDLE", least=6, spare=3),
        column("GPUS", least=6, spare=2),
        column("EXIT", right=True),
        column("STARTED", spare=1),
        column("TOOK"),
        column("REASON", least=10, spare=4),
    )
    rows = [
        (
            item.rank,
            state(item.state),
            item.node,
            item.handle,
            ",".join(item.devices),
            item.exit_code if item.signal is None else f"signal {item.signal}",
            ago(item.started_at),
            took(item.started_at, item.ended_at),
            item.reason,
        )
        for item in page.items
    ]
    show_table(columns, rows, empty="No agent has started it yet.")


@app.command()
def manifest(run: OneRun, attempt: Attempt = None, json: Json = False) -> None:
    """Print what was given to the engine, as YAML."""
    from muster.cli import yamlfile

    with connect() as client:
        found = client.get_manifest(pick_run(client, run).id, attempt=attempt)
    if json:
        show_json(found)
        return
    sys.stdout.write(yamlfile.dump(found.manifest))
    if not found.submitted:
        say("No agent has submitted it yet; this is what it would be.")


@app.command()
def usage(run: OneRun, attempt: Attempt = None, json: Json = False) -> None:
    """Show what each replica of a run used: CPU, memory, GPU, disk."""
    from muster.cli.used import show_used

    with connect() as client:
        page = client.get_usage(pick_run(client, run).id, attempt=attempt)
    if json:
        show_json(page)
        return
    show_used(page.items)


@app.command()
def wait(
    run: OneRun,
    timeout: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Give up after so long.")
    ] = None,
    json: Json = False,
) -> None:
    """Wait until a run has ended. Exits with 0 if it succeeded, else with 1."""
    with connect() as client:
        ended = _until_ended(client, pick_run(client, run), timeout)
    if json:
        show_json(ended)
    elif ended.state.terminal:
        show(state(ended.state), f"  {ended.name}  after {took(ended.created_at, ended.ended_at)}")
    else:
        say(state(ended.state), f"  {ended.name} has not ended after {timeout:g} s.")
    if ended.state is not RunState.SUCCEEDED:
        raise typer.Exit(FAILED)


def _until_ended(client: Client, run: RunModel, timeout: float | None = None) -> RunModel:
    from muster.cli.news import until_ended

    return client.wait(until_ended(client.asynchronous, run, timeout=timeout))
