"""The agent of `muster up`: a child process, started again if it dies, stopped before the server is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import structlog

log = structlog.get_logger()

READY_FD = "MUSTER_READY_FD"  #: the agent writes a byte there once it is registered
READY_SECONDS = 30.0
RESTART_SECONDS = 1.0
STOP_SECONDS = 15.0
STOP_RUNS_SECONDS = 130.0


class AgentProcess:
    def __init__(self, *, url: str, data_dir: Path, key_file: Path, max_jobs: int, stop_runs: bool) -> None:
        self._command = [sys.executable, "-m", "muster.cli", "agent", "--name", "local", "--queue", "local"]
        self._command += ["--data-dir", str(data_dir), "--max-jobs", str(max_jobs)]
        self._command += ["--stop-runs"] if stop_runs else []
        self._patience = STOP_RUNS_SECONDS if stop_runs else STOP_SECONDS
        self._env = {**os.environ, "MUSTER_URL": url, "MUSTER_API_KEY": key_file.read_text().strip()}
        self._keeper: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns once the agent is registered, or has had its time to be."""
        registered = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(registered))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(registered.wait(), READY_SECONDS)

    async def stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), self._patience)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _keep(self, registered: asyncio.Event) -> None:
        while True:
            await self._run_once(registered)
            log.warning("the local agent ended; starting it again")
            await asyncio.sleep(RESTART_SECONDS)

    async def _run_once(self, registered: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        # A session of its own: Ctrl-C reaches us alone, and we stop the agent while we still answer it.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env={**self._env, READY_FD: str(writer)},
            pass_fds=(writer,),
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(writer)

        def on_word() -> None:
            loop.remove_reader(reader)
            os.close(reader)
            registered.set()

        loop.add_reader(reader, on_word)
        await self._process.wait()


def say_ready() -> bool:
    """The agent's side: tell whoever started us. False: nobody wants to know."""
    descriptor = os.environ.pop(READY_FD, None)
    if descriptor is None:
        return False
    with contextlib.suppress(OSError):
        os.write(int(descriptor), b"1")
        os.close(int(descriptor))
    return True
