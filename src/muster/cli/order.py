"""What was typed behind `muster launch`, checked as far as that goes without a server."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli import yamlfile
from muster.cli.usage import BadUsage, as_usage
from muster.cli.values import changes, inputs, pairs, scalar
from muster.cli.values import volumes as checked_volumes
from muster.client.jobfile import JobFile, read_jobfile
from muster.domain.errors import BadCommand, nearest
from muster.domain.git import checked
from muster.domain.grid import Grid
from muster.domain.inputs import InputDeclaration, merged
from muster.domain.run import Priority
from muster.domain.source import GitSource
from muster.domain.training import Launcher, Training

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.client.settings import ClientSettings
    from muster.wire.runs import LaunchRequest, PreviewModel

_EXAMPLE = "muster launch . -- train.py --epochs 3"


@dataclass(frozen=True, kw_only=True)
class Source:
    """What runs: code, an image, a recorded job."""

    path: Path | None = None
    image: str | None = None
    job: str | None = None
    git: str | None = None
    ref: str | None = None
    git_folder: str | None = None
    entrypoint: str | None = None  #: in place of the job's

    def git_source(self) -> GitSource | None:
        if self.git is None:
            return None
        with as_usage():
            return checked(GitSource(url=self.git, ref=self.ref, folder=self.git_folder))

    def entrypoint_words(self) -> tuple[str, ...] | None:
        if self.entrypoint is None:
            return None
        try:
            return tuple(shlex.split(self.entrypoint))
        except ValueError as error:
            raise BadUsage(
                f"--entrypoint {self.entrypoint}: {error}.", hint="Quote it as a shell."
            ) from error


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The training options; None: not given."""

    nodes: int | None = None
    procs_per_node: str | None = None
    launcher: Launcher | None = None
    max_restarts: int | None = None
    rdzv_timeout: int | None = None
    shm: str | None = None

    def given(self) -> Mapping[str, Any] | None:
        """None if none of the options was given: then it is a plain command."""
        given: dict[str, Any] = {name: value for name, value in asdict(self).items() if value is not None}
        if not given:
            return None
        if "procs_per_node" in given and given["procs_per_node"] != "gpu":
            text = given["procs_per_node"]
            if not text.isascii() or not text.isdigit():
                raise BadUsage(f"--procs-per-node {text}: this is neither a number nor `gpu`.")
            given["procs_per_node"] = int(text)
        with as_usage():
            Training(**given)
        return given


