"""Servers and agents on one machine, each a process of its own, to be killed, frozen and started again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.balancer import Balancer
from installation import MUSTER, Installation, until
from muster.client.settings import ClientSettings
from muster.client.sync import Client
from muster.store.database import sqlite_url

Process = subprocess.Popen[bytes]


@dataclass(kw_only=True)
class Server:
    log: Path
    port: int = 0
    process: Process | None = None

    def announced_port(self) -> int | None:
        said = re.search(r"serves at http://127\.0\.0\.1:(\d+)", self.log.read_text())
        return int(said[1]) if said else None


@dataclass
class Fleet:
    """One server on SQLite; or, with a database to share, several behind a load balancer."""

    home: Path
    database: str | None = None  #: of a PostgreSQL; None: SQLite
    servers: int = 1
    jobs: int = 8  #: each agent takes at once
    env: dict[str, str] = field(default_factory=dict)
    _servers: list[Server] = field(default_factory=list)
    _agents: dict[str, Process] = field(default_factory=dict)
    _balancer: Balancer | None = None

    def set_up(self, agents: int) -> None:
        self.env = Installation(self.home).env
        options = ["--database", self.database] if self.database else []
        made = subprocess.run(
            [*MUSTER, "server", "init", "--user", "drill", *options],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        self.env["MUSTER_API_KEY"] = made.stdout.strip()
        for number in range(self.servers):
            self._servers.append(Server(log=self.home / f"server-{number}.log"))
            self.start_server(number)
        self.wait_for_servers()
        port = self._servers[0].port
        if self.servers > 1:
            self._balancer = Balancer([server.port for server in self._servers])
            port = self._balancer.port
        self.env["MUSTER_URL"] = f"http://127.0.0.1:{port}"
        for number in range(agents):
            self.start_agent(f"agent-{number}")

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def database_url(self) -> str:
        return self.database or sqlite_url(self.data / "muster.db")

    @property
    def agents(self) -> list[str]:
        return sorted(self._agents)

    def client(self) -> Client:
        return Client(settings=ClientSettings(url=self.env["MUSTER_URL"], api_key=self.env["MUSTER_API_KEY"]))

    def start_server(self, number: int = 0, *, env: Mapping[str, str] | None = None) -> None:
        """Start it, and do not wait: see `wait_for_servers`."""
        server = self._servers[number]
        options = ["--database", self.database] if self.database else []
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [*MUSTER, "server", "--port", str(server.port), *options],
                env={**self.env, **(env or {})},
                stdout=log,
                stderr=log,
            )

    def wait_for_servers(self) -> None:
        """Until all have said where they serve."""
        for server in self._servers:
            server.port = until(server.announced_port, seconds=120)

    def all_serve(self) -> bool:
        """Does every server answer? One that was just started takes a while."""
        for server in self._servers:
            try:
                with socket.create_connection(("127.0.0.1", server.port), timeout=1):
                    pass
            except OSError:
                return False
        return True

    def start_agent(self, name: str, *, env: Mapping[str, str] | None = None) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self._agents[name] = subprocess.Popen(
                [*MUSTER, "agent", "--name", name, "--queue", "local", "--max-jobs", str(self.jobs)],
                env={**self.env, **(env or {})},
                stdout=log,
                stderr=log,
            )

    def server(self, number: int = 0) -> Process:
        process = self._servers[number].process
        assert process is not None
        return process

    def agent(self, name: str) -> Process:
        return self._agents[name]

    def kill_server(self, number: int = 0) -> float:
        """The time at which it was killed."""
        return _kill(self.server(number))

    def kill_agent(self, name: str) -> float:
        return _kill(self._agents[name])

    def tear_down(self) -> None:
        """End everything, runs too."""
        processes = [server.process for server in self._servers if server.process is not None]
        for process in (*self._agents.values(), *processes):
            if process.poll() is None:
                _kill(process)
        for pid in self.run_processes():
            os.kill(pid, signal.SIGKILL)
        if self._balancer is not None:
            self._balancer.close()

    def run_processes(self) -> list[int]:
        """Every process of every run, under whatever name: they all carry the place of their files."""
        mark = f"MUSTER_REPLICA_DIR={self.data}/".encode()
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environ.read_bytes():
                    found.append(int(environ.parent.name))
            except OSError:
                continue
        return found

    def leftovers(self) -> list[str]:
        """What is on the host of runs: processes, directories of attempts, scratch, and working directories
        with nothing in them. Code in a working directory stays for a while on purpose, and so does the
        claim of a run."""
        agent = self.data / "agent"
        patterns = ("process/runs/*", "code/.tmp-*")
        left = [path for pattern in patterns for path in agent.glob(pattern)]
        folders = [*agent.glob("work/*"), *agent.glob("work/*/*"), *agent.glob("outputs/*")]
        left += [folder for folder in folders if _is_empty(folder)]
        return [*(f"process {pid}" for pid in self.run_processes()), *map(str, left)]


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except OSError:  # removed meanwhile
        return False


def _kill(process: Process) -> float:
    at = time.time()
    process.kill()
    process.wait()
    return at
