"""`muster server` and `muster agent`, each in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from installation import MUSTER, until
from muster.client.settings import ClientSettings
from muster.client.sync import Client


@dataclass
class Server:
    """Started when made; its environment says on what database, with what key it is spoken to."""

    log: Path
    env: dict[str, str]
    options: Sequence[str] = ()
    process: subprocess.Popen[bytes] = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*MUSTER, "server", "--port", "0", *self.options], env=self.env, stdout=out, stderr=out
            )
        said = until(lambda: re.search(r"serves at (http://\S+)", self.log.read_text()), what=str(self.log))
        self.url = said[1]

    def client(self) -> Client:
        return Client(settings=ClientSettings(url=self.url, api_key=self.env["MUSTER_API_KEY"]))

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(30)


def start_agent(server: Server, log: Path) -> subprocess.Popen[bytes]:
    """An agent of the queue `local`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [*MUSTER, "agent", "--queue", "local"],
            env={**server.env, "MUSTER_URL": server.url},
            stdout=out,
            stderr=out,
        )
