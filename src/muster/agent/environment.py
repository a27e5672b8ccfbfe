"""The Python environment that a run's code asks for, made once and used by all runs that ask the same.

What is asked stands in `requirements.txt`, else in `pyproject.toml`; of a project only its dependencies
are installed, not the project itself. `uv` does the work, or `venv` and `pip` where there is no uv.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster._failpoint import failpoint
from muster.agent.cachedir import CacheDir, in_thread
from muster.agent.requirements import EnvironmentFailed as EnvironmentFailed
from muster.agent.requirements import Requirements, read_requirements
from muster.agent.tool import Say, run_tool, say_nothing

FORMAT = 1  #: change it when environments are made in another way than before

_COMPLETE = ".complete"  #: written last; an environment without it was cut short
_ABOUT = "import platform, sysconfig; print(platform.python_implementation(), platform.python_version(), sysconfig.get_platform())"  # noqa: E501
#: of the agent's own variables, those that would lead an installer elsewhere
_NOT_FOR_INSTALLERS = frozenset(
    {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT"}
)
_NO_NETWORK = re.compile(
    r"connection refused|dns error|tcp connect|timed out|name resolution|network is unreachable",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\s*(?:error\b|×)", re.IGNORECASE)
#: What uv says that tells a run's user nothing: each package, paths of the environment.
_CHATTER = re.compile(r" [+~-] |Activate with|Using Python|Using CPython|Creating virtual environment")
_TAIL = 12  #: lines of the tool's complaint that are told


@dataclass(frozen=True, kw_only=True)
class PreparedEnvironment:
    bin: Path  #: goes in front of the run's PATH
    key: str  #: name it in `keep` when pruning, as long as a run uses it
    reused: bool


@dataclass(frozen=True, kw_only=True)
class _Interpreter:
    path: str
    about: str  #: implementation, version, platform


class EnvironmentCache:
    """Environments, one folder each. They cannot be moved, so they are made in place."""

    def __init__(self, root: Path) -> None:
        self._cache = CacheDir(root.absolute())

    async def prepare(
        self, workdir: Path, *, python: str | None = None, progress: Say
    ) -> PreparedEnvironment | None:
        """The environment for the code in `workdir`; None if the code asks for none.

        `python` is a version ("3.12") or the path of an interpreter; by default the agent's own.
        """
        wanted = read_requirements(workdir)
        if wanted is None:
            return None
        interpreter = await _find_interpreter(python, workdir, progress)
        key = _key(wanted, interpreter, workdir)
        entry = self._cache.entry(key)
        if not wanted.shareable:
            progress(f"{wanted.source} installs from this folder, so other runs cannot share the environment")

        def waiting() -> None:
            progress("waiting for another run to prepare the same environment")

        async with self._cache.lock(key, waiting=waiting) as lock:
            reused = _is_complete(entry)
            if not reused:
                await in_thread(self._cache.discard, key)
                try:
                    failpoint("environment.before")
                    await _build(entry, wanted, interpreter, workdir, progress, lock)
                    failpoint("environment.after")
                    (entry / _COMPLETE).touch()
                except BaseException:
                    await in_thread(self._cache.discard, key)
                    raise
            self._cache.touch(key)
        return PreparedEnvironment(bin=entry / "bin", key=key, reused=reused)

    async def prune(self, max_bytes: int, *, keep: Collection[str] = ()) -> list[str]:
        """Remove the longest unused environments until the rest fits; never those in `keep`."""
        return await in_thread(self._cache.prune, max_bytes, keep=keep)


def find_uv() -> str | None:
    """The uv installed with Muster, else the one on the PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def _key(wanted: Requirements, interpreter: _Interpreter, workdir: Path) -> str:
    place = None if wanted.shareable else str(workdir.absolute())
    what = json.dumps([FORMAT, interpreter.about, wanted.content, place])
    return hashlib.sha256(what.encode()).hexdigest()


def _is_complete(entry: Path) -> bool:
    """The interpreter is a link to one outside, which may have been removed since."""
    return (entry / _COMPLETE).exists() and (entry / "bin" / "python").exists()


async def _build(
    entry: Path, wanted: Requirements, interpreter: _Interpreter, workdir: Path, progress: Say, lock: int
) -> None:
    for command in _commands(entry, wanted, interpreter.path, find_uv()):
        # The installer inherits the lock: if the agent is killed, the next one waits for its end.
        env = _environment() | {"UV_PROJECT_ENVIRONMENT": str(entry)}
        status, lines = await run_tool(command, workdir, _useful(progress), env=env, inherit=(lock,))
        if status != 0:
            raise _failure(wanted.source, interpreter.about, lines)


