"""A small world to test in: a real store, a clock moved by hand, agents that do as they are told."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from muster.domain.access import Actor, KeyKind, Role
from muster.domain.agent import Agent
from muster.domain.errors import MusterError
from muster.domain.observation import AttemptKey, Fact, Phase, PhaseSeen, Replica, ReplicaSeen, ReplicaState
from muster.domain.queue import Queue
from muster.domain.resources import Resources
from muster.domain.run import Event, Run
from muster.service import accounts, claim, explain, fleet, launch, observe, queue, stop, sweep
from muster.service.claim import Assignment, Held
from muster.service.explanation import Explanation
from muster.service.launch import Order
from muster.service.observe import Refused, Report
from muster.store import accounts as store_accounts
from muster.store import attempts, events, migrations, runs
from muster.store.attempts import Attempt
from muster.store.database import Database, Tx, sqlite_url
from muster.store.schema import metadata
from postgres import new_postgres

T = TypeVar("T")

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
MACHINE = Resources(millicpus=8000, memory=64 * GIB, gpus=4)
#: A queue with the variables of `local`, but no maxima of its own.
CONFIG: Mapping[str, Any] = queue.LOCAL_CONFIG
VARIABLES: Mapping[str, Any] = queue.LOCAL_VARIABLES


@dataclass(kw_only=True)
class Clock:
    at: datetime = DAWN

    def now(self) -> datetime:
        return self.at

    def advance(self, span: timedelta | float) -> None:
        self.at += span if isinstance(span, timedelta) else timedelta(seconds=span)


@cache
def _empty_sqlite() -> Path:
    """A migrated database, made once and copied: migrating is what costs time."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    database = Database(sqlite_url(folder / "empty.db"))
    database.write_now(lambda tx: migrations.upgrade(tx.conn))
    database.close()
    return folder / "empty.db"


def new_sqlite(folder: Path) -> str:
    """The address of a fresh database with all its tables."""
    path = folder / "muster.db"
    shutil.copyfile(_empty_sqlite(), path)
    return sqlite_url(path)


#: name → a new database with all its tables, in a folder where it needs one
READY: Mapping[str, Callable[[Path], str]] = {
    "sqlite": new_sqlite,
    "postgresql": lambda folder: new_postgres(),
}


@dataclass(kw_only=True)
class World:
    """The server's services around one store, without HTTP."""

    db: Database
    clock: Clock
    random: Callable[[int], bytes]
    owner: Actor  #: admin of the server and of the entity `ann`
    told: set[str] = field(default_factory=set)  #: topics of the newest write

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def begin_anew(self) -> World:
        """Forget everything but `ann`."""
        self.clock.at, self.random = DAWN, _dice()
        self.do(wipe)
        self.do(lambda tx: accounts.ensure_secret(tx, random=self.random))
        self.do(
            lambda tx: accounts.create_user(tx, None, "ann", admin=True, now=self.now, random=self.random)
        )
        return self

    def do(self, work: Callable[[Tx], T]) -> T:
        """One transaction."""

        def noted(tx: Tx) -> T:
            result = work(tx)
            self.told = tx.topics
            return result

        return self.db.write_now(noted)

    def user(self, name: str, **roles: Role) -> Actor:
        """A further user, with roles in other entities."""
        self.do(
            lambda tx: accounts.create_user(
                tx, self.owner, name, admin=False, now=self.now, random=self.random
            )
        )

        def join(tx: Tx) -> None:
            for entity, role in roles.items():
                store_accounts.set_role(tx.conn, entity, name, role)

        self.do(join)
        return self.do(lambda tx: accounts.user_actor(tx.conn, name))

    def queue(
        self,
        name: str = "gpu",
        *,
        config: Mapping[str, Any] = CONFIG,
        variables: Mapping[str, Any] = VARIABLES,
        actor: Actor | None = None,
        resource: str = "process",
    ) -> Queue:
        return self.do(
            lambda tx: queue.create(
                tx,
                actor or self.owner,
                name=name,
                resource=resource,
                config=config,
                variables=variables,
                entity=None,
                now=self.now,
                random=self.random,
            )
        )

    def pause(self, name: str = "gpu", *, paused: bool = True) -> None:
        self.do(lambda tx: queue.set_paused(tx, self.owner, name, entity=None, paused=paused, now=self.now))

    def launch(self, *orders: Order, actor: Actor | None = None) -> list[Run]:
        return self.do(
            lambda tx: launch.launch(tx, actor or self.owner, list(orders), now=self.now, random=self.random)
        )

    def launch_one(self, **asked: Any) -> str:
        """Launch `sleep 1` with some things said otherwise; returns the run's id."""
        return self.launch(order(**asked))[0].id

    def stop(self, run_id: str, *, actor: Actor | None = None) -> Run:
        return self.do(lambda tx: stop.stop(tx, actor or self.owner, run_id, now=self.now))

    def sweep(self) -> None:
        self.do(lambda tx: sweep.sweep(tx, now=self.now))

    def keep_time(self) -> None:
        self.do(lambda tx: sweep.keep_time(tx, now=self.now))

    def run(self, run_id: str) -> Run:
        found = self.do(lambda tx: runs.find(tx.conn, run_id))
        assert found is not None
        return found

    def attempts(self, run_id: str) -> list[Attempt]:
        return self.do(lambda tx: attempts.of_run(tx.conn, run_id))

    def events(self, run_id: str) -> list[Event]:
        return self.do(lambda tx: events.of_run(tx.conn, run_id))

    def why(self, run_id: str) -> Explanation:
        run = self.run(run_id)
        return self.do(lambda tx: explain.explain(tx.conn, run, now=self.now))

    def agent(
        self,
        name: str = "a1",
        *,
        locality: str = "host-1",
        queues: Sequence[str] = ("gpu",),
        max_jobs: int = 8,
        total: Resources = MACHINE,
        incarnation: str | None = None,
        actor: Actor | None = None,
        engine: str = "process",
    ) -> Worker:
        """Register an agent; one of the same name is a restarted one."""
        fresh = incarnation or self.random(8).hex()
        asked = fleet.Registration(
            name=name,
            incarnation=fresh,
            engine=engine,
            host=locality,
            locality=locality,
            version="1",
            max_jobs=max_jobs,
            total=total,
            devices=(),
            queues=tuple(queues),
        )
        who = actor or self.owner
        agent, _ = self.do(lambda tx: fleet.register(tx, who, asked, now=self.now, random=self.random))
        return Worker(world=self, agent=agent, actor=who)

    def close(self) -> None:
        self.db.close()


