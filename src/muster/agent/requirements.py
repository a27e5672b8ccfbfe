"""What the code in a folder asks to have installed, read from the files that say so."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.domain.errors import LocalProblem

_COMMENT = re.compile(r"(?:^|\s)#.*")
_INCLUDE = re.compile(r"(?:--(?:requirement|constraint)[\s=]+|-[rc]\s*)(\S.*)")
_FROM_PLACE = re.compile(r"(?:--editable|--find-links|-[ef])[\s=]*(.*)")
_ARCHIVE = re.compile(r"[^:]*\.(?:whl|zip|tar\.gz)")


class EnvironmentFailed(LocalProblem):
    """What the code asks for cannot be read or installed."""

    code = "environment_failed"
    title = "The Python environment could not be made"


@dataclass(frozen=True, kw_only=True)
class Requirements:
    source: str  #: the file that says it, as people call it
    content: tuple[str, ...]  #: equal for folders that ask for the same
    shareable: bool  #: False: something is installed from the folder itself, which is this run's own
    dependencies: tuple[str, ...] | None = None  #: of a project; None: only the tool can read them
    locked: bool = False  #: uv.lock says the exact versions


def read_requirements(workdir: Path) -> Requirements | None:
    """What `requirements.txt` asks for, else `pyproject.toml`; None if neither asks for anything."""
    project_file = _read_toml(workdir / "pyproject.toml")
    uv_settings = _table(_table(project_file, "tool"), "uv")
    settings = (_read(workdir / "uv.toml") or "", json.dumps(uv_settings, sort_keys=True, default=str))
    text = _read(workdir / "requirements.txt")
    if text is not None:
        lines = list(_lines_with_includes(workdir, workdir / "requirements.txt", text, set()))
        return Requirements(
            source="requirements.txt",
            content=(*settings, *lines),
            shareable=not any(map(_is_local, lines)),
        )
    if "project" not in project_file:
        return None
    return _read_project(_table(project_file, "project"), uv_settings, settings, _read(workdir / "uv.lock"))


def _read_project(
    project: Mapping[str, Any], uv_settings: Mapping[str, Any], settings: Iterable[str], lock: str | None
) -> Requirements:
    listed = project.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        raise EnvironmentFailed("pyproject.toml: project.dependencies must be a list of texts.")
    dynamic = "dependencies" in project.get("dynamic", [])
    return Requirements(
        source="pyproject.toml",
        content=(*settings, str(project.get("requires-python")), *listed, lock or ""),
        shareable=not dynamic and not any(map(_is_local, listed)) and not _has_local_sources(uv_settings),
        dependencies=None if dynamic else tuple(listed),
        locked=lock is not None,
    )


def _has_local_sources(uv_settings: Mapping[str, Any]) -> bool:
    return (
        re.search(r'"(?:path|workspace)":', json.dumps(_table(uv_settings, "sources"), default=str))
        is not None
    )


def _lines_with_includes(workdir: Path, path: Path, text: str, seen: set[Path]) -> Iterator[str]:
    """The lines of a requirements file and of those it includes, without what makes no difference."""
    seen.add(path)
    for line in text.replace("\\\n", "").split("\n"):
        asked = " ".join(_COMMENT.sub("", line).split())
        if not asked:
            continue
        yield asked
        include = _INCLUDE.fullmatch(asked)
        if include is None or "://" in include[1]:
            continue
        included = (path.parent / include[1]).resolve()
        if not included.is_relative_to(workdir.resolve()):
            raise EnvironmentFailed(
                f"{path.name} includes {include[1]!r}, which is outside the folder that was taken along.",
                hint="Move it into the folder, or launch the folder above.",
            )
        inner = _read(included)
        if inner is not None and included not in seen:
            yield from _lines_with_includes(workdir, included, inner, seen)


def _is_local(asked: str) -> bool:
    """Whether a requirement is installed from a path, whose content the line does not tell."""
    option = _FROM_PLACE.fullmatch(asked)
    if option is None and asked.startswith("-"):
        return False
    place = (option[1] if option else asked).split(" @ ")[-1].partition(";")[0].strip()
    if "://" in place or place.startswith("file:"):
        return place.startswith("file:")
    return (
        option is not None or "/" in place or place.startswith(".") or _ARCHIVE.fullmatch(place) is not None
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8-sig", errors="backslashreplace")
    except (FileNotFoundError, IsADirectoryError):
        return None


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read(path) or "")
    except tomllib.TOMLDecodeError as error:
        raise EnvironmentFailed(f"{path.name} is not valid TOML: {error}.") from error


def _table(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
