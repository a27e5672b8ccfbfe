"""`muster job`: recorded recipes, in versions."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.launch import LaunchCommand
from muster.cli.options import Entity, Json, OneJob, Project, Yes
from muster.cli.output import confirm, connect, hint, show, show_facts, show_json, show_table
from muster.cli.table import Cell, column
from muster.cli.usage import BadUsage, as_usage
from muster.cli.words import ago, moment, state, visible
from muster.domain.job import JobName

if TYPE_CHECKING:
    from muster.client.sync import Client
    from muster.domain.inputs import InputDeclaration
    from muster.wire.jobs import JobModel, JobVersionModel

app = typer.Typer(
    help="Look at jobs, make, name and delete them.", no_args_is_help=True, add_completion=False
)

SHOWN = 10  #: versions, and runs, that `show` lists


@app.command("list")
def list_jobs(
    project: Annotated[
        str | None, typer.Option("--project", "-p", metavar="PROJECT", help="Of this project.")
    ] = None,
    entity: Entity = None,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="In the name.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List jobs by name."""
    with connect() as client:
        page = client.list_jobs(
            entity=entity or client.settings.entity, project=project, text=text, limit=limit
        )
    if json:
        show_json(page)
        return
    columns = (
        column("NAME", least=20),
        column("VERSION"),
        column("ALIASES", least=8, spare=1),
        column("PROJECT", least=8),
        column("ENTITY", least=8, spare=2),
        column("CREATED", spare=3),
    )
    rows = [
        (job.name, f"v{job.version}", _aliases(job), job.project, job.entity, ago(job.created_at))
        for job in page.items
    ]
    show_table(columns, rows, empty="No jobs here. A launch of code or of an image files one.")
    if page.next is not None:
        hint(f"These are the first {len(page.items)}; --limit shows more.")


@app.command("show")
def show_one(
    job: Annotated[str, typer.Argument(metavar="JOB", help="[PROJECT/]NAME[:ALIAS].")],
    entity: Entity = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """Show a job: its versions, what one of them runs, and its newest runs. JSON: the version."""
    with connect() as client:
        name = _name(job)
        where = _where(client, name, entity, project)
        version = client.get_job_version(name.name, name.alias or "latest", **where)
        if json:
            show_json(version)
            return
        found = client.get_job(name.name, **where)
        versions = client.list_job_versions(name.name, limit=SHOWN, **where)
        runs = client.list_runs(
            job=f"{found.project}/{found.name}" + (f":{name.alias}" if name.alias else ""),
            entity=found.entity,
            limit=SHOWN,
        )
    _show_version(found, version)
    show()
    filed = (column("VERSION"), column("ALIASES", least=8), column("BY", least=8), column("CREATED"))
    rows: list[tuple[Cell, ...]] = [
        (f"v{item.version}", ", ".join(item.aliases), item.created_by, ago(item.created_at))
        for item in versions.items
    ]
    show_table(filed, rows, empty="")
    show()
    columns = (column("RUN"), column("NAME", least=12), column("STATE"), column("VERSION"), column("CREATED"))
    rows = [
        (run.id, run.name, state(run.state), f"v{run.job.version}" if run.job else "", ago(run.created_at))
        for run in runs.items
    ]
    show_table(columns, rows, empty="It has no runs yet.")


def _show_version(job: JobModel, version: JobVersionModel) -> None:
    from muster.cli.describe import pairs_of, repository, shape_of

    show_facts(
        [
            ("job", f"{job.entity}/{job.project}/{job.name}:v{version.version}"),
            ("image", version.image or ""),
            ("code", version.snapshot[:12] if version.snapshot else repository(version.git)),
            ("entrypoint", shlex.join(version.entrypoint)),
            ("arguments", shlex.join(version.arguments)),
            ("config", pairs_of(version.config)),
            ("inputs", _inputs(version.inputs)),
            ("shape", shape_of(version.training)),
            ("created", f"{moment(version.created_at)} by {version.created_by}"),
        ]
    )


def _inputs(declared: dict[str, Any] | None) -> str:
    """The names of those it declares; JSON has their rules."""
    from muster.domain.inputs import InputDeclaration

    if declared is None:
        return ""
    schema = InputDeclaration.parse(declared).schema
    return visible(", ".join(schema.names_at(()) or ())) if schema else "any"


@app.command(cls=LaunchCommand)
def create(
    ctx: typer.Context,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Folder of code to take along.")] = None,
    extra: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the job. Default: after its source.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--docker-image", "-d", metavar="IMAGE", help="Container image.")
    ] = None,
    uri: Annotated[
        str | None, typer.Option("--uri", "-u", metavar="GIT", help="Git repository of code.")
    ] = None,
    ref: Annotated[str | None, typer.Option(metavar="REF", help="Branch, tag or commit of it.")] = None,
    folder: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where in it to start.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="Default of an input. Repeat.")
    ] = None,
    inputs_file: Annotated[
        str | None,
        typer.Option("--inputs", metavar="FILE", help="What inputs it takes; else its muster.yaml says."),
    ] = None,
    nodes: Annotated[int | None, typer.Option(metavar="N", help="Nodes.")] = None,
    procs_per_node: Annotated[
        str | None, typer.Option(metavar="N|gpu", help="Processes on each node.")
    ] = None,
    entity: Entity = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """File a version of a job without launching it.

    \b
    muster job create -d acme/train:main -- train.py --epochs 3
    muster job create . --name trainer -- train.py
    muster job create -u https://host/team/code.git --inputs inputs.yaml -- train.py

    FILE is a muster.yaml, or what stands under `inputs` in one, or a JSON Schema alone.
    """
    from muster.cli.order import Shape, Source, code_folder
    from muster.cli.submit import with_source
    from muster.cli.values import inputs
    from muster.client.jobfile import JobFile, read_jobfile
    from muster.wire.jobs import JobRequest
    from muster.wire.runs import GitModel, TrainingModel

    if extra:
        raise BadUsage(f"{extra[0]!r} stands where no word is expected.")
    if path is None and image is None and uri is None:
        raise BadUsage("A job needs a source.", hint="Give a folder, -d IMAGE or -u GIT.")
    git = Source(git=uri, ref=ref, git_folder=folder).git_source()
    code = code_folder(Path(path)) if path is not None else None
    with as_usage():
        said = read_jobfile(code) if code is not None else JobFile()
    shape = said.shape(Shape(nodes=nodes, procs_per_node=procs_per_node).given())
    declared = _declared(inputs_file) if inputs_file is not None else said.inputs
    with connect() as client:
        request = JobRequest(
            name=name or said.name,
            entity=entity or client.settings.entity,
            project=project or client.settings.project,
            image=image,
            git=GitModel.of(git) if git else None,
            command=said.command(ctx.meta["command"] or ()),
            config=inputs(config or []),
            inputs=declared.to_data() if declared else None,
            training=TrainingModel(**shape) if shape else None,
        )
        if not request.command and code is not None and image is None:
            raise BadUsage("There is no command to run.", hint="Put it behind `--`, as for a launch.")
        full = client.wait(with_source(client.asynchronous, request, code))
        made = client.create_job(full)
    if json:
        show_json(made)
        return
    show(f"Job {made.job}:v{made.version} is there.")
    hint(f"muster launch -j {made.job}:v{made.version} -q QUEUE")


