"""Who is next in a queue: priority with ageing, then whoever used least of late, then first come. Pure.

**Levels.** A run's rank is its launch less the head start of its priority, so its age by rank says how
pressing it is: older than the head start of `high` counts as high, and so on. That is how every run
ages: a low one is as good as a medium one after 6 h and as a high one after 12 h.

**Use.** What a user had of a queue, in CPU seconds, halves every `HALF_LIFE`. It is kept as one number a
user that only ever grows: use at a later time is written down as more (`weight`), so that old use weighs
less by comparison and nothing has to be aged. What is running counts as it runs, and a little at once,
so that a user with many short runs does not start them all before any has counted.

**Nobody starves.** Who waits uses nothing, so others come to have used more; and what waits long enough
rises a level, past all that came later.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from muster.domain.policy import Limit
from muster.domain.resources import Resources
from muster.domain.run import HEAD_START, Priority
from muster.domain.schedule import Candidate

HALF_LIFE = timedelta(days=7)
START_CHARGE = timedelta(minutes=1)  #: a run that was just started counts as if it had run so long

# What a second of these costs, in CPU seconds. The store computes the same in SQL (`muster.store.shares`).
GPU_COST = 16.0
GIB_COST = 0.25
LEAST_COST = 0.1

_GIB = 2**30
_BASE = datetime(2026, 1, 1, tzinfo=UTC)  #: where `weight` is 1; it stays below the largest float to 2045
_AGES = tuple(HEAD_START[priority] // timedelta(microseconds=1) for priority in Priority)


def rate(needs: Resources) -> float:
    """What a second of these resources costs."""
    cost = needs.millicpus / 1000 + GPU_COST * needs.gpus + GIB_COST * needs.memory / _GIB
    return max(LEAST_COST, cost)


def weight(at: datetime) -> float:
    """By what use at this time is multiplied before it is added to what was."""
    return float(2.0 ** ((at - _BASE) / HALF_LIFE))


def level(rank: int, now: datetime) -> int:
    """How pressing a run of this rank is now: 0 critical … 3 low."""
    age = now.timestamp() * 1_000_000 - rank
    return next((place for place, least in enumerate(_AGES) if age >= least), len(_AGES) - 1)


@dataclass(kw_only=True)
class Standing:
    """One user of a queue, as far as the order goes."""

    user: str
    rank: int = 0  #: of the first run that waits
    used: float = 0.0  #: of late, what is running included
    runs: int = 0  #: that are running
    gpus: int = 0  #: that these have


@dataclass(kw_only=True)
class Budget:
    """What a limit leaves. None: no limit."""

    runs: int | None = None
    gpus: int | None = None
    saving: bool = False  #: one who came before waits for GPUs of it: none behind takes any

    @classmethod
    def of(cls, limit: Limit, *, runs: int, gpus: int) -> Budget:
        """What is left when so much is in use."""
        return cls(
            runs=None if limit.runs is None else limit.runs - runs,
            gpus=None if limit.gpus is None else limit.gpus - gpus,
        )

    @property
    def spent(self) -> bool:
        return self.runs is not None and self.runs <= 0

    def affords(self, needs: Resources) -> bool:
        if self.spent:
            return False
        if not needs.gpus or self.gpus is None:
            return True
        self.saving = self.saving or needs.gpus > self.gpus
        return not self.saving

    def spend(self, needs: Resources) -> None:
        if self.runs is not None:
            self.runs -= 1
        if self.gpus is not None:
            self.gpus -= needs.gpus


Pages = Callable[[str], Iterable[Candidate]]  #: the waiting runs of a user, in order of rank


class Line:
    """The waiting runs of one queue, in the order in which they may start.

    Who walks along it asks for the `next`, and says of each that is started that it `took` it: that
    changes who is next. A user whose run was passed over is looked at again after all others.
    """

    def __init__(
        self,
        pages: Pages,
        *,
        now: datetime,
        standings: Mapping[str, Standing],
        share: bool = True,
        each: Limit | None = None,
        budgets: Sequence[Budget] = (),
    ) -> None:
        """`standings` are of all users that wait; without `share`, what they used does not count. `each` is
        the limit of every user; `budgets` are those of all together."""
        self._pages = pages
        self._now = now
        self._standings = standings
        self._share = share
        self._each = each or Limit()
        self._budgets = budgets
        self._own: dict[str, Budget] = {}
        self._lists: dict[str, Iterator[Candidate]] = {}
        self._heap: list[tuple[int, int, float, int, int, str]] = []
        self._seen: dict[str, Candidate] = {}  #: the first run of a user, where it is known
        self._passes: dict[str, int] = {}
        self._asked: str | None = None  #: whose run was given out last
        self._heap.extend(self._place(standing.user, standing.rank, 0) for standing in standings.values())
        heapq.heapify(self._heap)

    def next(self) -> Candidate | None:
        """The one to look at now, if any is left; never the same again."""
        while not any(budget.spent for budget in self._budgets) and (candidate := self._best()) is not None:
            own = self._budget_of(candidate.user)
            if own.affords(candidate.needs) and all(b.affords(candidate.needs) for b in self._budgets):
                return candidate
        return None

    def took(self, candidate: Candidate) -> None:
        for budget in (*self._budgets, self._budget_of(candidate.user)):
            budget.spend(candidate.needs)
        self._passes[candidate.user] = self._passes.get(candidate.user, 1) - 1
        self._standings[candidate.user].used += rate(candidate.needs) * START_CHARGE.total_seconds()

    def _best(self) -> Candidate | None:
        """The first run of whoever is next."""
        if self._asked is not None:
            self._enter(self._asked)
            self._asked = None
        while self._heap:
            user = heapq.heappop(self._heap)[-1]
            if self._budget_of(user).spent:
                continue
            if user not in self._lists:
                self._lists[user] = iter(self._pages(user))
                self._enter(user)
                continue  # with what can run here, which may be less pressing than what is first of all
            self._asked = user
            self._passes[user] = self._passes.get(user, 0) + 1  # unless it is taken
            return self._seen.pop(user)
        return None

    def _enter(self, user: str) -> None:
        """To its place, with the next of its runs."""
        candidate = next(self._lists[user], None)
        if candidate is not None:
            self._seen[user] = candidate
            heapq.heappush(self._heap, self._place(user, candidate.rank, candidate.seq))

    def _place(self, user: str, rank: int, seq: int) -> tuple[int, int, float, int, int, str]:
        if not self._share:
            return 0, 0, 0.0, rank, seq, user
        used = self._standings[user].used
        return self._passes.get(user, 0), level(rank, self._now), used, rank, seq, user

    def _budget_of(self, user: str) -> Budget:
        if user not in self._own:
            standing = self._standings[user]
            self._own[user] = Budget.of(self._each, runs=standing.runs, gpus=standing.gpus)
        return self._own[user]
