"""Muster in the field: a server that pods can reach, and an agent for the cluster."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from cluster.cluster import Cluster
from installation import MUSTER, Installation, until
from muster.client.sdk import Run, launch
from muster.client.sync import Client
from muster.wire.queues import QueueRequest
from servers import Server


class Field:
    """Queues of this server run in one namespace of the cluster."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._folder = folder
        self._files = Installation(folder)
        key = self._files.muster("server", "init", "--user", "ann", check=True).stdout.strip()
        self._files.env["MUSTER_API_KEY"] = key
        self._server = Server(
            folder / "server.log", self._files.env, options=("--host", cluster.host_address)
        )
        self._files.env["MUSTER_URL"] = self._server.url
        self._agent: subprocess.Popen[bytes] | None = None
        self.log = folder / "agent.log"

    @cached_property
    def client(self) -> Client:
        return self._server.client()

    def muster(self, *words: str) -> str:
        """Type a command; what it printed."""
        return self._files.muster(*words, check=True).stdout

    def queue(self, name: str, config: Any, **given: Any) -> None:
        request = QueueRequest(name=name, resource="kubernetes", config=config, **given)
        self.client.create_queue(request)

    def start_agent(
        self, *queues: str, name: str = "in-cluster", kubeconfig: Path | None = None, **env: str
    ) -> None:
        """Returns once it serves them."""
        settings = {
            "engine": "kubernetes",
            "queues": list(queues),
            "name": name,
            "data_dir": str(self._folder / name),
            "kubernetes": {
                "kubeconfig": str(kubeconfig or self.cluster.kubeconfig),
                "namespace": self.namespace,
            },
        }
        config = self._folder / f"{name}.yaml"
        config.write_text(json.dumps(settings))
        mark = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._agent = subprocess.Popen(
                [*MUSTER, "agent", "--config", str(config)],
                env={**self._files.env, **env},
                stdout=log,
                stderr=log,
            )
        until(lambda: "serves" in self.log.read_text()[mark:], what=f"an agent; see {self.log}")

    def agent_died(self) -> bool:
        return self._agent is not None and self._agent.poll() is not None

    def kill_agent(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._agent is not None:
            self._agent.send_signal(how)
            self._agent.wait(30)
            self._agent = None

    def launch(self, queue: str, command: list[str], **options: Any) -> Run:
        return launch(command=command, queue=queue, client=self.client, **options)

    def left(self, run: Run) -> list[str]:
        """What of a run is in the cluster."""
        kinds = "jobs,pods,secrets,services,configmaps"
        words = ("get", kinds, f"--namespace={self.namespace}", f"--selector=muster.dev/run-id={run.id}")
        return self.cluster.kubectl(*words, "--output=name").split()

    def close(self) -> None:
        self.kill_agent(signal.SIGTERM)
        self.client.close()
        self._server.end()
