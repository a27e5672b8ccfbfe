"""Options and arguments that several commands share, so that they are called the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.complete import job_names, queue_names, run_words

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Entity = Annotated[
    str | None,
    typer.Option("--entity", "-e", metavar="ENTITY", help="User or team. Default: MUSTER_ENTITY, else you."),
]
OneRun = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Id, name, or the beginning of one.", autocompletion=run_words),
]
ManyRuns = Annotated[
    list[str],
    typer.Argument(metavar="RUN", help="Ids, names, or their beginnings.", autocompletion=run_words),
]
SomeRuns = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Ids, names, or their beginnings.", autocompletion=run_words),
]
Group = Annotated[
    str | None, typer.Option("--group", metavar="ID", help="All runs of this group (of a grid).")
]
OneJob = Annotated[
    str, typer.Argument(metavar="JOB", help="[PROJECT/]NAME of the job.", autocompletion=job_names)
]
Project = Annotated[
    str | None,
    typer.Option("--project", "-p", metavar="PROJECT", help="Default: MUSTER_PROJECT, else `default`."),
]
OneQueue = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=queue_names)
]
