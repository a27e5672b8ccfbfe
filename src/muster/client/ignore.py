"""What of a folder never goes along with a run: caches, environments, and what ignore files name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muster.domain.errors import BadSnapshot

if TYPE_CHECKING:
    from pathspec.pattern import RegexPattern

NEVER = frozenset(
    {".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)


class LeftOut:
    """Tells what stays behind under `root`, by the ignore files of the given names at every level.

    Each kind of ignore file decides by itself: what one of them names stays behind, whatever the other says.
    """

    def __init__(self, root: Path, ignore_files: Sequence[str]) -> None:
        self._root = str(root)
        self._ignore_files = ignore_files
        self._patterns: dict[tuple[str, str], list[RegexPattern]] = {}
        self._folders: dict[str, bool] = {"": False}

    def folder(self, path: str) -> bool:
        known = self._folders.get(path)
        if known is None:
            parent, _, name = path.rpartition("/")
            place = os.path.join(self._root, path)
            known = self._folders[path] = (
                name in NEVER
                or self.folder(parent)
                or os.path.exists(os.path.join(place, "pyvenv.cfg"))
                or os.path.islink(place)  # what lies behind a link goes along where it is, or not at all
                or self._ignored(path, is_folder=True)
            )
        return known

    def file(self, path: str) -> bool:
        parent, _, name = path.rpartition("/")
        return (
            name in NEVER
            or name.endswith(".pyc")
            or self.folder(parent)
            or self._ignored(path, is_folder=False)
        )

    def _ignored(self, path: str, *, is_folder: bool) -> bool:
        return any(self._ignored_by(name, path, is_folder=is_folder) for name in self._ignore_files)

    def _ignored_by(self, ignore_file: str, path: str, *, is_folder: bool) -> bool:
        """As git does it: the last matching line of the nearest file that has one decides."""
        folder, _, inside = path.rpartition("/")
        while True:
            for pattern in self._patterns_of(ignore_file, folder):
                if _names(pattern, inside, is_folder=is_folder):
                    return bool(pattern.include)
            if not folder:
                return False
            folder, _, name = folder.rpartition("/")
            inside = f"{name}/{inside}"

    def _patterns_of(self, ignore_file: str, folder: str) -> list[RegexPattern]:
        if (ignore_file, folder) not in self._patterns:
            path = os.path.join(self._root, folder, ignore_file)
            self._patterns[ignore_file, folder] = _read_ignore_file(Path(path))
        return self._patterns[ignore_file, folder]


def _names(pattern: RegexPattern, path: str, *, is_folder: bool) -> bool:
    """Whether a pattern means this very path, and not just a folder above it.

    `GitIgnoreSpec.match_file` cannot tell: it is made for files alone, not for a walk from folder to folder.
    Its expressions mark with `ps_d` the slash behind a folder that they matched.
    """
    assert pattern.regex is not None  # noqa: S101 - comments and blank lines are not kept
    if any(match.groupdict().get("ps_d") is None for match in pattern.regex.finditer(path)):
        return True
    if not is_folder:
        return False
    return any(
        match.groupdict().get("ps_d") and match.end("ps_d") == len(path) + 1
        for match in pattern.regex.finditer(path + "/")
    )


def _read_ignore_file(path: Path) -> list[RegexPattern]:
    """Its patterns, the last one first."""
    try:
        text = path.read_text("utf-8-sig", errors="surrogateescape")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return []
    except OSError as error:
        raise BadSnapshot(
            f"{path} cannot be read: {error.strerror}.", hint="Make it readable, or remove it."
        ) from error

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    patterns: list[RegexPattern] = []
    for line in reversed(text.split("\n")):
        try:
            pattern = GitIgnoreSpecPattern(line.removesuffix("\r"))
        except ValueError:
            continue  # git passes over a line that it cannot read, too
        if pattern.include is not None:
            patterns.append(pattern)
    return patterns
