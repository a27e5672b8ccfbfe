"""The entry: what it costs, how errors are told, which exit status they have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster._version import __version__
from muster.cli import root
from muster.cli.main import main, verdict
from muster.cli.usage import BadUsage, as_usage
from muster.domain.errors import (
    BadConfigFile,
    BadInput,
    BadVariable,
    Conflict,
    MusterError,
    NotAllowed,
    NotFound,
    NotSignedIn,
    ServerUnreachable,
    Unavailable,
)

HEAVY = ("httpx", "fastapi", "sqlalchemy", "muster.client.api", "muster.server", "rich.table")


@pytest.fixture(autouse=True)
def _nobody_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without server and config: what is sent anywhere ends with status 3."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--version"], (*HEAVY, "typer", "rich", "pydantic", "asyncio")),
        (["--help"], (*HEAVY, "pydantic", "asyncio", "muster.cli.run", "muster.cli.launch")),
        ([], (*HEAVY, "muster.cli.run")),
        (["run", "--help"], HEAVY),
        (["launch", "--help"], HEAVY),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], unwanted: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom muster.cli.main import main\n"
        f"assert main({arguments!r}) == 0\n"
        f"print([name for name in {unwanted!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    assert capsys.readouterr().out == f"muster {__version__}\n"


def test_alone_it_shows_all_groups_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n  {name} ") for name in root.GROUPS]
    assert places == sorted(places)
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rnu"], "Did you mean 'run'?"),
        (["run", "lst"], "Did you mean 'list'"),
        (["run", "list", "--stat", "failed"], "--state"),
        (["run", "list", "--state", "faild"], "faild"),
        (["run", "show", "a", "b"], "unexpected extra argument"),
        (["run", "list", "--limit", "0"], "--limit"),
        (["run", "list", "--mine", "--author", "ann"], "--mine and --author"),
        (["login", "--key", "two words"], "This is not a key."),
        (["login", "not an address", "--key", "k"], "is not the address of a server"),
        (["login", "--show", "http://x"], "--show"),
        (["key", "create", "--admin"], "--admin is for a new user"),
        (["key", "create", "x", "--user", "ann"], "first key"),
        (["queue", "create", "x"], "A queue needs a config."),
        (["queue", "create", "x", "--config", "/no/such.yaml"], "/no/such.yaml cannot be read"),
        (["queue", "create", "x", "--config", "/dev/null"], "/dev/null:1:1: there is nothing here."),
    ],
)
def test_bad_usage_has_status_2_and_says_what_is_wrong(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert told in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["run"], ["launch"], ["queue"], ["run", "show"], ["key", "create"]])
def test_a_command_without_what_it_needs_shows_its_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"Usage: muster {' '.join(arguments)} ")
    assert captured.out == ""


def test_no_server_is_status_3_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "list"]) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: No Muster server answers at http://127.0.0.1:9")
    assert second.startswith("→ Start one here with `muster up`")


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["run", "list", "--json"], 3, "server_unreachable"),
        (["run", "list", "--json", "--nonsense"], 2, "bad_usage"),
        (["launch", "--json", ".", "--"], 2, "bad_usage"),
    ],
)
def test_with_json_an_error_is_a_problem_document_on_stderr(
    arguments: list[str], status: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == status
    captured = capsys.readouterr()
    problem = json.loads(captured.err)
    assert captured.out == ""
    assert problem["code"] == code
    assert problem.keys() == {"type", "title", "status", "detail", "code", "hint", "facts"}


def test_json_behind_the_dashes_is_the_programs_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--", "echo", "--json"]) == 3
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ServerUnreachable("http://x"), 3),
        (NotSignedIn(), 3),
        (NotAllowed("no"), 3),
        (BadUsage("no"), 2),
        (BadConfigFile("no"), 2),
        (BadInput("refused by the server"), 1),
        (BadVariable("refused by the server"), 1),
        (NotFound("run", "x"), 1),
        (Conflict("no"), 1),
        (Unavailable("no"), 1),
        (MusterError("no"), 1),
        (ZeroDivisionError("oh"), 1),
    ],
)
def test_every_kind_of_error_has_its_exit_status(error: Exception, status: int) -> None:
    assert verdict(error)[0] == status


def test_input_refused_here_is_bad_usage() -> None:
    with pytest.raises(BadUsage) as caught, as_usage("--var x"):
        raise BadInput("wrong.", hint="Do it so.", facts={"a": 1})
    assert caught.value.detail == "--var x: wrong."
    assert (caught.value.hint, caught.value.facts) == ("Do it so.", {"a": 1})


@pytest.mark.parametrize("debug", [False, True])
def test_a_traceback_is_shown_only_on_demand(
    debug: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr(root, "load", broken)
    monkeypatch.setenv("MUSTER_DEBUG", "1" if debug else "")
    assert main(["run", "list"]) == 1
    err = capsys.readouterr().err
    assert "Something unexpected happened (ZeroDivisionError: oh no)." in err
    assert ("Traceback" in err) is debug


def test_an_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(root, "load", interrupted)
    assert main(["run", "list"]) == 130
