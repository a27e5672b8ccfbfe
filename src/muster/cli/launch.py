"""`muster launch`: a folder of code, a command, and where to run it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.command import Command
from muster.cli.complete import queue_names
from muster.cli.options import Json
from muster.cli.order import Order, Shape, Source
from muster.cli.usage import BadUsage
from muster.domain.run import Priority
from muster.domain.training import Launcher

app = typer.Typer(add_completion=False)

WHAT, WHERE, ASKS, SHAPE = "What", "Where", "Values and inputs", "Several processes or nodes"
_BEHIND = "Put the program and its options behind `--`: muster launch . -- train.py --epochs 3"


class LaunchCommand(Command):
    """Takes everything behind `--` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        here, command = args, None
        if "--" in args:
            place = args.index("--")
            here, command = args[:place], args[place + 1 :]
        ctx.meta["command"] = command
        if args and not here:
            here = ["--"]  # no words before it is not the same as no words at all, which asks for help
        try:
            return super().parse_args(ctx, here)
        except typer.TyperException as error:
            if command is None and hasattr(error, "option_name") and "No such option" in str(error):
                raise BadUsage(f"{error.format_message()}.".replace("..", "."), hint=_BEHIND) from error
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "[PATH]", "[-- COMMAND ARGS…]"]


@app.command(cls=LaunchCommand, no_args_is_help=True)
def launch(
    ctx: typer.Context,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="Folder of code to take along.", rich_help_panel=WHAT)
    ] = None,
    extra: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    image: Annotated[
        str | None,
        typer.Option("--docker-image", "-d", metavar="IMAGE", help="Container image.", rich_help_panel=WHAT),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            "-j",
            metavar="NAME[:ALIAS]",
            help="Recorded job; words behind -- replace its arguments.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    entrypoint: Annotated[
        str | None, typer.Option(metavar="WORDS", help="In place of the job's.", rich_help_panel=WHAT)
    ] = None,
    uri: Annotated[
        str | None,
        typer.Option("--uri", "-u", metavar="GIT", help="Git repository of code.", rich_help_panel=WHAT),
    ] = None,
    ref: Annotated[
        str | None, typer.Option(metavar="REF", help="Branch, tag or commit of it.", rich_help_panel=WHAT)
    ] = None,
    folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where in it to start.", rich_help_panel=WHAT)
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run.", rich_help_panel=WHAT)
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            "--queue",
            "-q",
            metavar="QUEUE",
            help="Queue to run on.",
            rich_help_panel=WHERE,
            autocompletion=queue_names,
        ),
    ] = "local",
    project: Annotated[
        str | None,
        typer.Option(
            "--project", "-p", metavar="PROJECT", help="Project to file it in.", rich_help_panel=WHERE
        ),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option(
            "--entity", "-e", metavar="ENTITY", help="User or team it belongs to.", rich_help_panel=WHERE
        ),
    ] = None,
    priority: Annotated[
        Priority | None,
        typer.Option(help="Place in the queue.  [default: medium]", rich_help_panel=WHERE),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="GPUs of each node.", rich_help_panel=ASKS)
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="N", help="CPUs of each node.", rich_help_panel=ASKS)
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="8Gi", help="Memory of each node.", rich_help_panel=ASKS)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="K=V", help="Variable of the queue. Repeat.", rich_help_panel=ASKS),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=V", help="Change what the queue opens. Repeat.", rich_help_panel=ASKS),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V", help="Input, read from MUSTER_CONFIG: optim.lr=0.01. Repeat.", rich_help_panel=ASKS
        ),
    ] = None,
    config_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Inputs from a YAML or JSON file; `-`: stdin.", rich_help_panel=ASKS
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V,V",
            help="A run for each value: lr=0.1,0.01 or seed=1..4. Repeat: for each combination.",
            rich_help_panel=ASKS,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Environment variable. Repeat.", rich_help_panel=ASKS),
    ] = None,
    workdir: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Where it starts, if the queue allows it.", rich_help_panel=ASKS),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLAIM:/PATH[:ro]",
            help="Volume claim to mount, if the queue allows it. Repeat.",
            rich_help_panel=ASKS,
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Nodes.", rich_help_panel=SHAPE)] = None,
    procs_per_node: Annotated[
        str | None,
        typer.Option(metavar="N|gpu", help="Processes on each node.", rich_help_panel=SHAPE),
    ] = None,
    launcher: Annotated[
        Launcher | None,
        typer.Option(help="How they start; auto: torchrun for a .py file.", rich_help_panel=SHAPE),
    ] = None,
    max_restarts: Annotated[
        int | None, typer.Option(metavar="N", help="Restarts by torchrun.", rich_help_panel=SHAPE)
    ] = None,
    rdzv_timeout: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="How long members wait for each other.", rich_help_panel=SHAPE),
    ] = None,
    shm: Annotated[
        str | None,
        typer.Option(metavar="8Gi", help="Shared memory of each node, in a cluster.", rich_help_panel=SHAPE),
    ] = None,
    retry: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=100, help="More attempts, if preempted or lost. Default: 3."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its output; exit with its verdict.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Launch a run.

    \b
    muster launch . -- train.py --epochs 3          this folder, a script in it
    muster launch -f -- nvidia-smi                  a bare command, followed
    muster launch . --nodes 2 --procs-per-node gpu --gpus 4 -- train.py
    muster launch . --grid lr=0.1,0.01 --grid seed=1..4 -- train.py     eight runs
    muster launch -u https://host/team/code.git --ref main -- train.py
    muster launch -j job-team_code:latest --config lr=0.01 -- --epochs 5
    """
    if extra:
        raise BadUsage(f"{extra[0]!r} stands where no word is expected.", hint=_BEHIND)
    order = Order.read(
        command=ctx.meta["command"],
        source=Source(
            path=Path(path) if path is not None else None,
            image=image,
            job=job,
            entrypoint=entrypoint,
            git=uri,
            ref=ref,
            git_folder=folder,
        ),
        shape=Shape(
            nodes=nodes,
            procs_per_node=procs_per_node,
            launcher=launcher,
            max_restarts=max_restarts,
            rdzv_timeout=rdzv_timeout,
            shm=shm,
        ),
        short={"gpus": gpus, "cpus": cpus, "memory": memory},
        values=set_ or [],
        overrides=override or [],
        workdir=workdir,
        volumes=volume or [],
        config=config or [],
        config_file=config_file,
        grid=grid or [],
        env=env or [],
        queue=queue,
        project=project,
        entity=entity,
        name=name,
        priority=priority,
        retry=retry,
    )
    from muster.cli import submit

    if order.grid is not None:
        from muster.cli.grid import launch_grid, launch_grid_and_follow, preview_grid

        if follow and not dry_run:
            raise typer.Exit(launch_grid_and_follow(order, order.grid, json=json))
        asyncio.run((preview_grid if dry_run else launch_grid)(order, order.grid, json=json))
    elif dry_run:
        asyncio.run(submit.preview(order.preview, json=json))
    elif not follow:
        asyncio.run(submit.launch(order, json=json))
    else:
        raise typer.Exit(submit.launch_and_follow(order, json=json))
