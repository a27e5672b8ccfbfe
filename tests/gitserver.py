"""A real git repository behind a real git server, on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from installation import until

_ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.com",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.com",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **_ENV}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True, kw_only=True)
class GitServer:
    root: Path
    port: int

    def url(self, name: str = "acme/train.git") -> str:
        return f"git://127.0.0.1:{self.port}/{name}"

    def repository(self, name: str = "acme/train.git") -> Path:
        """A new repository that is served; what is committed in it can be fetched at once."""
        folder = self.root / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        return folder

    def commit(self, folder: Path, **files: str) -> str:
        """Files by name, `__` for a dot, `_in_` for a slash."""
        for name, text in files.items():
            path = folder / name.replace("_in_", "/").replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", "change")
        return git(folder, "rev-parse", "HEAD")


@contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["git", "daemon", "--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen([*words, f"--base-path={root}", str(root)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), what="git daemon")
        yield GitServer(root=root, port=port)
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
