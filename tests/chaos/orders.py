"""What is launched in a drill, and how each of it must end."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster.domain.run import AttemptEnd, RunState
from muster.domain.training import Launcher
from muster.wire.runs import LaunchRequest, RetryModel, TrainingModel

SCRIPT = Path(__file__).with_name("run.sh")
FOREVER = 3600.0
_TRIES = 20  #: a drill may hit one run many times; none may fail because of that


class Kind(StrEnum):
    PLAIN = "plain"
    GANG = "two members"
    ONCE = "fails once, tried again"
    FAILS = "fails for good"
    STOPPED = "stopped while it runs"
    WITHDRAWN = "stopped at once, mostly still queued"


#: Of a hundred runs.
MIX = {Kind.PLAIN: 78, Kind.GANG: 6, Kind.ONCE: 5, Kind.FAILS: 3, Kind.STOPPED: 4, Kind.WITHDRAWN: 4}
END = {Kind.FAILS: RunState.FAILED, Kind.STOPPED: RunState.STOPPED, Kind.WITHDRAWN: RunState.STOPPED}


@dataclass(frozen=True, kw_only=True)
class Order:
    kind: Kind
    seconds: float

    @property
    def members(self) -> int:
        return 2 if self.kind is Kind.GANG else 1

    @property
    def end(self) -> RunState:
        return END.get(self.kind, RunState.SUCCEEDED)

    def request(self, marks: Path) -> LaunchRequest:
        how = {Kind.ONCE: "once", Kind.FAILS: "fail"}.get(self.kind, "ok")
        again = [AttemptEnd.LOST, AttemptEnd.PREEMPTED]
        if self.kind is Kind.ONCE:
            again.append(AttemptEnd.FAILED)
        return LaunchRequest(
            command=["sh", str(SCRIPT), str(marks), f"{self.seconds:.2f}", how],
            values={"cpus": 0.05},
            training=TrainingModel(nodes=2, launcher=Launcher.PLAIN) if self.kind is Kind.GANG else None,
            retry=RetryModel(max=_TRIES, on=again),
        )


def draw(count: int, longest: float, rng: random.Random) -> list[Order]:
    """`count` orders in random order, every kind among them, none but the stopped longer than `longest`."""
    kinds = list(MIX) + rng.choices(list(MIX), weights=list(MIX.values()), k=count - len(MIX))
    rng.shuffle(kinds)
    endless = (Kind.STOPPED, Kind.WITHDRAWN)
    return [
        Order(kind=kind, seconds=FOREVER if kind in endless else rng.uniform(0.01, longest)) for kind in kinds
    ]