@dataclass(kw_only=True)
class Worker:
    """An agent in the hands of a test: it holds what it was given and says what it is told to say."""

    world: World
    agent: Agent
    actor: Actor
    held: dict[str, Held] = field(default_factory=dict)
    seqs: dict[tuple[str, int], int] = field(default_factory=dict)  #: run and epoch → newest report

    def poll(
        self,
        *,
        slots: int | None = None,
        free: Resources | None = None,
        deliver: bool = True,
        draining: bool = False,
        heard: datetime | None = None,
    ) -> Assignment:
        """Ask for work. `deliver=False`: the answer is lost on the way. `heard`: it was held since then."""
        room = max(0, self.agent.max_jobs - len(self.held)) if slots is None else slots
        ask = claim.Ask(
            actor=self.actor,
            agent_id=self.agent.id,
            incarnation=self.agent.incarnation,
            held=list(self.held.values()),
            slots=room,
            free=self.agent.total if free is None else free,
            heard=heard or self.world.now,
            draining=draining,
        )
        [answer] = self.world.do(lambda tx: claim.assign(tx, [ask], now=self.world.now))
        if isinstance(answer, MusterError):
            raise answer
        if deliver:
            self.take(answer)
        return answer

    def take(self, answer: Assignment) -> None:
        for key in answer.drops:
            self.held.pop(key.run_id, None)
        for item in answer.claims:
            head = item.run.head
            key = AttemptKey(run_id=head.id, attempt=head.attempt)
            self.held[head.id] = Held(key=key, epoch=head.epoch)
        for key in answer.stops:
            self.held[key.run_id] = Held(key=key, epoch=self.held[key.run_id].epoch, stopping=True)

    def claim(self, run_id: str) -> Held:
        """Poll until the run is in hand: the next answer must bring it."""
        self.poll()
        return self.held[run_id]

    def report(self, held: Held, *facts: Fact) -> list[Refused]:
        """Say some facts about what is held, with the next numbers."""
        place = (held.key.run_id, held.epoch)
        first = self.seqs.get(place, 0) + 1
        self.seqs[place] = first + len(facts) - 1
        return self.say(held, dict(enumerate(facts, first)))

    def say(self, held: Held, numbered: Mapping[int, Fact]) -> list[Refused]:
        """Say facts under these very numbers."""
        reports = [
            Report(key=held.key, epoch=held.epoch, seq=seq, fact=fact) for seq, fact in numbered.items()
        ]
        return self.world.do(
            lambda tx: observe.report(
                tx, self.actor, self.agent.id, self.agent.incarnation, reports, now=self.world.now
            )
        )

    def leave(self) -> None:
        world, agent = self.world, self.agent
        world.do(lambda tx: fleet.leave(tx, self.actor, agent.id, agent.incarnation, now=world.now))


def open_world(url: str) -> World:
    """A world with one user, `ann`, admin of everything."""
    world = World(db=Database(url), clock=Clock(), random=_dice(), owner=_ANN)
    world.begin_anew()
    return world


def _dice() -> Callable[[int], bytes]:
    return random.Random(0).randbytes  # noqa: S311 - it has to repeat


def wipe(tx: Tx) -> None:
    """Empty all tables. Much cheaper than another database, and no test can tell."""
    for table in reversed(metadata.sorted_tables):
        tx.conn.execute(table.delete())


_ANN = Actor(
    name="ann", kind=KeyKind.USER, default_entity="ann", roles={"ann": Role.ADMIN}, server_admin=True
)


def order(**asked: Any) -> Order:
    return Order(**{"queue": "gpu", "command": ("sleep", "1"), **asked})


def member(rank: int, state: ReplicaState, **known: Any) -> ReplicaSeen:
    return ReplicaSeen(replica=Replica(rank=rank, state=state, **known))


def phase(name: str, detail: str = "") -> PhaseSeen:
    return PhaseSeen(phase=Phase(name), detail=detail)
