"""The SDK: `muster.launch(…)` gives a `Run` to wait for, read and stop."""

from __future__ import annotations

import asyncio
import atexit
import codecs
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from muster.client.api import AsyncClient
from muster.client.jobfile import JobFile, read_jobfile
from muster.client.settings import ClientSettings, load
from muster.client.sync import Client
from muster.client.upload import Progress, with_source
from muster.domain.errors import BadCommand
from muster.domain.run import Priority, RunState
from muster.domain.training import Training
from muster.wire.runs import (
    EventModel,
    ExplanationModel,
    GitModel,
    LaunchRequest,
    LogChunk,
    RerunRequest,
    RunModel,
    TrainingModel,
)

_clients: dict[ClientSettings, Client] = {}
_HOLD = 20.0  #: seconds one request waits for news of a run


class AsyncRun:
    """One launched run, with `await`."""

    def __init__(self, client: AsyncClient, model: RunModel) -> None:
        self._client = client
        self.model = model

    @property
    def id(self) -> str:
        return self.model.id

    async def refresh(self) -> RunModel:
        """What the server knows now. A run that has ended does not change any more."""
        if not self.model.state.terminal:
            self.model = await self._client.get_run(self.id)
        return self.model

    async def wait(self, timeout: float | None = None) -> RunState:
        """Until the run has ended; its last state. `TimeoutError` if that takes longer than `timeout`."""
        async with asyncio.timeout(timeout):
            while not self.model.state.terminal:
                self.model = await self._client.get_run(self.id, newer_than=self.model.version, wait=_HOLD)
        return self.model.state

    async def logs(self, *, follow: bool = False, rank: int | None = None) -> AsyncIterator[str]:
        """Lines of output. With `follow`, as they come, until the run has ended."""
        async for lines in self.lines(follow=follow, rank=rank):
            for line in lines:
                yield line

    async def lines(self, *, follow: bool, rank: int | None) -> AsyncIterator[list[str]]:
        """Lines of output, as many at once as came at once."""
        lines = LineAssembler(prefix=self.model.nodes > 1 and rank is None)
        if follow:
            async for chunk in self._client.follow_logs(self.id, rank=rank):
                yield lines.feed(chunk)
        else:
            run = await self.refresh()
            for member in range(run.nodes) if rank is None else (rank,):
                async for chunk in self._whole(member, run.attempt):
                    yield lines.feed(chunk)
        yield lines.rest()

    async def events(self) -> list[EventModel]:
        """What happened so far."""
        found: list[EventModel] = []
        cursor: str | None = None
        while True:
            page = await self._client.list_run_events(self.id, cursor=cursor)
            found += page.items
            cursor = page.next
            if cursor is None:
                return found

    async def why(self) -> ExplanationModel:
        """Why it waits, or why it ended as it did."""
        return await self._client.explain_run(self.id)

    async def stop(self) -> None:
        """Ask it to stop."""
        self.model = await self._client.stop_run(self.id)

    async def rerun(self, changes: RerunRequest | None = None) -> AsyncRun:
        """Launch it again, as it was but for the changes."""
        return AsyncRun(self._client, await self._client.rerun_run(self.id, changes))

    async def _whole(self, rank: int, attempt: int) -> AsyncIterator[LogChunk]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may lie across two answers
        offset = 0
        while data := await self._client.read_log(self.id, rank=rank, attempt=attempt or None, offset=offset):
            yield LogChunk(rank=rank, attempt=attempt, offset=offset, text=decoder.decode(data))
            offset += len(data)
        if rest := decoder.decode(b"", final=True):
            yield LogChunk(rank=rank, attempt=attempt, offset=offset, text=rest)


class Run:
    """One launched run."""

    def __init__(self, client: Client, model: RunModel) -> None:
        self._client = client
        self._run = AsyncRun(client.asynchronous, model)

    def __repr__(self) -> str:
        return f"<muster.Run {self.id} {self.model.name!r} {self.model.state}>"

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def model(self) -> RunModel:
        """All that was known when last asked."""
        return self._run.model

    @property
    def state(self) -> RunState:
        """Where it stands now."""
        return self._client.wait(self._run.refresh()).state

    def wait(self, timeout: float | None = None) -> RunState:
        """Until the run has ended; its last state. `TimeoutError` if that takes longer than `timeout`."""
        return self._client.wait(self._run.wait(timeout))

    def logs(self, *, follow: bool = False, rank: int | None = None) -> Iterator[str]:
        """Lines of output. With `follow`, as they come, until the run has ended."""
        for lines in self._client.iterate(self._run.lines(follow=follow, rank=rank)):
            yield from lines

    def events(self) -> list[EventModel]:
        """What happened so far."""
        return self._client.wait(self._run.events())

    def why(self) -> ExplanationModel:
        """Why it waits, or why it ended as it did."""
        return self._client.wait(self._run.why())

    def stop(self) -> None:
        """Ask it to stop."""
        self._client.wait(self._run.stop())

    def rerun(
        self,
        *,
        command: str | Sequence[str] | None = None,
        queue: str | None = None,
        name: str | None = None,
        values: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        training: Training | Mapping[str, Any] | None = None,
        priority: Priority | str | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        workdir: str | None = None,
        volumes: Sequence[str] | None = None,
    ) -> Run:
        """Launch it again. `command` replaces the arguments; what is not given stays as it was."""
        changes = RerunRequest(
            queue=queue,
            name=name,
            arguments=_words(command, JobFile(), required=True) if command is not None else None,
            values=dict(values or {}),
            config=dict(config or {}),
            training=_training(training),
            priority=Priority(priority) if priority else None,
            env=dict(env or {}),
            overrides=dict(overrides or {}),
            workdir=workdir,
            volumes=list(volumes) if volumes is not None else None,
        )
        return Run(self._client, self._client.rerun_run(self.id, changes))


