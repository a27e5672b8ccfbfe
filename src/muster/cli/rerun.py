"""`muster run rerun`: launch a run again, with some of it replaced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.command import Command
from muster.cli.complete import queue_names
from muster.cli.options import Json, OneRun
from muster.cli.order import Shape, Source, variables
from muster.cli.values import changes, inputs, pairs, volumes
from muster.domain.run import Priority
from muster.domain.training import Launcher

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import RunModel


class RerunCommand(Command):
    """Takes everything behind `--` as the run's new arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        here, words = args, None
        if "--" in args:
            place = args.index("--")
            here, words = args[:place], args[place + 1 :]
        ctx.meta["arguments"] = words
        return super().parse_args(ctx, here)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS…]"]


def rerun(
    ctx: typer.Context,
    run: OneRun,
    entrypoint: Annotated[str | None, typer.Option(metavar="WORDS", help="In place of the run's.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the new run.")] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", metavar="QUEUE", help="Another queue.", autocompletion=queue_names),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", "-p", metavar="PROJECT", help="Another project.")
    ] = None,
    priority: Annotated[Priority | None, typer.Option(help="Another place in the queue.")] = None,
    gpus: Annotated[int | None, typer.Option(metavar="N", min=0, help="GPUs of each node.")] = None,
    cpus: Annotated[str | None, typer.Option(metavar="N", help="CPUs of each node.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="8Gi", help="Memory of each node.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="Variable of the queue. Repeat.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=VALUE", help="What the queue lets a launch change. Repeat."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="Input, over the run's: optim.lr=0.01. Repeat.")
    ] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Environment. Repeat.")] = None,
    workdir: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where it starts, if the queue allows it.")
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLAIM:/PATH[:ro]", help="Volume claim to mount, in place of the run's. Repeat."
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Nodes.")] = None,
    procs_per_node: Annotated[
        str | None, typer.Option(metavar="N|gpu", help="Processes on each node.")
    ] = None,
    launcher: Annotated[Launcher | None, typer.Option(help="How they start.")] = None,
    max_restarts: Annotated[int | None, typer.Option(metavar="N", help="Restarts by torchrun.")] = None,
    rdzv_timeout: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="How long members wait for each other.")
    ] = None,
    shm: Annotated[
        str | None, typer.Option(metavar="8Gi", help="Shared memory of each node, in a cluster.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show its output; exit with its verdict.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Launch a run again, as it was or with some of it replaced.

    Words behind `--` replace its arguments: muster run rerun RUN -- --epochs 5
    """
    from muster.cli import submit
    from muster.cli.output import connect
    from muster.cli.pick import pick_run
    from muster.wire.runs import RerunRequest, TrainingModel

    words = Source(entrypoint=entrypoint).entrypoint_words()
    shape = Shape(
        nodes=nodes,
        procs_per_node=procs_per_node,
        launcher=launcher,
        max_restarts=max_restarts,
        rdzv_timeout=rdzv_timeout,
        shm=shm,
    ).given()
    request = RerunRequest(
        queue=queue,
        project=project,
        name=name,
        entrypoint=list(words) if words is not None else None,
        arguments=ctx.meta["arguments"],
        config=inputs(config or []),
        overrides=changes(override or []),
        workdir=workdir,
        volumes=volumes(volume) if volume else None,
        values=variables(set_ or [], {"gpus": gpus, "cpus": cpus, "memory": memory}),
        env=pairs("--env", env or [], example="NAME=value"),
        training=TrainingModel(**shape) if shape else None,
        priority=priority,
    )
    with connect() as client:
        old = pick_run(client, run)

    if dry_run:
        asyncio.run(submit.preview(lambda client: client.preview_rerun(old.id, request), json=json))
        return

    async def begin(client: AsyncClient) -> RunModel:
        return await client.rerun_run(old.id, request)

    if follow:
        raise typer.Exit(submit.start_and_follow(begin, json=json))
    asyncio.run(submit.start(begin, json=json))
