"""Bringing the code of a launch to the server: a folder, as far as it is not there yet; or its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from muster.client.api import AsyncClient
from muster.client.code import CollectedCode, collect, pack
from muster.client.git import pinned
from muster.client.gitfile import jobfile_of
from muster.client.jobfile import JobFile
from muster.domain.errors import BadCommand, nearest
from muster.wire.code import SnapshotModel, SnapshotRequest
from muster.wire.jobs import JobRequest
from muster.wire.runs import MAX_SOURCE_NAME, GitModel, LaunchRequest, TrainingModel

Progress = Callable[[str, int, int], None]  #: what, done bytes, all bytes
R = TypeVar("R", LaunchRequest, JobRequest)


async def with_source(
    client: AsyncClient,
    request: R,
    folder: Path | None,
    *,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> R:
    """The request with its folder uploaded, or with the commit of its repository."""
    request = await with_commit(request, note=note)
    if folder is None:
        return request
    snapshot, code = await upload_code(
        client, folder, command=request.command, entity=request.entity, progress=progress
    )
    for text in code.notes:
        note(text)
    return request.model_copy(update={"snapshot": snapshot.id, "source_name": source_name(folder)})


async def with_commit(request: R, *, note: Callable[[str], None] = lambda text: None) -> R:
    """The same; of a repository at its commit, and filled in from the `muster.yaml` it has there."""
    if request.git is None:
        return request
    source = await pinned(request.git.to_domain())
    jobfile = await jobfile_of(source)
    if source.commit is None:
        note(
            "the commit could not be looked up from here; the agent does it, and its muster.yaml is not read."
        )
    elif jobfile is None:
        note("the repository could not be fetched from here: its muster.yaml is not read.")
    said = jobfile or JobFile()
    command = said.command(request.command)
    if not command:
        raise BadCommand(
            "There is no command to run.",
            hint="Put it behind `--`, or let the repository's muster.yaml name an `entrypoint`.",
        )
    name = "job_name" if "job_name" in type(request).model_fields else "name"
    inputs = said.inputs.to_data() if said.inputs else None
    asked = request.training.model_dump(exclude_unset=True) if request.training is not None else None
    shape = said.shape(asked)
    return request.model_copy(
        update={
            "git": GitModel.of(source),
            "command": command,
            "inputs": inputs if request.inputs is None else request.inputs,
            "training": TrainingModel(**shape) if shape is not None else None,
            name: getattr(request, name) or said.name,
        }
    )


async def upload_code(
    client: AsyncClient,
    folder: Path,
    *,
    command: list[str],
    entity: str | None,
    progress: Progress | None = None,
) -> tuple[SnapshotModel, CollectedCode]:
    """Snapshot `folder` and upload what is missing, if the command's script is in it."""

    def say(what: str) -> Callable[[int, int], None]:
        return lambda done, total: progress(what, done, total) if progress else None

    code = await asyncio.to_thread(collect, folder, progress=say("Reading code"))
    check_script(code, command)
    request = SnapshotRequest(manifest=code.snapshot.to_data(), entity=entity)
    announced = await client.create_snapshot(request)
    if announced.complete:
        return announced, code
    wanted = [(sha256, code.paths[sha256]) for sha256 in announced.missing]
    total = sum(code.snapshot.blobs[sha256] for sha256, _ in wanted)
    frames = _counted(pack(wanted), total, say("Uploading code"))
    return await client.upload_blobs(announced.id, frames, entity=announced.entity), code


def source_name(folder: Path) -> str | None:
    """What the folder is called: its job is called after it."""
    return folder.resolve().name[:MAX_SOURCE_NAME] or None


def check_script(code: CollectedCode, command: list[str]) -> None:
    """Refuse a script that is not among the files, before anything is sent."""
    script = command[0].removeprefix("./") if command else ""
    if not script.endswith(".py") or script.startswith("/"):
        return
    paths = [file.path for file in code.snapshot.files]
    if script not in paths:
        near = nearest(script, paths)
        hint = f"Did you mean {near!r}?" if near else "Name it relative to the launched folder."
        raise BadCommand(f"{script!r} is not among the files of this folder.", hint=hint)


def _counted(frames: Iterator[bytes], total: int, say: Callable[[int, int], None]) -> Iterator[bytes]:
    done = 0
    for frame in frames:
        yield frame
        done = min(total, done + len(frame))
        say(done, total)