@app.command()
def alias(
    job: Annotated[str, typer.Argument(metavar="JOB", help="[PROJECT/]NAME[:VERSION]; else the newest.")],
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Word that stands for the version.")],
    remove: Annotated[bool, typer.Option("--remove", help="Let it stand for nothing any more.")] = False,
    entity: Entity = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """Let a word stand for a version: muster job alias trainer:v3 best"""
    with connect() as client:
        name = _name(job)
        where = _where(client, name, entity, project)
        if remove:
            changed = client.remove_job_alias(name.name, alias, **where)
        else:
            changed = client.set_job_alias(name.name, alias, name.alias or "latest", **where)
    if json:
        show_json(changed)
    elif remove:
        show(f"{changed.name}:{alias} stands for nothing any more.")
    else:
        show(f"{changed.name}:{alias} is v{changed.aliases[alias]}.")


@app.command()
def rename(
    job: OneJob,
    name: Annotated[str, typer.Argument(metavar="NEW", help="What it is called from now on.")],
    entity: Entity = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """Call a job otherwise. Launches of its source still find it."""
    with connect() as client:
        old = _name(job)
        changed = client.rename_job(old.name, name, **_where(client, old, entity, project))
    if json:
        show_json(changed)
    else:
        show(f"Job {old.name} is called {changed.name} now.")


@app.command()
def delete(
    job: OneJob, entity: Entity = None, project: Project = None, yes: Yes = False, json: Json = False
) -> None:
    """Delete a job with its versions. Its runs stay, and can be launched again."""
    with connect() as client:
        name = _name(job)
        where = _where(client, name, entity, project)
        found = client.get_job(name.name, **where)
        versions = "1 version" if found.version == 0 else f"{found.version + 1} versions"
        confirm(f"Delete the job {found.name} with its {versions}?", yes=yes)
        client.delete_job(name.name, **where)
    if json:
        show_json(found)
    else:
        show(f"Job {found.name} is deleted. Its runs stay.")


def _declared(path: str) -> InputDeclaration:
    from muster.cli import yamlfile
    from muster.client.jobfile import declaration_in

    data = yamlfile.read_mapping(path)
    with as_usage(yamlfile.name_of(path)):
        return declaration_in(data)


def _name(text: str) -> JobName:
    with as_usage():
        return JobName.parse(text)


def _where(client: Client, name: JobName, entity: str | None, project: str | None) -> dict[str, str | None]:
    return {
        "entity": entity or client.settings.entity,
        "project": name.project or project or client.settings.project,
    }


def _aliases(job: JobModel) -> str:
    return ", ".join(f"{alias} v{number}" for alias, number in job.aliases.items() if alias != "latest")
