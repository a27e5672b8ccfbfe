"""Directories of plain attempts that are over, emptied and used again.

To make a file costs far more than to write one: the file system looks for a free inode, and one without a
journal looks past all that were freed in the last minutes, longer with every run of a burst. A plain attempt
always needs the same directory with the same three files, so a few are kept and renamed.

A spare is empty before it gets here, and a rename is all or nothing: whoever is killed when, a directory is
either an attempt's or a spare, and one just taken says that nothing was started. Agents with the same root
may take each other's.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

KEPT = 16
_FILES = ("started", "r0.exit", "r0.log")  #: in the order in which they are emptied: the intent first


class Spares:
    def __init__(self, root: Path) -> None:
        self._folder = f"{root}/spare"
        for folder in (self._folder, f"{root}/runs"):
            os.makedirs(folder, exist_ok=True)
        self._names = os.listdir(self._folder)

    def keep(self, directory: str) -> bool:
        """Empty the directory and put it aside. False: it is not plain, or there are enough."""
        if len(self._names) >= KEPT:
            return False
        name = os.path.basename(directory)
        try:
            if sorted(os.listdir(directory)) != sorted(_FILES):
                return False
            for file in _FILES:
                os.truncate(f"{directory}/{file}", 0)
            os.rename(directory, f"{self._folder}/{name}")
        except OSError:
            return False
        self._names.append(name)
        return True

    def take(self, directory: str) -> bool:
        """Make a spare this directory, which is not there yet. False: there is none."""
        while self._names:
            with contextlib.suppress(FileNotFoundError):  # another agent took it
                os.rename(f"{self._folder}/{self._names.pop()}", directory)
                return True
        return False
