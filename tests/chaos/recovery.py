"""How long it took, after each strike, until every run it touched was spoken for again.

A run is spoken for when an agent that lives has it, when it is back in its queue, or when it has ended.
Owners come from the run's events; who was dead or frozen when is what the drill did.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.record import Event, Record
from muster.domain.run import EventType, RunState

_TAKES = ("taken over", "back")


@dataclass(kw_only=True)
class Strike:
    kind: str  #: server, agent, freeze
    target: str
    at: float  #: Unix seconds
    until: float = math.inf  #: thawed, or its successor registered
    recovered: float | None = None  #: seconds; None: no run was touched
    longest: str = ""  #: the run that took so long, and its way


@dataclass(frozen=True, kw_only=True)
class _Step:
    at: float
    owner: str | None  #: None: nobody
    settled: bool = False  #: in its queue, or ended: nobody is needed


@dataclass(frozen=True, kw_only=True)
class Sight:
    """One answer to the prober: when each agent had last been heard of."""

    at: float
    heard: Mapping[str, float]
    registered: Mapping[str, float]


@dataclass(kw_only=True)
class Absences:
    """When which agent could not act."""

    of: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @classmethod
    def during(cls, strikes: Iterable[Strike]) -> Absences:
        made = cls()
        for strike in strikes:
            if strike.kind != "server":
                made.of.setdefault(strike.target, []).append((strike.at, strike.until))
        return made

    def away(self, agent: str, at: float) -> bool:
        return any(since <= at < until for since, until in self.of.get(agent, ()))


def measure(strikes: Sequence[Strike], records: Iterable[Record], sights: Sequence[Sight]) -> None:
    """Fill in `until` of kills, and `recovered` of all."""
    for strike in strikes:
        if strike.kind == "agent":
            strike.until = _back_at(strike, sights)
    absences = Absences.during(strikes)
    ways = {record.id: _steps(record.events) for record in records}
    for strike in strikes:
        if strike.kind == "server":
            _all_heard(strike, sights, absences)
        else:
            times = {
                run_id: time
                for run_id, way in ways.items()
                if (time := _recovery(way, strike, absences)) is not None
            }
            if times:
                slowest = max(times, key=lambda run_id: times[run_id])
                strike.recovered = times[slowest]
                strike.longest = f"{slowest}: {_told(ways[slowest], strike.at)}"


def _back_at(strike: Strike, sights: Sequence[Sight]) -> float:
    after = (sight.registered.get(strike.target, 0.0) for sight in sights)
    return min((at for at in after if at > strike.at), default=math.inf)


def _all_heard(strike: Strike, sights: Sequence[Sight], absences: Absences) -> None:
    """Until each agent that lives has been heard again."""
    strike.recovered, strike.longest = math.inf, "not all were heard again"
    unheard: list[str] = []
    for sight in sights[bisect_right([sight.at for sight in sights], strike.at) :]:
        silent = [agent for agent, at in sight.heard.items() if at <= strike.at]
        silent = [agent for agent in silent if not absences.away(agent, sight.at)]
        if not silent:
            strike.recovered = sight.at - strike.at
            strike.longest = f"last heard: {', '.join(unheard) or 'all at once'}"
            return
        unheard = silent


def _steps(events: Iterable[Event]) -> list[_Step]:
    steps = []
    for event in events:
        if event.type is EventType.LEASE:
            owner = str(event.data["agent"]) if event.data["what"] in _TAKES else None
            steps.append(_Step(at=event.at, owner=owner))
        elif event.type is EventType.STATE:
            state = RunState(event.data["to"])
            if state is RunState.CLAIMED:
                steps.append(_Step(at=event.at, owner=event.actor))
            elif state is RunState.QUEUED or state.terminal:
                steps.append(_Step(at=event.at, owner=None, settled=True))
    return steps


def _recovery(way: Sequence[_Step], strike: Strike, absences: Absences) -> float | None:
    """From the strike (or from a claim that the struck one got and never heard of) to a live owner."""
    longest: float | None = None
    for place, step in enumerate(way):
        leaves = way[place + 1].at if place + 1 < len(way) else math.inf
        if step.owner != strike.target or step.at >= strike.until or leaves <= strike.at:
            continue
        begin = max(strike.at, step.at)
        end = next(
            (
                later.at
                for later in way[place + 1 :]
                if later.settled or (later.owner is not None and not absences.away(later.owner, later.at))
            ),
            math.inf,
        )
        if strike.kind == "freeze" and leaves > strike.until:
            end = min(end, strike.until)  # nobody had taken it when its agent woke up
        longest = max(longest or 0.0, end - begin)
    return longest


def _told(way: Sequence[_Step], since: float) -> str:
    return ", ".join(f"{step.at - since:+.1f} s {'settled' if step.settled else step.owner}" for step in way)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
