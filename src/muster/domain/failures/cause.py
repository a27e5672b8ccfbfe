"""From the members of a failed attempt to the ranks that may be its cause."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from signal import SIGABRT, SIGINT

from muster.domain.failures.log import MAX_CHARS, MemberLog, RankExit, clean_lines
from muster.domain.failures.trace import Traceback, last_traceback
from muster.domain.observation import Replica, ReplicaState

MAX_MEMBERS = 64  #: looked at, the earliest ended first
MAX_RANKS = 16  #: of one member
LAST_LINES = 40

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class EndedMember:
    """One member of the attempt, with what it left."""

    replica: Replica
    log_tail: str
    error_file: str = ""  #: what TORCHELASTIC_ERROR_FILE holds


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One rank that failed, and all that can be known of it."""

    member: int
    rank: int | None  #: of the whole attempt; None where nothing names it
    exit_code: int | None
    signal: int | None
    reason: str  #: the engine's words about the member
    traceback: Traceback | None
    last_lines: tuple[str, ...]


def causes(members: Sequence[EndedMember]) -> Iterator[Cause]:
    """Whoever may have failed first, the likeliest first. Who was stopped because of another is not one."""
    failed = [m for m in members if m.replica.state is ReplicaState.FAILED]
    lost = [m for m in members if m.replica.state is ReplicaState.LOST]
    for member in sorted(failed or lost, key=_ended)[:MAX_MEMBERS]:
        yield from _causes_in(member)


def _ended(member: EndedMember) -> tuple[datetime, int]:
    at = member.replica.ended_at or _NEVER
    return (at if at.tzinfo else at.replace(tzinfo=UTC)), member.replica.rank


def _causes_in(member: EndedMember) -> Iterator[Cause]:
    log = MemberLog.read(member.log_tail)
    recorded = _recorded_traceback(member.error_file)
    # torchrun may call the wrong rank the root cause: one whose peer vanished can be dead before the peer,
    # still at its clean-up, is; that one then counts as stopped by torchrun. Its traceback tells.
    failed = {found.rank for found in log.exits}
    raised = [r for r in log.ranks()[:MAX_RANKS] if r not in failed and last_traceback(log.surely_of(r))]
    if log.exits:
        for found in log.exits[:MAX_RANKS]:
            yield _cause(member, log, found.rank, found.local_rank, found.code, None, recorded)
            recorded = None  # it is of the rank that torchrun calls the root cause
        for rank in raised:
            yield _cause(member, log, rank, None, None, None, None)
    else:
        for either in raised or [None]:
            code, signal = member.replica.exit_code, member.replica.signal
            yield _cause(member, log, either, None, code, signal, recorded)


def _cause(
    member: EndedMember,
    log: MemberLog,
    rank: int | None,
    local_rank: int | None,
    code: int | None,
    signal: int | None,
    recorded: Traceback | None,
) -> Cause:
    pass


def _signal_in(code: int) -> tuple[int | None, int | None]:
    """Exit code and signal: Python says -9 for SIGKILL, a shell 137."""
    if code < 0:
        return None, -code
    return code, code - 128 if 128 < code <= 128 + 64 else None


def _recorded_traceback(error_file: str) -> Traceback | None:
    """What torch's `@record` wrote: `{"message": {"extraInfo": {"py_callstack": …}}}`."""
    if len(error_file) > MAX_CHARS:
        return None
    try:
        stack = json.loads(error_file)["message"]["extraInfo"]["py_callstack"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return last_traceback(clean_lines(stack)) if isinstance(stack, str) else None
