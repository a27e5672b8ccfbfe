"""Shell completion with the lazy root, and without a server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from muster.cli import root
from muster.cli.main import main

Complete = Callable[[str], tuple[list[str], str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Press Tab after these words in bash; what is offered, and what is complained about."""

    def press_tab(words: str) -> tuple[list[str], str]:
        monkeypatch.setenv("_MUSTER_COMPLETE", "complete_bash")
        monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        with pytest.raises(SystemExit):
            main(["x"])
        printed = capsys.readouterr()
        return printed.out.split(), printed.err

    return press_tab


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("muster r", ["run", "restore"]),
        ("muster ", list(root.GROUPS)),
        ("muster run st", ["stop"]),
        ("muster entity member ", ["add", "remove"]),
        ("muster run list --st", ["--state"]),
        ("muster run list --state s", ["starting", "stopping", "succeeded", "stopped"]),
    ],
)
def test_commands_and_options_are_completed(complete: Complete, words: str, completed: list[str]) -> None:
    assert complete(words) == (completed, "")


@pytest.mark.parametrize("words", ["muster run show ", "muster launch -q "])
def test_without_a_server_completion_is_silent(complete: Complete, words: str) -> None:
    assert complete(words) == ([], "")


def test_the_script_for_bash_can_be_shown() -> None:
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    words = [sys.executable, "-m", "muster.cli", "--show-completion", "bash"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert "complete -o default -F _muster_completion muster" in done.stdout
