"""What a drill found, in words: for the terminal, and as a table in the documentation."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.orders import Kind
from chaos.recovery import Strike, percentile
from muster.domain.run import LEASE_TTL

if TYPE_CHECKING:
    from chaos.drill import Plan

RECOVER_WITHIN = LEASE_TTL.total_seconds() + 5.0
STALL_WITHIN = 2.0  #: with several servers, nobody waits longer for an answer
WORST = 8  #: strikes, and waits for an answer, that are told in full on the terminal
STRIKES = {"server": "server killed", "agent": "agent killed", "freeze": "agent frozen past its lease"}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A time without an answer of the API."""

    at: float  #: Unix seconds
    seconds: float
    refusals: list[str]  #: what the caller heard meanwhile


@dataclass(frozen=True, kw_only=True)
class Result:
    plan: Plan
    problems: list[str]
    kinds: Counter[Kind]
    strikes: Sequence[Strike]
    attempts: int
    events: int
    gaps: Sequence[Gap]  #: longest first
    struck: float  #: seconds from the first strike to the last
    took: float  #: seconds until all had ended

    def recoveries(self, kind: str | None = None) -> list[float]:
        """Of the strikes that touched a run."""
        return [s.recovered for s in self.strikes if s.recovered is not None and kind in (None, s.kind)]

    @property
    def longest_gap(self) -> float:
        return self.gaps[0].seconds

    def _told(self, gap: Gap) -> str:
        near = [strike for strike in self.strikes if -5 < gap.at - strike.at < gap.seconds + 5]
        strikes = ", ".join(f"{strike.kind} {strike.target} {strike.at - gap.at:+.1f} s" for strike in near)
        return f"no answer for {gap.seconds:.2f} s: {gap.refusals or 'one slow answer'}; strikes: {strikes}"

    @property
    def failures(self) -> list[str]:
        """Everything that was promised and not kept."""
        found = list(self.problems)
        planned = {
            "server": self.plan.server_kills,
            "agent": self.plan.agent_kills,
            "freeze": self.plan.freezes,
        }
        for kind, count in Counter(strike.kind for strike in self.strikes).items():
            if planned[kind] != count:
                found.append(f"{count} strikes of kind {kind}, not {planned[kind]}")
        if self.kinds.total() != self.plan.runs:
            found.append(f"{self.kinds.total()} runs launched, not {self.plan.runs}")
        recoveries = self.recoveries()
        # Of a few strikes the 99th percentile is the worst, and a server may have been away in the middle.
        limit = RECOVER_WITHIN if len(recoveries) >= 100 else 2 * RECOVER_WITHIN
        if recoveries and percentile(recoveries, 0.99) > limit:
            found.append(f"p99 of recovery is {percentile(recoveries, 0.99):.1f} s, above {limit:.0f} s")
        if self.plan.database != "sqlite" and self.longest_gap > STALL_WITHIN:
            found.append(f"no answer for {self.longest_gap:.1f} s, above {STALL_WITHIN:.0f} s")
        return found

    def rows(self) -> list[tuple[str, str]]:
        kinds = ", ".join(
            f"{count} {kind}" for kind, count in sorted(self.kinds.items(), key=lambda i: -i[1])
        )
        rows = [
            ("runs", f"{self.plan.runs}: {kinds}"),
            (
                "strikes",
                ", ".join(f"{c} × {STRIKES[k]}" for k, c in Counter(s.kind for s in self.strikes).items()),
            ),
            ("lost, committed twice, overlapping, log not whole, left behind", str(len(self.problems))),
            ("attempts, events", f"{self.attempts}, {self.events}"),
        ]
        for kind in (None, *STRIKES):
            if times := self.recoveries(kind):
                name = "all strikes" if kind is None else STRIKES[kind]
                rows.append((f"recovery: {name}", f"{_times(times)} ({len(times)} touched a run)"))
        rows += [
            ("longest time without an answer of the API", f"{self.longest_gap:.1f} s"),
            ("duration", f"{self.struck:.0f} s of strikes, {self.took:.0f} s until all runs had ended"),
        ]
        return rows

    def summary(self) -> str:
        lines = [f"{name}: {value}" for name, value in self.rows()]
        worst = sorted(self.strikes, key=lambda strike: strike.recovered or 0.0)[-WORST:]
        lines += [
            f"{strike.kind} {strike.target} away {strike.until - strike.at:.1f} s, "
            f"recovered in {strike.recovered or 0.0:.1f} s; {strike.longest}"
            for strike in worst
        ]
        lines += [self._told(gap) for gap in self.gaps]
        return "\n".join([*lines, *(f"FAILED: {failure}" for failure in self.failures)])

    def table(self, today: datetime) -> str:
        plan = self.plan
        command = (
            f"make chaos RUNS={plan.runs} SERVER_KILLS={plan.server_kills} AGENT_KILLS={plan.agent_kills} "
            f"FREEZES={plan.freezes} SEED={plan.seed} DATABASE={plan.database}"
        )
        servers = "one server" if plan.database == "sqlite" else "three servers behind a load balancer"
        lines = [
            f"`{command}`",
            "",
            f"{today:%Y-%m-%d}, {plan.database}, {servers}, four agents; {_machine()}.",
            "",
            "| What | Result |",
            "| --- | --- |",
            *(f"| {name} | {value} |" for name, value in self.rows()),
        ]
        return "\n".join(lines)


def write_page(page: Path, result: Result) -> None:
    """Put the table between the markers of its database."""
    begin, end = f"<!-- drill {result.plan.database} -->", "<!-- end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    made = f"{begin}\n{result.table(datetime.now(UTC))}\n{end}"
    text, found = pattern.subn(lambda _: made, page.read_text())
    if not found:
        raise ValueError(f"{page} has no place for the result: {begin} … {end}")
    page.write_text(text)


def _times(values: Sequence[float]) -> str:
    return (
        f"p50 {percentile(values, 0.5):.1f} s, p99 {percentile(values, 0.99):.1f} s, max {max(values):.1f} s"
    )


def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {system}"
