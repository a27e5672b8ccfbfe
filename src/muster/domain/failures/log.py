"""The log of one member: whose line is whose, and what its launcher said about its ranks.

One member may be many processes whose lines mix. Three things tell them apart: PyTorch begins the lines
of a traceback with `[rank3]: `, torchrun can begin every line with `[default1]:` (a local rank), and at
the end torchrun prints a table of failures, or Muster's plain launcher one line a failed rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MAX_CHARS = 256 * 1024
MAX_LINES = 4000
MAX_LINE = 2000

# Colours, titles and cursor moves; then what is no text at all (PostgreSQL refuses NUL, UTF-8 surrogates).
_UNPRINTABLE = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]"
    r"|\x1b\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)"
    r"|\x1b[@-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]"
)
_PREFIX = re.compile(r"(?:\[default(?P<local>\d{1,6})\]:)?(?:\[rank(?P<rank>\d{1,7})\]: ?)?", re.ASCII)
_PLAIN_EXIT = re.compile(
    r"muster: rank (?P<rank>\d{1,7}) \(local (?P<local>\d{1,6})\) exited with (?P<code>\d{1,9})$", re.ASCII
)
_CHATTER = re.compile(
    r"[IWE]\d{4} [\d:.]{1,20} \d{1,9} torch/distributed/|frame #\d{1,4}: |Exception raised from "
)
_ROOT_CAUSE = "Root Cause (first observed failure):"
_ENTRY_RANK = re.compile(r" {2}rank +: (?P<rank>\d{1,7}) \(local_rank: (?P<local>\d{1,6})\)", re.ASCII)
_ENTRY_CODE = re.compile(r" {2}exitcode +: (?P<code>-?\d{1,9}) ", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Line:
    text: str
    rank: int | None = None
    local_rank: int | None = None

    @property
    def is_named(self) -> bool:
        return self.rank is not None or self.local_rank is not None


@dataclass(frozen=True, kw_only=True)
class RankExit:
    """How the launcher saw one rank end. As Python does, a negative code is a signal."""

    rank: int
    local_rank: int
    code: int


@dataclass(frozen=True, kw_only=True)
class MemberLog:
    lines: tuple[Line, ...]  #: what the program printed, without what its launcher did
    exits: tuple[RankExit, ...]  #: failed ranks, the first one first

    @classmethod
    def read(cls, text: str) -> Self:
        lines = [_line(text) for text in clean_lines(text)]
        report = _torchrun_report(lines)
        exits = _torchrun_exits(lines[report])
        del lines[report]
        exits += [found for line in lines if (found := _plain_exit(line))]
        own = (line for line in lines if not _CHATTER.match(line.text) and not _plain_exit(line))
        return cls(lines=tuple(own), exits=tuple(exits))

    def surely_of(self, rank: int | None, local_rank: int | None = None) -> list[str]:
        """The lines that say they are of this rank."""
        return [line.text for line in self.lines if line.is_named and _is_of(line, rank, local_rank)]

    def perhaps_of(self, rank: int | None, local_rank: int | None = None) -> list[str]:
        """The lines that do not say they are of another; without a rank, all."""
        is_any = rank is None
        return [
            line.text for line in self.lines if is_any or not line.is_named or _is_of(line, rank, local_rank)
        ]

    def ranks(self) -> tuple[int, ...]:
        """The ranks that named themselves, in order of their first word."""
        return tuple(dict.fromkeys(line.rank for line in self.lines if line.rank is not None))


def clean_lines(text: str) -> list[str]:
    """The last lines of any text: no colours, no control characters, of a progress bar the last state."""
    cut = _UNPRINTABLE.sub("", text[-MAX_CHARS:])
    return [_last_state(line)[:MAX_LINE] for line in cut.split("\n")[-MAX_LINES:]]


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _line(text: str) -> Line:
    match = _PREFIX.match(text)
    if match is None or not match.end():
        return Line(text=text)
    rank, local = match["rank"], match["local"]
    return Line(
        text=text[match.end() :],
        rank=None if rank is None else int(rank),
        local_rank=None if local is None else int(local),
    )


def _is_of(line: Line, rank: int | None, local_rank: int | None) -> bool:
    if line.rank is not None:
        return line.rank == rank
    return line.local_rank == local_rank


def _torchrun_report(lines: Sequence[Line]) -> slice:
    """Where torchrun's own traceback and its table stand; empty if it printed none."""
    texts = [line.text for line in lines]
    root = _last(texts, len(texts), _ROOT_CAUSE)
    if root is None:
        return slice(0)
    error = _last(texts, root, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
    start = root if error is None else _last(texts, error, "Traceback (most recent call last):")
    end = next((at for at in range(root, len(texts)) if texts[at].startswith("=====")), len(texts))
    return slice(root if start is None else start, end + 1)


def _last(texts: Sequence[str], before: int, beginning: str) -> int | None:
    """The last line before this one that begins so."""
    return next((at for at in range(before - 1, -1, -1) if texts[at].startswith(beginning)), None)


def _torchrun_exits(report: Sequence[Line]) -> list[RankExit]:
    """The root cause, then the others; not those that torchrun itself ended with SIGTERM."""
    exits: list[RankExit] = []
    is_root, who = False, None
    for line in report:
        is_root = is_root or line.text == _ROOT_CAUSE
        who = _ENTRY_RANK.match(line.text) or who
        code = _ENTRY_CODE.match(line.text)
        if who is None or code is None:
            continue
        found = RankExit(rank=int(who["rank"]), local_rank=int(who["local"]), code=int(code["code"]))
        if is_root:
            return [found, *exits]
        if found.code != -15:
            exits.append(found)
    return exits


def _plain_exit(line: Line) -> RankExit | None:
    match = _PLAIN_EXIT.match(line.text)
    if match is None or not int(match["code"]):
        return None
    return RankExit(rank=int(match["rank"]), local_rank=int(match["local"]), code=int(match["code"]))
