"""In what order runs are listed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from muster.domain.errors import BadInput


class RunKey(StrEnum):
    """What a list of runs can be sorted by."""

    CREATED = "created"
    NAME = "name"
    STATE = "state"
    QUEUE = "queue"
    PROJECT = "project"
    AUTHOR = "author"
    GPUS = "gpus"
    DURATION = "duration"  #: from its start to its end, or to now; shorter than any if it did not start


@dataclass(frozen=True, kw_only=True)
class RunOrder:
    by: RunKey
    down: bool  #: the greatest first

    @classmethod
    def parse(cls, word: str) -> Self:
        """
        >>> RunOrder.parse("-duration")
        RunOrder(by=<RunKey.DURATION: 'duration'>, down=True)
        """
        try:
            return cls(by=RunKey(word.removeprefix("-")), down=word.startswith("-"))
        except ValueError:
            keys = ", ".join(RunKey)
            raise BadInput(
                f"Runs cannot be sorted by {word[:40]!r}.",
                hint=f"By one of {keys}; with a - before it, the greatest first.",
            ) from None

    def __str__(self) -> str:
        return f"{'-' if self.down else ''}{self.by}"


NEWEST = RunOrder(by=RunKey.CREATED, down=True)