class LineAssembler:
    """Pieces of several streams become whole lines, each stream's in order."""

    def __init__(self, *, prefix: bool) -> None:
        self._prefix = prefix
        self._open: dict[int, list[str]] = {}  #: rank → the parts of a line whose end has not come

    def feed(self, chunk: LogChunk) -> list[str]:
        *lines, rest = chunk.text.split("\n")
        parts = self._open.setdefault(chunk.rank, [])
        if lines:
            lines[0] = "".join([*parts, lines[0]])
            parts.clear()
        if rest:
            parts.append(rest)
        return [self._named(chunk.rank, line) for line in lines]

    def rest(self) -> list[str]:
        lines = [self._named(rank, "".join(parts)) for rank, parts in sorted(self._open.items()) if parts]
        self._open.clear()
        return lines

    def _named(self, rank: int, line: str) -> str:
        return f"[{rank}] {line}" if self._prefix else line


def launch(
    path: str | PathLike[str] | None = None,
    *,
    command: str | Sequence[str] | None = None,
    image: str | None = None,
    job: str | None = None,
    git: str | Mapping[str, str] | None = None,
    queue: str = "local",
    project: str | None = None,
    entity: str | None = None,
    name: str | None = None,
    values: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    training: Training | Mapping[str, Any] | None = None,
    priority: Priority | str | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    workdir: str | None = None,
    volumes: Sequence[str] | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> Run:
    """Launch `command`, with the code in folder `path` or of a repository, in an image, or as a `job` has it.

    `git` is an address, or `{"url": …, "ref": …, "folder": …}`. With a `job`, `command` replaces its
    arguments, `config` is merged over the recorded one, and what is not given stays.
    """
    owner = client or default_client()
    folder = Path(path) if path is not None else None
    request = request_for(
        owner.settings,
        folder,
        command=command,
        image=image,
        job=job,
        git=git,
        queue=queue,
        project=project,
        entity=entity,
        name=name,
        values=values,
        config=config,
        training=training,
        priority=priority,
        env=env,
        overrides=overrides,
        workdir=workdir,
        volumes=volumes,
    )
    return Run(owner, owner.wait(_launch(owner.asynchronous, request, folder, progress)))


class Asked(TypedDict, total=False):
    """What `launch` takes, as far as it says what is launched."""

    command: str | Sequence[str] | None
    image: str | None
    job: str | None
    git: str | Mapping[str, str] | None
    queue: str
    project: str | None
    entity: str | None
    name: str | None
    values: Mapping[str, Any] | None
    config: Mapping[str, Any] | None
    training: Training | Mapping[str, Any] | None
    priority: Priority | str | None
    env: Mapping[str, str] | None
    overrides: Mapping[str, Any] | None
    workdir: str | None
    volumes: Sequence[str] | None


def request_for(settings: ClientSettings, folder: Path | None, **asked: Unpack[Asked]) -> LaunchRequest:
    """The request, but for the code; what the folder's `muster.yaml` says is in it."""
    jobfile = read_jobfile(folder) if folder is not None else JobFile()
    priority = asked.get("priority")
    image, job = asked.get("image"), asked.get("job")
    is_alone = folder is not None and image is None and job is None  # a repository may name a command
    words = _words(asked.get("command"), jobfile, required=is_alone)
    return LaunchRequest(
        queue=asked.get("queue", "local"),
        command=[] if job is not None else words,
        arguments=words or None if job is not None else None,
        job=job,
        git=_git(asked.get("git")),
        job_name=jobfile.name,
        entity=asked.get("entity") or settings.entity,
        project=asked.get("project") or settings.project,
        name=asked.get("name"),
        env=dict(asked.get("env") or {}),
        config=dict(asked.get("config") or {}),
        values=dict(asked.get("values") or {}),
        training=_training(asked.get("training"), said=jobfile),
        priority=Priority(priority) if priority else None,
        image=image,
        inputs=jobfile.inputs.to_data() if jobfile.inputs else None,
        overrides=dict(asked.get("overrides") or {}),
        workdir=asked.get("workdir"),
        volumes=list(asked.get("volumes") or ()),
    )


async def _launch(
    client: AsyncClient, request: LaunchRequest, folder: Path | None, progress: Progress | None
) -> RunModel:
    return await client.launch(await with_source(client, request, folder, progress=progress))


def default_client() -> Client:
    """One for all launches of the process to one server."""
    settings = load()
    if settings not in _clients:
        client = _clients[settings] = Client(settings=settings)
        atexit.register(client.close)
    return _clients[settings]


def _words(command: str | Sequence[str] | None, jobfile: JobFile, *, required: bool) -> list[str]:
    given = shlex.split(command) if isinstance(command, str) else [str(word) for word in command or ()]
    words = jobfile.command(given)
    if not words and required:
        raise BadCommand("There is no command to run.", hint='Give one: command="train.py --epochs 3".')
    return words


def _git(given: str | Mapping[str, str] | None) -> GitModel | None:
    if given is None or isinstance(given, str):
        return GitModel(url=given) if given is not None else None
    return GitModel(**given)


def _training(
    training: Training | Mapping[str, Any] | None, *, said: JobFile | None = None
) -> TrainingModel | None:
    if isinstance(training, Training):
        return TrainingModel.of(training)
    shape = (said or JobFile()).shape(training)
    return TrainingModel(**shape) if shape is not None else None