def _commands(entry: Path, wanted: Requirements, python: str, uv: str | None) -> list[list[str]]:
    """What to run, one after the other, to make the environment at `entry`."""
    inside = str(entry / "bin" / "python")
    if uv is None:
        make = [python, "-m", "venv", str(entry)]
        if wanted.dependencies == ():
            return [make]  # pip refuses to install nothing
        asked = ["-r", wanted.source] if wanted.dependencies is None else ["--", *wanted.dependencies]
        return [make, [inside, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *asked]]
    make = [uv, "venv", "--no-project", "--python", python, str(entry)]
    if wanted.locked:
        what_else = ["--no-install-project", "--no-default-groups"]
        return [make, [uv, "sync", "--frozen", *what_else, "--python", inside]]
    # For a project file, `-r` means its dependencies without the project.
    return [make, [uv, "pip", "install", "--python", inside, "-r", wanted.source]]


async def _find_interpreter(python: str | None, workdir: Path, progress: Say) -> _Interpreter:
    if python is None:
        about = f"{platform.python_implementation()} {platform.python_version()} {sysconfig.get_platform()}"
        # The one beneath the agent's virtual environment, which may be upgraded or removed.
        return _Interpreter(path=getattr(sys, "_base_executable", None) or sys.executable, about=about)
    path = python if "/" in python else await _find_version(python, workdir, progress)
    try:
        status, lines = await run_tool(
            [path, "-I", "-S", "-c", _ABOUT], workdir, say_nothing, env=_environment()
        )
    except OSError as error:
        raise _no_interpreter(python, [str(error)]) from error
    if status != 0 or not lines:
        raise _no_interpreter(python, lines)
    return _Interpreter(path=path, about=lines[-1])


async def _find_version(python: str, workdir: Path, progress: Say) -> str:
    uv = find_uv()
    if uv is None:
        path = shutil.which(f"python{python}") or shutil.which(python)
        if path is None:
            raise _no_interpreter(python, [])
        return path
    env = _environment()
    find = [uv, "python", "find", "--no-project", "--system", "--", python]
    status, lines = await run_tool(find, workdir, say_nothing, env=env)
    if status != 0:
        status, lines = await run_tool(
            [uv, "python", "install", "--", python], workdir, _useful(progress), env=env
        )
        if status == 0:
            status, lines = await run_tool(find, workdir, say_nothing, env=env)
    if status != 0 or not lines:
        raise _no_interpreter(python, lines)
    return lines[-1]


def _useful(say: Say) -> Say:
    """Without the chatter."""
    return lambda line: None if _CHATTER.match(line) else say(line)


def _environment() -> dict[str, str]:
    """The variables of an installer, which runs the build scripts of strangers: no key of the agent."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_FOR_INSTALLERS and not name.startswith("MUSTER_")
    }
    links = [link for link in env.get("PIP_FIND_LINKS", "").split() if "://" in link or _has_files(link)]
    if links and not env.get("UV_FIND_LINKS"):
        env["UV_FIND_LINKS"] = ",".join(links)
    # Compiled once here, an environment is not compiled by every process of every run that uses it.
    settings = {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_COMPILE_BYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return env | settings


def _has_files(folder: str) -> bool:
    path = Path(folder)
    return path.is_dir() and any(path.iterdir())


def _failure(source: str, about: str, lines: Sequence[str]) -> EnvironmentFailed:
    complaint = _complaint(lines)
    if _NO_NETWORK.search(complaint):
        hint = (
            "The agent's machine cannot reach the package index. Give the agent UV_DEFAULT_INDEX for one it "
            "can reach, or PIP_FIND_LINKS for a folder of wheels."
        )
    else:
        hint = f"Correct {source} so that it can be installed for {about}, and launch again."
    return EnvironmentFailed(f"{source} cannot be installed:\n{complaint}\n", hint=hint)


def _complaint(lines: Sequence[str]) -> str:
    """From the first line that speaks of an error on: what, and how it ends."""
    first = next((index for index, line in enumerate(lines) if _ERROR.match(line)), len(lines) - _TAIL)
    told = lines[max(first, 0) :]
    if len(told) > _TAIL:
        told = [told[0], "…", *told[2 - _TAIL :]]
    return "\n".join(told) or "The tool said nothing."


def _no_interpreter(python: str, lines: Sequence[str]) -> EnvironmentFailed:
    complaint = f"\n{_complaint(lines)}\n" if lines else ""
    return EnvironmentFailed(
        f"There is no Python {python!r} on the agent's machine.{complaint}",
        hint="Install it there, or leave `python` out of the queue's config to use the agent's own.",
    )
