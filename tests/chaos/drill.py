"""The drill: many short runs over several agents, while servers and agents are killed and frozen at random.

    python -m chaos.drill --runs 10000 --server-kills 100 --agent-kills 200 --freezes 50 --seed 7

Nothing may be lost, committed twice or alive twice, every log must be whole, and every run that a strike
touches must be spoken for again within the lease time and five seconds.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from chaos import checks, record, recovery
from chaos.fleet import Fleet
from chaos.orders import Kind, Order, draw
from chaos.recovery import Sight, Strike
from chaos.result import RECOVER_WITHIN, WORST, Gap, Result, write_page
from installation import until
from muster.client.sync import Client
from muster.domain.errors import MusterError
from muster.domain.run import LEASE_TTL
from postgres import empty_postgres

T = TypeVar("T")
AGENTS = 4
AHEAD = 200  #: runs that are launched and have not ended
LEAVE_STANDING = 2  #: agents that are neither frozen nor down
_PATIENCE = 120.0  #: seconds a user asks again and again
_AGAIN = 0.1  #: seconds between tries while the server is away
_PROBE_EVERY = 0.1
_SETTLE = 60.0  #: seconds for the last leftovers to be put away


@dataclass(frozen=True, kw_only=True)
class Plan:
    runs: int
    server_kills: int
    agent_kills: int
    freezes: int
    seed: int
    database: str = "sqlite"  #: or postgresql, with three servers
    pace: float = 2.4  #: seconds between strikes, on average and at least
    longest: float = 3.0  #: seconds a run takes
    patience: float = 1800.0  #: seconds for all runs to end after the last strike

    @property
    def strikes(self) -> int:
        return self.server_kills + self.agent_kills + self.freezes


class Users(threading.Thread):
    """Launch what is ordered as the drill goes on, and stop what is to be stopped."""

    def __init__(
        self, client: Client, orders: list[Order], marks: Path, progress: Callable[[], float]
    ) -> None:
        super().__init__(name="users", daemon=True)
        self._client = client
        self._waiting = list(orders)
        self._all = len(orders)
        self._marks = marks
        self._progress = progress
        self._to_stop: list[str] = []
        self.launched: dict[str, Order] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while self._waiting or self._to_stop:
                due = min(self._all, int(self._all * self._progress()) + AHEAD) - len(self.launched)
                if due > 0 and self._waiting:
                    self._launch(min(due, 100))
                self._stop_those_that_run()
                time.sleep(0.05)
        except BaseException as error:  # noqa: BLE001 - told by the drill, which waits for this thread
            self.error = error

    def _launch(self, count: int) -> None:
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        key = f"{len(self.launched)}"
        requests = [order.request(self._marks) for order in batch]
        made = insist(lambda: self._client.launch_batch(requests, idempotency_key=key)).items
        for run, order in zip(made, batch, strict=True):
            self.launched[run.id] = order
            if order.kind is Kind.WITHDRAWN:
                insist(partial(self._client.stop_run, run.id))
            elif order.kind is Kind.STOPPED:
                self._to_stop.append(run.id)

    def _stop_those_that_run(self) -> None:
        for run_id in list(self._to_stop):
            if (self._marks / f"{run_id}.marks").exists():
                insist(partial(self._client.stop_run, run_id))
                self._to_stop.remove(run_id)


class Prober(threading.Thread):
    """Asks the server for its agents without pause, and notes every answer."""

    def __init__(self, client: Client) -> None:
        super().__init__(name="prober", daemon=True)
        self._client = client
        self._over = threading.Event()
        self.sights: list[Sight] = []
        self.refusals: list[tuple[float, str]] = []  #: when, and why

    def run(self) -> None:
        while not self._over.is_set():
            try:
                agents = self._client.list_agents().items
            except MusterError as error:
                self.refusals.append((time.time(), error.detail))
            else:
                self.sights.append(
                    Sight(
                        at=time.time(),
                        heard={agent.name: agent.seen_at.timestamp() for agent in agents},
                        registered={agent.name: agent.registered_at.timestamp() for agent in agents},
                    )
                )
            self._over.wait(_PROBE_EVERY)

    def finish(self) -> None:
        self._over.set()
        self.join()

    def gaps(self) -> list[Gap]:
        """Between answers, longest first."""
        times = [sight.at for sight in self.sights]
        found = [
            Gap(at=at, seconds=then - at, refusals=[why for when, why in self.refusals if at < when < then])
            for at, then in pairwise(times)
        ]
        return sorted(found, key=lambda gap: -gap.seconds)[:WORST]

    def heard_since(self, at: float) -> bool:
        """Has every agent been heard?"""
        heard = self.sights[-1].heard.values() if self.sights else ()
        return all(then > at for then in heard)


@dataclass
class Striker:
    """Kills and freezes exactly as often as planned, at random moments."""

    fleet: Fleet
    plan: Plan
    rng: random.Random
    done: list[Strike] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)  #: of processes that nobody struck
    _thaws: list[tuple[float, Strike]] = field(default_factory=list)
    _starts: list[tuple[float, str]] = field(default_factory=list)

    def progress(self) -> float:
        return len(self.done) / self.plan.strikes if self.plan.strikes else 1.0

    def run(self, ended: Callable[[], int], on_strike: Callable[[], None]) -> None:
        """Strike until all is done, spread evenly over the work, however fast the machine is."""
        plan = self.plan
        coming = ["server"] * plan.server_kills + ["agent"] * plan.agent_kills + ["freeze"] * plan.freezes
        self.rng.shuffle(coming)
        due = time.time()
        while coming or self._thaws or self._starts:
            self._tend()
            if coming and time.time() >= due and ended() >= plan.runs * self.progress():
                kind = self._possible(coming)
                if kind is not None:
                    coming.remove(kind)
                    self.done.append(self._strike(kind))
                    on_strike()
                    due = time.time() + self.rng.uniform(0.1, 2 * plan.pace - 0.1)
            time.sleep(0.05)

    def _possible(self, coming: list[str]) -> str | None:
        """The next that leaves enough standing: agents; and of several servers, all but one."""
        may = {
            "server": self.fleet.servers == 1 or self.fleet.all_serve(),
            "agent": len(self._standing()) > LEAVE_STANDING,
        }
        return next((kind for kind in coming if may["server" if kind == "server" else "agent"]), None)

    def _standing(self) -> list[str]:
        away = {strike.target for _, strike in self._thaws} | {name for _, name in self._starts}
        return [name for name in self.fleet.agents if name not in away]

    def _strike(self, kind: str) -> Strike:
        if kind == "server":
            number = self.rng.randrange(self.fleet.servers)
            at = self.fleet.kill_server(number)
            self.fleet.start_server(number)
            return Strike(kind=kind, target=f"server-{number}", at=at)
        name = self.rng.choice(self._standing())
        if kind == "agent":
            at = self.fleet.kill_agent(name)
            # Most are started again at once, as by a supervisor; some stay away, some longer than a lease.
            away = 0.0 if self.rng.random() < 0.8 else self.rng.uniform(1.0, 18.0)
            self._starts.append((at + away, name))
            return Strike(kind=kind, target=name, at=at)
        strike = Strike(kind=kind, target=name, at=time.time())
        self.fleet.agent(name).send_signal(signal.SIGSTOP)
        self._thaws.append((strike.at + LEASE_TTL.total_seconds() + self.rng.uniform(7.0, 12.0), strike))
        return strike

    def _tend(self) -> None:
        now = time.time()
        for name in self._standing():
            if (status := self.fleet.agent(name).poll()) is not None:
                self.crashes.append(f"{name} ended by itself with status {status}")
                self.fleet.start_agent(name)
        for number in range(self.fleet.servers):
            if (status := self.fleet.server(number).poll()) is not None:
                self.crashes.append(f"server {number} ended by itself with status {status}")
                self.fleet.start_server(number)
        for item in [item for item in self._thaws if item[0] <= now]:
            self._thaws.remove(item)
            item[1].until = time.time()
            self.fleet.agent(item[1].target).send_signal(signal.SIGCONT)
        for start in [item for item in self._starts if item[0] <= now]:
            self._starts.remove(start)
            self.fleet.start_agent(start[1])


def insist(ask: Callable[[], T]) -> T:
    """Ask until there is an answer: servers are killed here."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return ask()
        except MusterError as error:
            if error.status < 500 or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN)


