"""Bringing a folder of code to the server: only what it does not have yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from muster.client.api import AsyncClient
from muster.client.code import CollectedCode, collect, pack
from muster.domain.errors import BadCommand, nearest
from muster.wire.code import SnapshotModel, SnapshotRequest
from muster.wire.runs import MAX_SOURCE_NAME

Progress = Callable[[str, int, int], None]  #: what, done bytes, all bytes


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
    script = command[0].removeprefix("./")
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
