"""A whole Muster as a user has it: `muster up` in a process of its own, with its own files and port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from muster.client.sdk import Run
from muster.client.settings import ClientSettings
from muster.client.sync import Client

T = TypeVar("T")
MUSTER = (sys.executable, "-m", "muster.cli")


def until(look: Callable[[], T | None], *, seconds: float = 30.0, what: str = "") -> T:
    """Wait on a condition, with a deadline; what it returned when it held."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or look}")
        time.sleep(0.02)


class Installation:
    """Start it, kill parts of it, start it again."""

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.data = folder / "data"
        self.log = folder / "muster.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self.env = {
            **os.environ,
            "HOME": str(folder / "home"),
            "MUSTER_DATA_DIR": str(self.data),
            "MUSTER_LOCK_DIR": str(folder / "locks"),
            **(env or {}),
        }
        for name in ("MUSTER_URL", "MUSTER_API_KEY", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            self.env.pop(name, None)
        (folder / "home").mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.data / "local.key").read_text().strip()

    def start(self, *options: str) -> None:
        """`muster up`; returns when it says it is ready."""
        mark = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*MUSTER, "up", "--port", str(self.port), *options],
                env=self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        said = until(lambda: self._said_ready(mark), what=f"ready; see {self.log}")
        self.port = int(said)
        self.env["MUSTER_URL"] = self.url

    def _said_ready(self, mark: int) -> str | None:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"muster up ended: {self.log.read_text()}")
        found = re.search(r"ready at http://127\.0\.0\.1:(\d+)", self.log.read_text()[mark:])
        return found[1] if found else None

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signum)
        return self._process.wait(60)

    def server_pid(self) -> int:
        if self._process is None:
            raise AssertionError("not started")
        return self._process.pid

    def agent_pids(self) -> list[int]:
        """Every agent process of this installation, whoever is its parent."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"agent" in words and str(self.data).encode() in words:
                    found.append(int(entry.name))
        return found

    def kill_agent(self) -> None:
        for pid in self.agent_pids():
            os.kill(pid, signal.SIGKILL)

    def kill_server(self) -> None:
        os.kill(self.server_pid(), signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)

    def destroy(self) -> None:
        """End everything, runs too."""
        if self._client is not None:
            self._client.close()
        self.stop()
        self.kill_agent()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_of(entry, self.data):
                os.kill(int(entry.name), signal.SIGKILL)

    def client(self) -> Client:
        if self._client is None or self._client.url != self.url:
            self._client = Client(settings=ClientSettings(url=self.url, api_key=self.key))
        return self._client

    def launch(self, command: str | list[str], **options: object) -> Run:
        from muster.client.sdk import launch

        return launch(command=command, client=self.client(), **options)  # type: ignore[arg-type]

    def muster(
        self, *arguments: str, cwd: Path | None = None, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Type a command."""
        return subprocess.run(
            [*MUSTER, *arguments],
            env=self.env,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            check=check,
        )


def _is_of(process: Path, data: Path) -> bool:
    try:
        return f"{data}/".encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def text_of(run: Run, rank: int = 0) -> str:
    """All of one replica's log, as the server has it."""
    return "".join(f"{line}\n" for line in run.logs(rank=rank))