def drill(plan: Plan, home: Path, say: Callable[[str], None]) -> Result:
    rng = random.Random(plan.seed)  # noqa: S311 - where to strike, not a secret
    marks = home / "marks"
    marks.mkdir()
    with ExitStack() as stack:
        database = empty_postgres() if plan.database == "postgresql" else None
        fleet = Fleet(home, database=database, servers=3 if database else 1)
        stack.callback(fleet.tear_down)
        fleet.set_up(AGENTS)
        client = stack.enter_context(fleet.client())
        striker = Striker(fleet, plan, rng)
        users = Users(client, draw(plan.runs, plan.longest, rng), marks, striker.progress)
        prober = Prober(client)
        until(lambda: len(client.list_agents().items) == AGENTS, what="all agents")
        began = time.time()
        users.start()
        prober.start()

        def ended() -> int:
            return len(users.launched) - record.unfinished(fleet.database_url)

        def tell() -> None:
            if len(striker.done) % 10 == 0:
                seconds, launched = time.time() - began, len(users.launched)
                say(f"{seconds:5.0f} s  {len(striker.done)} strikes, {launched} launched, {ended()} ended")

        striker.run(ended, tell)
        struck = time.time() - began
        say(f"{struck:5.0f} s  all strikes done; waiting for the rest")
        users.join()
        if users.error is not None:
            raise users.error
        until(
            lambda: record.unfinished(fleet.database_url) == 0, seconds=plan.patience, what="all runs to end"
        )
        took = time.time() - began
        last = max((strike.at for strike in striker.done), default=began)
        with suppress(AssertionError):  # it may have been a moment ago
            until(lambda: prober.heard_since(last), seconds=2 * RECOVER_WITHIN)
        prober.finish()
        say(f"{took:5.0f} s  all ended; checking")
        records = record.read(fleet.database_url)
        problems = list(checks.problems(records, users.launched, marks, client))
        problems += [*striker.crashes, *left_behind(fleet)]
        recovery.measure(striker.done, records.values(), prober.sights)
        return Result(
            plan=plan,
            problems=problems,
            kinds=Counter(order.kind for order in users.launched.values()),
            strikes=striker.done,
            attempts=sum(record.attempt for record in records.values()),
            events=sum(len(record.events) for record in records.values()),
            gaps=prober.gaps(),
            struck=struck,
            took=took,
        )


