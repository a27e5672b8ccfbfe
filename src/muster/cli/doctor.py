"""`muster doctor`: is everything in place? A check is one function in the table `CHECKS`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from muster._version import __version__
from muster.cli.main import FAILED
from muster.cli.options import Json
from muster.cli.output import show, show_json
from muster.cli.words import count
from muster.client.settings import config_path, data_dir, load, read_config
from muster.domain.errors import MusterError
from muster.domain.resources import readable_bytes

if TYPE_CHECKING:
    from muster.client.sync import Client

app = typer.Typer(add_completion=False)

GIB = 2**30
LOCAL = "local"


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_SIGNS = {Grade.OK: ("✔", "green"), Grade.WARN: ("!", "yellow"), Grade.FAIL: ("✘", "red")}


@dataclass(frozen=True, kw_only=True)
class Finding:
    check: str
    grade: Grade
    summary: str
    advice: str = ""


@dataclass(frozen=True)
class Result:
    """What a check says; the table adds which check it was."""

    grade: Grade
    summary: str
    advice: str = ""


def ok(summary: str) -> Result:
    return Result(Grade.OK, summary)


def warn(summary: str, advice: str) -> Result:
    return Result(Grade.WARN, summary, advice)


def fail(summary: str, advice: str) -> Result:
    return Result(Grade.FAIL, summary, advice)


def check_config() -> Result:
    path = config_path(os.environ)
    known = read_config(path)
    settings = load()
    where = str(path) if known else "no config file, which is fine"
    if "api_key" in known and path.stat().st_mode & 0o077:
        return warn(f"others can read {path}", f"It has your key: chmod 600 {path}")
    return ok(f"{settings.url} ({where})")


def check_server(client: Client) -> Result:
    me = client.get_me()
    if me.server_version != __version__:
        return warn(
            f"{client.url} has version {me.server_version}, this is {__version__}",
            "Use the same version on both sides.",
        )
    return ok(f"{client.url} answers, version {me.server_version}")


def check_identity(client: Client) -> Result:
    me = client.get_me()
    return ok(f"signed in as {me.name}, entity {client.settings.entity or me.default_entity}")


def check_agents(client: Client) -> Result:
    agents = client.list_agents().items
    online = [agent for agent in agents if agent.online]
    if not online:
        known = f"none of {count(len(agents), 'agent')} is online" if agents else "there is no agent"
        return warn(f"{known}: runs will wait", "Start one: `muster up` here, or `muster agent` elsewhere.")
    names = ", ".join(agent.name for agent in online[:5])
    return ok(f"{count(len(online), 'agent')} online: {names}")


def check_queue(client: Client) -> Result:
    queues = {queue.name: queue for queue in client.list_queues(entity=client.settings.entity).items}
    if LOCAL not in queues:
        there = f"others: {', '.join(sorted(queues))}" if queues else "nor any other"
        return warn(f"there is no {LOCAL!r}; {there}", "Name a queue when launching: -q QUEUE")
    if queues[LOCAL].paused_at is not None:
        return warn(f"{LOCAL} is paused", f"muster queue resume {LOCAL}")
    return ok(f"{LOCAL}: {queues[LOCAL].waiting} waiting, {queues[LOCAL].running} running")


def check_python() -> Result:
    return ok(f"{platform.python_version()} at {sys.executable}")


def check_uv() -> Result:
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found:
        return ok(found)
    return warn("not found: environments of runs are made with pip, slowly", "Install it: pip install uv")


def check_git() -> Result:
    found = shutil.which("git")
    return ok(found) if found else warn("not found: launches do not record the commit", "Install git.")


def check_torch() -> Result:
    if importlib.util.find_spec("torch") is None:
        return warn(
            "not in this Python: runs that need it must bring it", "Name it in the code's requirements.txt."
        )
    from importlib.metadata import version

    return ok(version("torch"))


def check_disk() -> Result:
    place = data_dir(os.environ)
    there = next(path for path in (place, *place.parents) if path.exists())
    free = shutil.disk_usage(there).free
    said = f"{readable_bytes(free)} free for {place}"
    advice = "Delete old runs, or move it: MUSTER_DATA_DIR"
    if free < GIB:
        return fail(said, advice)
    return warn(said, advice) if free < 10 * GIB else ok(said)


#: Checks of this machine, then those that ask the server. To add one, add a function and its row.
CHECKS: dict[str, Callable[[], Result]] = {
    "config": check_config,
    "python": check_python,
    "uv": check_uv,
    "git": check_git,
    "torch": check_torch,
    "disk": check_disk,
}
SERVER_CHECKS: dict[str, Callable[[Client], Result]] = {
    "server": check_server,
    "sign-in": check_identity,
    "agents": check_agents,
    "queue": check_queue,
}


def findings() -> Iterator[Finding]:
    for name, check in CHECKS.items():
        yield _finding(name, check)
    from muster.client.sync import Client

    try:
        client = Client()
    except MusterError:
        return  # the settings cannot be used, as the first check has said
    with client:
        for name, ask in SERVER_CHECKS.items():
            finding = _finding(name, lambda ask=ask: ask(client))  # type: ignore[misc]
            yield finding
            if finding.grade is Grade.FAIL:
                return  # the others would say the same


def _finding(name: str, check: Callable[[], Result]) -> Finding:
    try:
        result = check()
    except MusterError as error:
        result = fail(error.detail, error.hint)
    return Finding(check=name, grade=result.grade, summary=result.summary, advice=result.advice)


@app.command()
def doctor(json: Json = False) -> None:
    """Check this machine and the server. Exits with 1 if a check fails."""
    found = []
    for finding in findings():
        found.append(finding)
        if not json:
            _show(finding)
    if json:
        show_json({"items": [asdict(finding) for finding in found], "next": None})
    if any(finding.grade is Grade.FAIL for finding in found):
        raise typer.Exit(FAILED)


def _show(finding: Finding) -> None:
    sign, style = _SIGNS[finding.grade]
    show(Text(f"{sign} {finding.grade:<4}  ", style=style), f"{finding.check:<8} {finding.summary}")
    if finding.advice:
        show(f"{'':8}→ {finding.advice}")
