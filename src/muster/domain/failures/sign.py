"""What a row of the table of failure classes is.

A new class is one row, its name in the order of `muster.domain.failures.classes`, and one row with a log
in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sign:
    """One way to know a class: everything that is given must hold."""

    #: Goes on from who failed ("Rank 3 …"). May use the named groups of the patterns and
    #: `{exit_code} {signal} {error} {at} {last}`, and `{package}` where there is a `module`.
    says: str
    words: re.Pattern[str] | None = None  #: in the error and its causes; without one, in the last lines
    reason: re.Pattern[str] | None = None  #: in the engine's own words
    exits: Container[int] | None = None
    signals: Container[int] | None = None
    raised: bool = False  #: there must be a traceback
    echo: bool = False  #: mostly what a rank sees when another one failed: any other cause goes first


@dataclass(frozen=True, kw_only=True)
class FailureClass:
    kind: str
    title: str
    advice: str
    signs: tuple[Sign, ...] = ()  #: none: found elsewhere, by the agent or the engine


def words(pattern: str) -> re.Pattern[str]:
    """A pattern over several lines. Bound every repetition, `.{0,80}`, so that no log can make it slow."""
    return re.compile(pattern, re.MULTILINE)
