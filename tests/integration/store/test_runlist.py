"""Lists of runs in every order: whole, each run once, however they are cut into pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Update, update

from muster.domain.run import Run, RunState
from muster.domain.runorder import NEWEST, RunKey, RunOrder
from muster.store import runlist
from muster.store import runs as store_runs
from muster.store.database import Tx
from muster.store.runlist import Filter, Place, page
from muster.store.schema import runs
from world import DAWN, READY, World, open_world, order

ORDERS = [RunOrder(by=key, down=down) for key in RunKey for down in (False, True)]
NOW = DAWN + timedelta(hours=5)
#: as the bytes have it: capitals first, marks before and after letters, and what is not ASCII last
NAMES = ("Zoo", "zoo", "a-b", "a_b", "ab", "a", "éclair", "学習", "😀")


@pytest.fixture(params=sorted(READY))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = open_world(READY[request.param](tmp_path))
    yield made
    made.close()


def crowd(world: World, n: int = 60) -> list[Run]:
    """Runs with the same few values again and again, oldest first."""
    dice = Random(7)  # noqa: S311 - the same every time
    for name in ("gpu", "big", "Cold"):
        world.queue(name)
    ids = [
        world.launch_one(queue=dice.choice(("gpu", "big", "Cold")), project=dice.choice(("p", "q", "R")))
        for _ in range(n)
    ]
    for run_id in ids:
        started = DAWN + timedelta(minutes=dice.randrange(3)) if dice.random() < 0.8 else None
        ended = NOW - timedelta(minutes=dice.randrange(3)) if started and dice.random() < 0.6 else None
        values: dict[str, Any] = {
            "name": dice.choice(NAMES),
            "state": dice.choice(list(RunState)).value,
            "author": dice.choice(("ann", "Bob", "eve")),
            "gpus": dice.randrange(3),
            "started_at": started,
            "ended_at": ended,
        }
        change = update(runs).where(runs.c.id == run_id).values(**values)
        world.do(partial(_execute, change))
    found = world.do(lambda tx: store_runs.find_many(tx.conn, ids))
    return [found[run_id] for run_id in ids]


def _execute(statement: Update, tx: Tx) -> None:
    tx.conn.execute(statement)


def _page(narrow: Filter, order: RunOrder, after: Place | None, size: int, tx: Tx) -> list[tuple[Place, Run]]:
    return page(tx.conn, narrow, order=order, after=after, now=NOW, limit=size)


def listed(world: World, order: RunOrder, *, size: int, **narrow: Any) -> list[str]:
    seen: list[str] = []
    after: Place | None = None
    while True:
        found = world.do(partial(_page, Filter(**narrow), order, after, size))
        seen += [run.id for _, run in found]
        if len(found) < size:
            return seen
        after = found[-1][0]


def expected(found: list[Run], order: RunOrder, gpus: dict[str, int]) -> list[str]:
    def key(run: Run) -> Any:
        match order.by:
            case RunKey.GPUS:
                return gpus[run.id]
            case RunKey.DURATION:
                return _lasted(run.head.started_at, run.ended_at)
            case RunKey.CREATED:
                return 0
            case RunKey.QUEUE:
                return run.queue.encode()
            case other:
                return str(getattr(run, other.value)).encode()

    newest = list(found) if order == RunOrder(by=RunKey.CREATED, down=False) else found[::-1]
    return [run.id for run in sorted(newest, key=key, reverse=order.down)]


def _lasted(started: datetime | None, ended: datetime | None) -> timedelta:
    return timedelta(microseconds=-1) if started is None else (ended or NOW) - started


@pytest.mark.parametrize("size", [1, 7, 100])
def test_every_order_has_each_run_once_however_it_is_cut(world: World, size: int) -> None:
    all_runs = crowd(world)
    rows = world.do(lambda tx: tx.conn.execute(runs.select()).all())
    gpus = {row.id: row.gpus for row in rows}
    for one in ORDERS:
        assert listed(world, one, size=size) == expected(all_runs, one, gpus), one
    narrow = {"entities": ("ann",), "states": (RunState.RUNNING, RunState.QUEUED, RunState.FAILED)}
    some = [run for run in all_runs if run.state in narrow["states"]]
    for one in ORDERS:
        assert listed(world, one, size=size, **narrow) == expected(some, one, gpus), one
    zoos = [run for run in all_runs if "zoo" in run.name.lower()]
    for one in ORDERS:
        assert listed(world, one, size=size, text="zoo") == expected(zoos, one, gpus), one


def test_what_comes_and_goes_between_two_pages_moves_nothing_else(world: World) -> None:
    all_runs = crowd(world, 20)
    by_name = RunOrder(by=RunKey.NAME, down=False)
    whole = listed(world, by_name, size=100)
    first = world.do(lambda tx: page(tx.conn, Filter(), order=by_name, now=NOW, limit=8))
    gone = first[-1][1].id  # the very one that the next page follows
    world.do(lambda tx: tx.conn.execute(runs.delete().where(runs.c.id == gone)))
    world.launch(*[order(name="0-before-all", queue="gpu") for _ in range(3)])
    rest = world.do(lambda tx: page(tx.conn, Filter(), order=by_name, after=first[-1][0], now=NOW, limit=100))
    assert [run.id for _, run in first] + [run.id for _, run in rest] == whole
    assert len(whole) == len(all_runs)


def test_the_newest_first_unless_somebody_says_otherwise(world: World) -> None:
    all_runs = crowd(world, 5)
    plain = world.do(lambda tx: page(tx.conn, Filter(), limit=9))
    assert [run.id for _, run in plain] == listed(world, NEWEST, size=2) == [run.id for run in all_runs[::-1]]


def test_a_place_beyond_all_values_is_the_end_or_the_beginning(world: World) -> None:
    all_runs = crowd(world, 9)
    for by in (RunKey.GPUS, RunKey.DURATION):
        far = Place(seq=1, value=2**55)
        for narrow in (Filter(), Filter(text="o"), Filter(project="p")):
            up, down = (RunOrder(by=by, down=down) for down in (False, True))
            assert world.do(partial(_page, narrow, up, far, 99)) == []
            fits = world.do(partial(_page, narrow, down, None, 99))
            assert world.do(partial(_page, narrow, down, far, 99)) == fits
    queue = RunOrder(by=RunKey.QUEUE, down=False)
    assert world.do(partial(_page, Filter(), queue, Place(seq=1, value="zzz"), 99)) == []
    assert len(world.do(partial(_page, Filter(), queue, Place(seq=1, value="!"), 99))) == len(all_runs)


def test_a_list_by_more_values_than_are_looked_up_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_runs = crowd(world, 30)
    gpus = {row.id: row.gpus for row in world.do(lambda tx: tx.conn.execute(runs.select()).all())}
    monkeypatch.setattr(runlist, "_MAX_BRANCHES", 2)
    for one in ORDERS:
        assert listed(world, one, size=4) == expected(all_runs, one, gpus), one


@pytest.mark.parametrize("size", [1, 2, 100])
def test_queues_of_one_name_are_one_stretch_of_the_list(world: World, size: int) -> None:
    bob = world.user("bob")
    world.queue("one")
    world.queue("two")
    world.queue("two", actor=bob)
    asked = [(None, "two"), (bob, "two"), (None, "one"), (None, "two"), (bob, "two")]
    ids = [world.launch(order(queue=queue), actor=actor)[0].id for actor, queue in asked]
    by_queue = RunOrder(by=RunKey.QUEUE, down=False)
    wanted = [ids[place] for place in (2, 4, 3, 1, 0)]
    assert listed(world, by_queue, size=size) == wanted
    assert listed(world, RunOrder(by=RunKey.QUEUE, down=True), size=size) == [*wanted[1:], wanted[0]]
