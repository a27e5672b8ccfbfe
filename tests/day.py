"""A day in a queue, played: who waits how long. Nothing here but the pure rules of the order, and a clock."""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from muster.domain.policy import Limit
from muster.domain.resources import Resources
from muster.domain.run import Priority, queue_rank
from muster.domain.schedule import Candidate, Capacity, pick
from muster.domain.share import Line, Standing, rate, weight

DAWN = datetime(2026, 6, 1, tzinfo=UTC)
GPUS = 16
_ONE = Resources(gpus=1)


@dataclass(frozen=True, kw_only=True)
class Launch:
    user: str
    at: datetime
    takes: timedelta
    priority: Priority = Priority.MEDIUM


@dataclass(kw_only=True)
class Day:
    """Sixteen GPUs, one for each run."""

    launches: Sequence[Launch]
    share: bool
    each: Limit = field(default_factory=Limit)
    waits: dict[int, timedelta] = field(default_factory=dict)  #: number of the launch → until it started
    most_at_once: dict[str, int] = field(default_factory=dict)
    _used: dict[str, float] = field(default_factory=dict)  #: weighted, of what has ended
    _served: dict[str, datetime] = field(default_factory=dict)
    _running: dict[int, datetime] = field(default_factory=dict)  #: number → since when
    _waiting: dict[str, list[Candidate]] = field(default_factory=dict)

    def play(self) -> Day:
        moments = [(launch.at, 0, number) for number, launch in enumerate(self.launches)]
        heapq.heapify(moments)
        while moments:
            now, what, number = heapq.heappop(moments)
            if what == 0:
                self._enter(number)
            else:
                self._end(number, now)
            for started in self._start(now):
                heapq.heappush(moments, (now + self.launches[started].takes, 1, started))
        return self

    def _enter(self, number: int) -> None:
        launch = self.launches[number]
        rank = queue_rank(launch.at, launch.priority)
        candidate = Candidate(
            run_id=str(number),
            needs=_ONE,
            user=launch.user,
            priority=launch.priority,
            rank=rank,
            seq=number,
        )
        mine = self._waiting.setdefault(launch.user, [])
        mine.append(candidate)
        mine.sort(key=lambda waiting: (waiting.rank, waiting.seq))

    def _end(self, number: int, now: datetime) -> None:
        user = self.launches[number].user
        seconds = (now - self._running.pop(number)).total_seconds()
        self._served[user] = now
        self._used[user] = self._used.get(user, 0.0) + rate(_ONE) * seconds * weight(now)

    def _start(self, now: datetime) -> list[int]:
        free = GPUS - len(self._running)
        if not free:
            return []
        line = Line(
            lambda user: iter(list(self._waiting[user])),
            now=now,
            standings=self._standings(now),
            share=self.share,
            each=self.each,
        )
        room = Capacity(slots=free, free=Resources(gpus=free), total=Resources(gpus=GPUS))
        started = [int(candidate.run_id) for candidate in pick(line, room, look=64)]
        for number in started:
            user = self.launches[number].user
            self._waiting[user] = [c for c in self._waiting[user] if c.run_id != str(number)]
            self._running[number] = self._served[user] = now
            self.waits[number] = now - self.launches[number].at
            count = sum(self.launches[other].user == user for other in self._running)
            self.most_at_once[user] = max(self.most_at_once.get(user, 0), count)
        return started

    def _standings(self, now: datetime) -> Mapping[str, Standing]:
        found = {}
        for user, mine in self._waiting.items():
            if not mine:
                continue
            live = [now - since for n, since in self._running.items() if self.launches[n].user == user]
            running = sum(rate(_ONE) * (span.total_seconds() + 60) for span in live)
            used = self._used.get(user, 0.0) / weight(now) + running
            found[user] = Standing(
                user=user,
                rank=mine[0].rank,
                priority=mine[0].priority,
                served_at=self._served.get(user),
                used=used,
                runs=len(live),
                gpus=len(live),
            )
        return found

    def waits_of(self, users: Iterable[str]) -> list[float]:
        """Minutes."""
        wanted = set(users)
        return [
            wait.total_seconds() / 60
            for number, wait in self.waits.items()
            if self.launches[number].user in wanted
        ]


HEAVY = "heavy"
LIGHT = [f"light-{number}" for number in range(20)]


def one_thousand_and_the_rest(seed: int = 7) -> list[Launch]:
    """One launches a thousand runs of 15 minutes at dawn; twenty others one run every hour or so, all day:
    together 1.1 times what the GPUs can do in a day."""
    dice = random.Random(seed)  # noqa: S311 - a load, not a secret
    launches = [Launch(user=HEAVY, at=DAWN, takes=timedelta(minutes=15)) for _ in range(1000)]
    for user in LIGHT:
        at = DAWN + timedelta(minutes=dice.uniform(0, 60))
        while at < DAWN + timedelta(days=1):
            launches.append(Launch(user=user, at=at, takes=timedelta(minutes=dice.uniform(5, 35))))
            at += timedelta(minutes=dice.uniform(40, 80))
    return launches


def figures(minutes: Sequence[float]) -> tuple[float, float, float]:
    """Median, 95th percentile, most."""
    ordered = sorted(minutes)
    return statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]
