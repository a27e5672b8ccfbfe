"""Why an attempt failed, in one sentence: the rank that failed first, the class, the evidence, the advice.

The classes are rows of `muster.domain.failures.classes`; this module finds the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from muster.domain.failures.cause import Cause, EndedMember, causes
from muster.domain.failures.classes import CLASSES
from muster.domain.failures.packages import package_of
from muster.domain.failures.sign import FailureClass, Sign
from muster.domain.observation import Failure

__all__ = ["EndedMember", "advice_for", "classify", "named", "title_of"]

MAX_EVIDENCE = 8 * 1024
MAX_EVIDENCE_LINES = 80
MAX_FACT = 200
SHOWN_LINES = 20

_BY_KIND = {row.kind: row for row in CLASSES}


def classify(members: Sequence[EndedMember]) -> Failure:
    """The root cause of a failed attempt, from all its members."""
    echo: Failure | None = None
    for cause in causes(members):
        finding = _find(cause)
        failure = _failure(cause, finding, alone=len(members) == 1)
        if not finding.sign.echo:
            return failure
        echo = echo or failure
    return echo or Failure(
        kind="unknown", summary="The run failed and left no reason.", advice=advice_for("unknown")
    )


def named(reason: str) -> Failure | None:
    """What the engine's words alone say, where they say what kind of failure it is."""
    cause = Cause(
        member=0, rank=None, exit_code=None, signal=None, reason=reason, traceback=None, last_lines=()
    )
    finding = _find(cause)
    return None if finding.row.kind == "unknown" else _failure(cause, finding, alone=True)


def advice_for(kind: str) -> str:
    """What to do about a failure of this kind; nothing for one this version does not know."""
    return _BY_KIND[kind].advice if kind in _BY_KIND else ""


def title_of(kind: str) -> str:
    """A few words for a kind, for lists and headings."""
    return _BY_KIND[kind].title if kind in _BY_KIND else kind.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class _Finding:
    row: FailureClass
    sign: Sign
    groups: dict[str, str]


def _find(cause: Cause) -> _Finding:
    said = cause.traceback.said if cause.traceback else "\n".join(cause.last_lines)
    for row in CLASSES:
        for sign in row.signs:
            groups = _groups(sign, cause, said)
            if groups is not None:
                return _Finding(row=row, sign=sign, groups=groups)
    raise AssertionError("the last row of the table takes everything")


def _groups(sign: Sign, cause: Cause, said: str) -> dict[str, str] | None:
    """The named groups of a sign that holds."""
    if sign.raised and cause.traceback is None:
        return None
    if sign.exits is not None and (cause.exit_code is None or cause.exit_code not in sign.exits):
        return None
    if sign.signals is not None and (cause.signal is None or cause.signal not in sign.signals):
        return None
    groups: dict[str, str] = {}
    for pattern, text in ((sign.words, said), (sign.reason, cause.reason)):
        if pattern is None:
            continue
        match = pattern.search(text)
        if match is None:
            return None
        groups |= {name: value for name, value in match.groupdict().items() if value is not None}
    return groups


def _failure(cause: Cause, finding: _Finding, *, alone: bool) -> Failure:
    return Failure(
        kind=finding.row.kind,
        summary=f"{_who(cause, alone=alone)} {finding.sign.says.format_map(_facts(cause, finding))}.",
        advice=finding.row.advice,
        rank=cause.member if cause.rank is None else cause.rank,
        exit_code=cause.exit_code,
        signal=cause.signal,
        evidence=_evidence(cause, finding.sign),
    )


def _who(cause: Cause, *, alone: bool) -> str:
    if cause.rank is None:
        return "The program" if alone else f"Replica {cause.member}"
    if alone or cause.rank == cause.member:
        return f"Rank {cause.rank}"
    return f"Rank {cause.rank} (replica {cause.member})"


def _facts(cause: Cause, finding: _Finding) -> dict[str, str]:
    """All that a sentence may use, each on one line."""
    facts = dict(finding.groups)
    if cause.exit_code is not None:
        facts["exit_code"] = str(cause.exit_code)
    if cause.signal is not None:
        facts["signal"] = _signal_name(cause.signal)
    if cause.traceback:
        message = cause.traceback.message
        facts["error"] = f"{cause.traceback.error}: {message}" if message else cause.traceback.error
        facts["at"] = f" ({cause.traceback.where})" if cause.traceback.where else ""
    if "module" in facts:
        facts["package"] = package_of(facts["module"])
    last = cause.last_lines[-1:]
    facts["last"] = f"; the last line printed: {last[0].strip()}" if last else " and printed nothing"
    return {name: _short(value) for name, value in facts.items()}


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _short(value: str) -> str:
    words = value.rstrip().rstrip(".")
    return words if len(words) <= MAX_FACT else words[: MAX_FACT - 1] + "…"


def _evidence(cause: Cause, sign: Sign) -> str:
    """The traceback, or the last lines; with the engine's words where these told."""
    lines = cause.traceback.text.split("\n") if cause.traceback else list(cause.last_lines[-SHOWN_LINES:])
    if sign.reason:
        lines.insert(0, cause.reason)
    if len(lines) > MAX_EVIDENCE_LINES:
        left_out = len(lines) - MAX_EVIDENCE_LINES + 1
        lines[10 : 10 + left_out] = [f"… {left_out} lines left out …"]
    text = "\n".join(lines)
    return text if len(text) <= MAX_EVIDENCE else "…" + text[-MAX_EVIDENCE + 1 :]
