"""Who is next: the decision of a claim, with many users and many runs that wait."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from bench.databases import Database, Sqlite, postgres
from bench.harness import Bar, Plan, Row, interleave
from bench.server import Store, prepare
from muster.domain.agent import Agent
from muster.domain.policy import Limit
from muster.domain.resources import Resources
from muster.domain.schedule import Capacity
from muster.server.setup import DataDir
from muster.service.handout import Wish, hand_out
from muster.store import database as store_database
from muster.store import queues
from muster.store.agents import Served
from muster.store.database import Tx, sqlite_url

ABOUT = (
    "Milliseconds to decide by fair share which run of a queue is next, from the store to the locked row; "
    "each of 1,000 users has runs waiting."
)
USERS = 1000
_FEW, _MANY = 1_000, 100_000
_TIMES = 50
_ROOM = Resources(millicpus=10**9, memory=2**50)


class _Enough(Exception):
    pass


def run(plan: Plan) -> Iterator[Row]:
    yield from on_database(plan, Sqlite(plan.folder))
    with postgres(plan.folder) as server:
        yield from on_database(plan, server)


def on_database(plan: Plan, database: Database) -> list[Row]:
    stores = {
        f"{count:,} queued": prepare(
            plan.folder / f"{database.name}-order-{count}",
            database.new(),
            queued=count,
            vary=lambda number: {"author": f"user-{number % USERS:04}"},
        )
        for count in (_FEW, _MANY)
    }
    opened = {name: _open(store) for name, store in stores.items()}
    try:
        contest = interleave(
            plan,
            f"order on {database.name}",
            "ms",
            {name: _decisions(db, plan.count(_TIMES)) for name, db in opened.items()},
        )
    finally:
        for db in opened.values():
            db.close()
    few, many = stores
    return [
        contest.alone(f"{database.name}: {many} of {USERS:,} users", many, bar=Bar(sense="≤", limit=5)),
        contest.ratio(f"{database.name}: {many} ÷ {few}", many, few, bar=Bar(sense="≤", limit=1.5)),
    ]


def _open(store: Store) -> store_database.Database:
    return store_database.Database(store.database or sqlite_url(DataDir(path=store.folder).database))


def _decisions(db: store_database.Database, times: int) -> Callable[[], float]:
    def once() -> float:
        took = [0.0]

        def work(tx: Tx) -> None:
            wish = _wish(tx)
            began = time.perf_counter()
            handed = hand_out(tx, [wish], now=datetime.now(UTC))
            took[0] = time.perf_counter() - began
            if not handed.given[wish.agent.id]:
                raise RuntimeError("nothing was handed out")
            raise _Enough

        with suppress(_Enough):
            db.write_now(work)
        return took[0] * 1000

    return lambda: statistics.median(once() for _ in range(times))


def _wish(tx: Tx) -> Wish:
    [queue] = queues.of_entities(tx.conn, None)
    now = datetime.now(UTC)
    agent = Agent(
        id="bench",
        entity=queue.entity,
        name="bench",
        incarnation="1",
        engine=queue.engine,
        host="bench",
        locality="bench",
        version="bench",
        max_jobs=1,
        total=_ROOM,
        devices=(),
        free=_ROOM,
        registered_at=now,
        seen_at=now,
        left_at=None,
    )
    served = Served(id=queue.id, entity=queue.entity, policy=queue.policy, entity_limit=Limit())
    return Wish(agent=agent, queues=[served], capacity=Capacity(slots=1, free=_ROOM, total=_ROOM))
