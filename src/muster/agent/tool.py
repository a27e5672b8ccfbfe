"""Running a tool that says what it does: installers, git. It ends with whoever started it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

Say = Callable[[str], None]

_KEPT = 200  #: lines of output that are remembered to find the complaint


async def run_tool(
    command: Sequence[str],
    workdir: Path,
    say: Say,
    *,
    env: Mapping[str, str],
    inherit: Collection[int] = (),
) -> tuple[int, list[str]]:
    """Run a tool, saying each line as it comes; its exit status and its last lines.

    Ends with everything it started when this is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=workdir,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(inherit),
    )
    try:
        lines = await _read_lines(process, say)
        return await process.wait(), lines
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        raise


async def _read_lines(process: asyncio.subprocess.Process, say: Say) -> list[str]:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    lines: list[str] = []
    rest = b""
    while chunk := await process.stdout.read(2**16):
        # Cut by hand: StreamReader.readline raises on a line that is longer than its buffer.
        *whole, rest = re.split(rb"[\r\n]+", rest + chunk)
        if len(rest) > 2**16:
            whole, rest = [*whole, rest], b""
        for raw in whole:
            _add_line(raw, lines, say)
    _add_line(rest, lines, say)
    return lines


def _add_line(raw: bytes, lines: list[str], say: Say) -> None:
    line = raw.decode(errors="replace").rstrip()
    if line:
        say(line)
        lines.append(line)
        del lines[:-_KEPT]


def say_nothing(line: str) -> None:
    pass
