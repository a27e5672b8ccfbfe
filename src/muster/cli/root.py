"""The root of the command tree. A group's module is imported when the group is used, not before."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from muster._version import __version__
from muster.cli.command import dress
from muster.domain.errors import MusterError

#: name → what it does, in the order of the help. `muster NAME` is `app` of `muster.cli.NAME`.
GROUPS: dict[str, str] = {
    "up": "Start a server and a local agent on this machine.",
    "server": "Start a server alone, or set one up.",
    "agent": "Start an agent, or list the agents.",
    "launch": "Launch a run: code, a command, or both.",
    "login": "Sign in to a server, or show who you are.",
    "key": "Make, list and revoke API keys; add users.",
    "entity": "Teams: create them, see and change who is in them.",
    "queue": "Queues: create, look at, change, pause.",
    "job": "Jobs: recorded recipes in versions, to launch again.",
    "run": "Runs: list, look at, follow, explain, stop.",
    "migrate": "Move an installation to another database.",
    "backup": "Back up a server on this machine to one file.",
    "restore": "Put a backup back.",
    "operator": "Give a cluster the PyTorchTrainingJob resource.",
    "doctor": "Check that everything is in place.",
}
Command = TyperCommand | TyperGroup


class GroupMissing(MusterError):
    code = "group_missing"
    title = "Not part of this installation"


@cache
def load(name: str) -> Command:
    """The command or group called `name`, with all that is under it."""
    module = f"muster.cli.{name}"
    try:
        app: typer.Typer = importlib.import_module(module).app
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise GroupMissing(f"This installation has no `muster {name}`.") from error
    dress(app)
    command = get_command(app)
    if not isinstance(command, TyperCommand | TyperGroup):
        raise TypeError(f"{module}.app is {command!r}")
    command.name = name
    command.params = [
        param for param in command.params if param.name not in ("install_completion", "show_completion")
    ]
    return command


class LazyGroup(TyperGroup):
    """Knows its commands by name and help line; loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, line in GROUPS.items():
            self.add_command(TyperCommand(name, help=line, short_help=line, rich_markup_mode=None))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if command is not None and name else None, rest


app = typer.Typer(
    cls=LazyGroup,
    help="Launch machine-learning jobs: on this machine or on a cluster, nothing lost.",
    epilog="Start here: `muster up` in one terminal, `muster launch -f -- echo hello` in another.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def muster(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    pass


@cache
def root() -> TyperGroup:
    command = get_command(app)
    if not isinstance(command, TyperGroup):
        raise TypeError(f"the root is {command!r}")
    return command
