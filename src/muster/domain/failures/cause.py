"""From the members of a failed attempt to the ranks that may be its cause."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from signal import SIGABRT, SIGINT

from muster.domain.failures.log import MAX_CHARS, MemberLog, clean_lines
from muster.domain.failures.trace import Traceback, last_traceback
from muster.domain.observation import Replica, ReplicaState

MAX_MEMBERS = 64  #: looked at, the earliest ended first
MAX_RANKS = 32  #: of one member
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


@dataclass(frozen=True, kw_only=True)
class _Suspect:
    """A rank of a member, and how it ended as far as that was seen."""

    rank: int | None = None
    local_rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None


def causes(members: Sequence[EndedMember]) -> Iterator[Cause]:
    """Whoever may have failed first, the likeliest first. Who was stopped because of another is not one."""
    failed = [member for member in members if member.replica.state is ReplicaState.FAILED]
    lost = [member for member in members if member.replica.state is ReplicaState.LOST]
    # Except one that was failing as it was told to stop: who hears of a failure may be dead before who fails.
    stopped = [member for member in members if member.replica.state is ReplicaState.STOPPED]
    for asked in (failed or lost, stopped):
        for member in sorted(asked, key=_ended)[:MAX_MEMBERS]:
            yield from _causes_in(member)


def _ended(member: EndedMember) -> tuple[datetime, int]:
    at = member.replica.ended_at or _NEVER
    return (at if at.tzinfo else at.replace(tzinfo=UTC)), member.replica.rank


def _causes_in(member: EndedMember) -> Iterator[Cause]:
    log = MemberLog.read(member.log_tail)
    recorded = _recorded_traceback(member.error_file)
    for suspect in _suspects(member.replica, log):
        yield _cause(member.replica, log, suspect, recorded)
        recorded = None  # torchrun keeps the error file of the rank it calls the root cause


def _suspects(replica: Replica, log: MemberLog) -> list[_Suspect]:
    seen = [
        _Suspect(rank=end.rank, local_rank=end.local_rank, exit_code=code, signal=signal)
        for end in log.exits[:MAX_RANKS]
        for code, signal in [_code_and_signal(end.code)]
    ]
    if replica.state is ReplicaState.STOPPED:  # only what its launcher saw before the word to stop
        return [one for one in seen if one.exit_code and one.signal is None]
    # torchrun may call the wrong rank the root cause: one whose peer vanished can be dead before that peer,
    # still at its clean-up, is; torchrun then stops the peer and does not count it. Its traceback tells.
    named = {end.rank for end in log.exits}
    others = [
        rank for rank in log.ranks()[:MAX_RANKS] if rank not in named and last_traceback(log.surely_of(rank))
    ]
    if seen:
        return [*seen, *(_Suspect(rank=rank) for rank in others)]
    code, signal = replica.exit_code, replica.signal
    if signal is None and code is not None:
        code, signal = _code_and_signal(code)
    whole = _Suspect(exit_code=code, signal=signal)
    return [replace(whole, rank=rank) for rank in others] or [whole]


def _cause(replica: Replica, log: MemberLog, suspect: _Suspect, recorded: Traceback | None) -> Cause:
    lines = log.perhaps_of(suspect.rank, suspect.local_rank)
    traceback = None
    # A process that is killed prints no traceback: one in its log is older, and was survived.
    if suspect.signal in (None, SIGABRT, SIGINT):
        own = last_traceback(log.surely_of(suspect.rank, suspect.local_rank))
        traceback = own or recorded or last_traceback(lines)
    return Cause(
        member=replica.rank,
        rank=suspect.rank,
        exit_code=suspect.exit_code,
        signal=suspect.signal,
        reason=" ".join(clean_lines(replica.reason)).strip(),
        traceback=traceback,
        last_lines=tuple([line for line in lines if line.strip()][-LAST_LINES:]),
    )


def _code_and_signal(code: int) -> tuple[int | None, int | None]:
    """Python says -9 for SIGKILL, a shell 137."""
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
