"""`muster agent`: an agent alone, and the list of those there are."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster._start import begin, settle
from muster.cli.agentaccess import check, role, warn_of_missing
from muster.cli.agentconfig import ConfigFile, connect_cluster, read_config
from muster.cli.options import Entity, Json
from muster.cli.output import connect, say, show, show_facts, show_json, show_table
from muster.cli.table import Cell, column
from muster.cli.words import ago, state

if TYPE_CHECKING:
    from muster.agent.config import AgentConfig
    from muster.agent.driver import Render
    from muster.engine.port import Engine
    from muster.wire.agents import AgentModel

app = typer.Typer(help="Start an agent, or list the agents.", invoke_without_command=True)

OneAgent = Annotated[str, typer.Argument(metavar="NAME", help="Name of the agent.")]


@app.callback()
def agent(
    ctx: typer.Context,
    config: ConfigFile = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="NAME", help="Queue to serve. Repeat.")
    ] = None,
    entity: Entity = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of this agent. Default: the host's.")
    ] = None,
    max_jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Runs at once; 0: what fits.", min=0)
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where runs' files are kept.")
    ] = None,
    stop_runs: Annotated[bool, typer.Option("--stop-runs", help="Stop what runs when this stops.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more in the log.")] = False,
) -> None:
    """Start an agent that takes runs from queues and starts them on this machine.

    Ctrl-C stops the agent; what it started goes on and is found again by the next one.
    """
    if ctx.invoked_subcommand is not None:
        return
    begin()
    settings = read_config(config, data_dir)
    if settings.passed_over:
        say(f"Passed over, as they say nothing to this agent: {', '.join(settings.passed_over)}.")
    settings = replace(
        settings,
        queues=tuple(queue) if queue else settings.queues,
        entity=entity or settings.entity,
        name=name or settings.name,
        max_jobs=settings.max_jobs if max_jobs is None else max_jobs,
    )
    asyncio.run(_run(settings, stop_runs=stop_runs, verbose=verbose))


async def _run(settings: AgentConfig, *, stop_runs: bool, verbose: bool) -> None:
    from muster.agent.agent import Agent
    from muster.cli.companion import say_ready
    from muster.client.api import AsyncClient
    from muster.logging import configure_logging

    configure_logging(verbose=verbose)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    engine, render = await _engine(settings)
    async with AsyncClient(settings.url) as client:

        def ready(me: AgentModel) -> None:
            settle()
            if not say_ready():
                say(f"Agent {me.name!r} serves {', '.join(me.queues)} at {client.url}")

        await Agent(settings, client, engine, render).run(stop, stop_runs=stop_runs, on_ready=ready)


async def _engine(settings: AgentConfig) -> tuple[Engine, Render]:
    if settings.engine == "process":
        from muster.engine.process.engine import ProcessEngine
        from muster.engine.process.render import render as render_process

        return ProcessEngine(settings.data_dir / "process"), render_process
    connection = connect_cluster(settings)
    from muster.engine.kubernetes.access import kind_named
    from muster.engine.kubernetes.engine import KubernetesEngine
    from muster.engine.kubernetes.render import render as render_kubernetes

    await warn_of_missing(connection, settings.kubernetes)
    engine = KubernetesEngine(
        connection,
        settings.data_dir / "kubernetes",
        agent=settings.name,
        kinds=[kind_named(text) for text in settings.kubernetes.kinds],
    )
    return engine, render_kubernetes


app.command("role")(role)
app.command("check")(check)


@app.command("list")
def list_agents(entity: Entity = None, json: Json = False) -> None:
    """List the agents, online or not."""
    with connect() as client:
        page = client.list_agents(entity=entity or client.settings.entity)
    if json:
        show_json(page)
        return
    columns = (
        column("NAME", least=10),
        column("ENTITY", least=8, spare=2),
        column("HOST", least=8, spare=1),
        column("QUEUES", least=8),
        column("RUNNING", right=True),
        column("FREE", least=10),
        column("SEEN"),
    )
    rows = [
        (
            agent.name,
            agent.entity,
            agent.host,
            ", ".join(agent.queues),
            f"{agent.running}/{agent.max_jobs}",
            _room(agent) if agent.online else "",
            "paused" if agent.online and agent.paused_at else _seen(agent),
        )
        for agent in page.items
    ]
    show_table(columns, rows, empty="There is no agent yet. Start one: muster agent --queue local")


def _seen(agent: AgentModel) -> str:
    return "online" if agent.online else ago(agent.seen_at)


def _room(agent: AgentModel) -> str:
    from muster.domain.resources import UNBOUNDED, format_cpus, readable_bytes

    if agent.total.to_domain() == UNBOUNDED:
        return "placed by the cluster"
    free = agent.free or agent.total
    gpus = f"{free.gpus} of {agent.total.gpus} GPUs, " if agent.total.gpus else ""
    cpus = f"{format_cpus(free.millicpus)} of {format_cpus(agent.total.millicpus)} CPUs"
    return f"{gpus}{cpus}, {readable_bytes(free.memory)}"


@app.command("show", no_args_is_help=True)
def show_agent(name: OneAgent, entity: Entity = None, json: Json = False) -> None:
    """Show an agent: what it has, and what it runs."""
    with connect() as client:
        found = client.get_agent(name, entity=entity or client.settings.entity)
    if json:
        show_json(found)
        return
    one = found.agent
    show_facts(
        [
            ("agent", f"{one.entity}/{one.name}"),
            ("state", f"{_seen(one)}{', paused' if one.paused_at else ''}"),
            ("host", one.host),
            ("engine", one.engine),
            ("queues", ", ".join(one.queues)),
            ("runs", f"{one.running} of {one.max_jobs}"),
            ("free", _room(one) if one.online else ""),
            ("version", one.version),
        ]
    )
    show()
    columns = (column("RUN"), column("NAME", least=12), column("STATE"), column("QUEUE"), column("AUTHOR"))
    rows: list[tuple[Cell, ...]] = [
        (run.id, run.name, state(run.state), run.queue, run.author) for run in found.runs
    ]
    show_table(columns, rows, empty="It runs nothing.")


@app.command("pause", no_args_is_help=True)
def pause_agent(name: OneAgent, entity: Entity = None, json: Json = False) -> None:
    """Give an agent no more runs, also when it is started again. What it runs goes on."""
    with connect() as client:
        paused = client.pause_agent(name, entity=entity or client.settings.entity)
    if json:
        show_json(paused)
    else:
        say(f"Agent {name!r} is given no more runs.")


@app.command("resume", no_args_is_help=True)
def resume_agent(name: OneAgent, entity: Entity = None, json: Json = False) -> None:
    """Give an agent runs again."""
    with connect() as client:
        resumed = client.resume_agent(name, entity=entity or client.settings.entity)
    if json:
        show_json(resumed)
    else:
        say(f"Agent {name!r} is given runs again.")


@app.command("nodes")
def list_nodes(entity: Entity = None, json: Json = False) -> None:
    """List the nodes of the clusters, and what is free there.

    Agents tell it that may look at nodes: muster agent role --with-nodes
    """
    from muster.domain.resources import format_cpus, readable_bytes

    with connect() as client:
        page = client.list_clusters(entity=entity or client.settings.entity)
    if json:
        show_json(page)
        return
    columns = (
        column("NODE", least=10),
        column("CLUSTER"),
        column("GPUS FREE"),
        column("CPUS FREE"),
        column("MEMORY FREE"),
        column("PODS", right=True),
        column("SEEN"),
    )
    seen: set[tuple[str, str]] = set()  # several agents may see one cluster
    rows = []
    for cluster in sorted(page.items, key=lambda one: one.at, reverse=True):
        for node in cluster.nodes or ():
            if (cluster.cluster, node.name) in seen:
                continue
            seen.add((cluster.cluster, node.name))
            free, total = node.free, node.total
            rows.append(
                (
                    f"{node.name} ({node.closed})" if node.closed else node.name,
                    cluster.host,
                    f"{free.gpus} of {total.gpus}",
                    f"{format_cpus(free.millicpus)} of {format_cpus(total.millicpus)}",
                    f"{readable_bytes(free.memory)} of {readable_bytes(total.memory)}",
                    str(node.pods),
                    ago(cluster.at),
                )
            )
    show_table(columns, rows, empty="No agent tells of nodes. Those on Kubernetes do that may look at them.")


@app.command("delete", no_args_is_help=True)
def delete_agent(name: OneAgent, entity: Entity = None, json: Json = False) -> None:
    """Remove an agent that is gone for good."""
    with connect() as client:
        client.delete_agent(name, entity=entity or client.settings.entity)
    if json:
        show_json({"name": name})
    else:
        say(f"Agent {name!r} is removed.")