@dataclass(frozen=True, kw_only=True)
class Order:
    command: tuple[str, ...]
    folder: Path | None
    image: str | None
    git: GitSource | None
    job: str | None
    entrypoint: tuple[str, ...] | None
    arguments: tuple[str, ...] | None
    training: Mapping[str, Any] | None
    queue: str
    project: str | None
    entity: str | None
    name: str | None
    priority: Priority | None
    retry: int | None
    values: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    workdir: str | None = None
    volumes: Sequence[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    job_name: str | None = None  #: what the folder's muster.yaml calls its job
    declared: InputDeclaration | None = None  #: what the folder's muster.yaml says about inputs
    grid: Grid | None = None

    @classmethod
    def read(
        cls,
        *,
        command: Sequence[str] | None,
        source: Source,
        shape: Shape,
        short: Mapping[str, object],
        values: Sequence[str],
        overrides: Sequence[str],
        volumes: Sequence[str] = (),
        config: Sequence[str],
        config_file: str | None = None,
        grid: Sequence[str] = (),
        env: Sequence[str],
        **where: Any,
    ) -> Order:
        """Refuses what cannot be right, before anything is sent."""
        _check_supported(source)
        folder = code_folder(source.path) if source.path is not None else None
        with as_usage():
            jobfile = read_jobfile(folder) if folder is not None else JobFile()
        words: tuple[str, ...] = ()
        if source.job is None:
            given = None if command is None and not jobfile.entrypoint else jobfile.command(command or ())
            words = _command(given, folder, source)
        return cls(
            command=words,
            folder=folder,
            image=source.image,
            git=source.git_source(),
            job=source.job,
            entrypoint=source.entrypoint_words(),
            arguments=tuple(command) if source.job is not None and command is not None else None,
            training=jobfile.shape(shape.given()),
            values=variables(values, short),
            overrides=changes(overrides),
            volumes=checked_volumes(volumes),
            config=_config(config, config_file),
            env=pairs("--env", env, example="NAME=value"),
            declared=jobfile.inputs,
            job_name=jobfile.name,
            grid=_grid(grid),
            **where,
        )

    def with_config(self, config: Mapping[str, Any]) -> Order:
        return replace(self, config=config)

    def request(self, settings: ClientSettings) -> LaunchRequest:
        from muster.client.upload import source_name
        from muster.wire.runs import GitModel, LaunchRequest, RetryModel, TrainingModel

        return LaunchRequest(
            queue=self.queue,
            command=list(self.command),
            entity=self.entity or settings.entity,
            project=self.project or settings.project,
            name=self.name,
            env=dict(self.env),
            config=dict(self.config),
            values=dict(self.values),
            training=TrainingModel(**self.training) if self.training else None,
            retry=RetryModel() if self.retry is None else RetryModel(max=self.retry),
            priority=self.priority,
            image=self.image,
            inputs=self.declared.to_data() if self.declared else None,
            overrides=dict(self.overrides),
            workdir=self.workdir,
            volumes=list(self.volumes),
            git=GitModel.of(self.git) if self.git else None,
            source_name=source_name(self.folder) if self.folder else None,
            job_name=self.job_name,
            job=self.job,
            entrypoint=list(self.entrypoint) if self.entrypoint is not None else None,
            arguments=list(self.arguments) if self.arguments is not None else None,
        )

    async def preview(self, client: AsyncClient) -> PreviewModel:
        """What launching it would start."""
        from muster.client.upload import with_commit

        with as_usage(kind=BadCommand):
            request = await with_commit(self.request(client.settings))
        return await client.preview_launch(request)


def _check_supported(source: Source) -> None:
    for option, value in (("-j", source.job), ("-u", source.git)):
        if source.path is not None and value is not None:
            told = f"{option} and the folder {str(source.path)!r} name different code."
            raise BadUsage(told, hint="Give one of them.")
    for option, value in (("--ref", source.ref), ("--folder", source.git_folder)):
        if value is not None and source.git is None:
            raise BadUsage(f"{option} is about a repository, and none is given.", hint="Give it with -u GIT.")
    if source.entrypoint is not None and source.job is None:
        hint = f"Put it behind `--`: {_EXAMPLE}"
        raise BadUsage("--entrypoint replaces that of a job, and none is given.", hint=hint)
    sources = {"-d": source.image, "-j": source.job, "-u": source.git}
    given = [option for option, value in sources.items() if value is not None]
    if len(given) > 1:
        raise BadUsage(f"{' and '.join(given)} name different things to run.", hint="Give one of them.")


def code_folder(path: Path) -> Path:
    if path.is_file():
        hint = f"Launch its folder, and name it behind `--`: muster launch {path.parent} -- {path.name}"
        raise BadUsage(f"{str(path)!r} is a file.", hint=hint)
    if not path.is_dir():
        raise BadUsage(f"There is no folder {str(path)!r}.", hint=f"Name the folder of your code: {_EXAMPLE}")
    return path


def _command(words: Sequence[str] | None, folder: Path | None, source: Source) -> tuple[str, ...]:
    """`words` None: nothing was said of a command."""
    if not words and source.image is not None:
        return ()  # an image has a command of its own
    if not words and source.git is not None:
        return ()  # its muster.yaml may name one
    if words is None and folder is None:
        return ()  # and the queue may have an image
    if not words or not words[0].strip():
        raise BadUsage("There is no command to run.", hint=f"Put it behind `--`: {_EXAMPLE}")
    if any("\0" in word for word in words):
        raise BadUsage("A NUL character cannot be part of a command.")
    script = words[0]
    if script.endswith(".py") and not script.startswith("/"):
        if folder is not None:
            _check_script(folder, script)
        elif source.image is None and source.git is None and Path(script).is_file():
            raise BadUsage(
                f"{script!r} is here, but no folder is launched with it.",
                hint=f"Take this folder along: muster launch . -- {script} …",
            )
    return tuple(words)


def _config(words: Sequence[str], path: str | None) -> dict[str, Any]:
    """What the file says, and over it what was typed."""
    given = inputs(words)
    return merged(yamlfile.read_mapping(path), given) if path is not None else given


def _grid(words: Sequence[str]) -> Grid | None:
    if not words:
        return None
    with as_usage():
        return Grid.parse(words, read=lambda text: scalar(text, option="--grid"))


def _check_script(folder: Path, script: str) -> None:
    if (folder / script).is_file():
        return
    near = nearest(script, [path.name for path in folder.glob("*.py")])
    hint = f"Did you mean {near!r}?" if near else "Name it as seen from that folder."
    raise BadUsage(f"There is no {script!r} in the folder {str(folder)!r}.", hint=hint)


def variables(given: Sequence[str], short: Mapping[str, object]) -> dict[str, Any]:
    """Of the queue: those of `--set`, and those with an option of their own."""
    values: dict[str, Any] = pairs("--set", given, example="gpus=2")
    for name, value in short.items():
        if value is None:
            continue
        if name in values:
            raise BadUsage(f"--{name} {value} and --set {name}={values[name]} speak of the same value.")
        values[name] = str(value)
    return values