def left_behind(fleet: Fleet) -> list[str]:
    """Processes and files of runs that have all ended. Agents put away what they find as they start: so
    what one made that was frozen and overtaken meanwhile."""
    for name in fleet.agents:
        fleet.agent(name).terminate()
        fleet.agent(name).wait()
        fleet.start_agent(name)
    with suppress(AssertionError):
        until(lambda: not fleet.leftovers(), seconds=_SETTLE)
    return [f"{left} is left" for left in fleet.leftovers()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--server-kills", type=int, default=100)
    parser.add_argument("--agent-kills", type=int, default=200)
    parser.add_argument("--freezes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--pace", type=float, default=2.4, help="seconds between strikes")
    parser.add_argument("--page", type=Path, help="write the result into this page")
    parser.add_argument("--keep", type=Path, help="work in this new directory, and leave it")
    given = vars(parser.parse_args())
    page, keep = given.pop("page"), given.pop("keep")
    if given["seed"] is None:
        given["seed"] = random.SystemRandom().randrange(10**9)
    plan = Plan(**given)
    print(f"seed {plan.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with ExitStack() as stack:
        if keep is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-drill-")))
        else:
            home = keep
            home.mkdir(parents=True)
        result = drill(plan, home, lambda line: print(line, flush=True))
    print(result.summary(), flush=True)
    if page is not None:
        write_page(page, result)
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
