from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from installation import Installation
from muster.cli.main import main


@pytest.fixture(scope="session")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One server with one agent for all tests of the command line."""
    installation = Installation(tmp_path_factory.mktemp("muster"))
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()


class Terminal:
    """Types commands without starting a Python for each: `main` is all that `muster` calls."""

    def __init__(
        self, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._env = env
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def type(
        self,
        *words: str,
        status: int = 0,
        stdin: str = "",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[str, str]:
        """What it printed on stdout and stderr; it must end with `status`."""
        with self._monkeypatch.context() as patch:
            for name in ("MUSTER_API_KEY", "MUSTER_ENTITY", "MUSTER_PROJECT"):
                patch.delenv(name, raising=False)
            for name in ("HOME", "MUSTER_URL", "MUSTER_DATA_DIR"):
                patch.setenv(name, self._env[name])
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            if cwd is not None:
                patch.chdir(cwd)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            self._capsys.readouterr()
            ended = main(words)
        printed = self._capsys.readouterr()
        assert ended == status, printed.err
        return printed.out, printed.err

    def out(self, *words: str, **how: Any) -> str:
        return self.type(*words, **how)[0]

    def refused(self, *words: str, status: int, **how: Any) -> str:
        """What is said on stderr; nothing is printed."""
        out, err = self.type(*words, status=status, **how)
        assert out == ""
        return err

    def json(self, *words: str, **how: Any) -> Any:
        """The one JSON document that is printed."""
        before, dashes, after = _split(words)
        return json.loads(self.out(*before, "--json", *dashes, *after, **how))


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    if "--" not in words:
        return words, (), ()
    place = words.index("--")
    return words[:place], ("--",), words[place + 1 :]


@pytest.fixture
def terminal(
    muster: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    return Terminal(muster.env, monkeypatch, capsys)
