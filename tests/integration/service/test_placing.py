"""The line of a queue: who is next, and moving what waits to another place."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, select

from muster.domain.access import Actor, Role
from muster.domain.errors import BadInput, Conflict, NotAllowed
from muster.domain.run import Priority
from muster.service import prioritize, queue
from muster.service.place import first_in_line
from muster.store import queues, runs, schema
from world import World, order


@pytest.fixture
def bob(world: World) -> Actor:
    return world.user("bob", ann=Role.MEMBER)


def rule(world: World, **policy: Any) -> None:
    world.do(
        lambda tx: queue.edit(
            tx, world.owner, "gpu", entity=None, config=None, variables=None, policy=policy, now=world.now
        )
    )


def launched(world: World, *names: str, actor: Actor | None = None, **asked: Any) -> dict[str, str]:
    """All at the same moment, as a batch is: they have the same rank."""
    world.clock.advance(1)
    made = world.launch(*[order(entity="ann", name=name, **asked) for name in names], actor=actor)
    return {run.name: run.id for run in made}


def line(world: World) -> list[str]:
    """Names of what waits, in order."""

    def look(conn: Connection) -> list[str]:
        found = queues.find(conn, "ann", "gpu")
        assert found is not None
        ids = first_in_line(conn, found, now=world.now, limit=100)
        by_id = runs.find_many(conn, ids)
        return [by_id[run_id].name for run_id in ids]

    return world.do(lambda tx: look(tx.conn))


def check_shares(world: World) -> None:
    """While a run waits, its user's row has a rank, and none greater than the run's."""

    def look(conn: Connection) -> None:
        entered = {row.user: row.rank for row in conn.execute(select(schema.shares))}
        for row in conn.execute(select(schema.runs).where(schema.runs.c.state == "queued")):
            assert entered[row.author] is not None
            assert entered[row.author] <= row.rank

    world.do(lambda tx: look(tx.conn))


def move(world: World, run: str, beside: str, *, behind: bool = False, actor: Actor | None = None) -> None:
    world.do(
        lambda tx: prioritize.move(tx, actor or world.owner, run, beside=beside, behind=behind, now=world.now)
    )
    check_shares(world)


def prioritized(world: World, run: str, priority: Priority, actor: Actor | None = None) -> None:
    world.do(lambda tx: prioritize.set_priority(tx, actor or world.owner, run, priority, now=world.now))
    check_shares(world)


def test_the_line_is_the_order_in_which_an_agent_gets_the_runs(world: World, bob: Actor) -> None:
    launched(world, "a1", "a2", "a3")
    launched(world, "b1", "b2", actor=bob)
    launched(world, "urgent", priority=Priority.HIGH)
    expected = line(world)
    claims = world.agent(max_jobs=8).poll().claims
    assert [claim.run.name for claim in claims] == expected
    assert expected[0] == "urgent"


@pytest.mark.parametrize("kind", ["share", "fifo"])
def test_runs_of_one_batch_are_moved_to_any_place(world: World, kind: str) -> None:
    rule(world, order=kind)
    ids = launched(world, *"abcdef")
    move(world, ids["e"], ids["b"])
    assert line(world) == [*"aebcdf"]
    move(world, ids["a"], ids["f"], behind=True)
    assert line(world) == [*"ebcdfa"]
    move(world, ids["f"], ids["e"])
    assert line(world) == [*"febcda"]
    move(world, ids["d"], ids["b"])
    move(world, ids["a"], ids["b"])
    assert line(world) == [*"fedabc"]
    move(world, ids["f"], ids["b"], behind=True)
    assert line(world) == [*"edabfc"]


def test_a_moved_run_has_the_priority_of_the_one_it_stands_beside(world: World) -> None:
    high = launched(world, "high", priority=Priority.HIGH)
    low = launched(world, "low1", "low2", priority=Priority.LOW)
    move(world, low["low2"], high["high"])
    assert line(world) == ["low2", "high", "low1"]
    assert world.run(low["low2"]).priority is Priority.HIGH


def test_another_priority_is_as_if_it_had_been_launched_so(world: World) -> None:
    ids = launched(world, "a", "b", "c")
    prioritized(world, ids["c"], Priority.HIGH)
    assert line(world) == [*"cab"]
    prioritized(world, ids["a"], Priority.LOW)
    assert line(world) == [*"cba"]
    prioritized(world, ids["a"], Priority.MEDIUM)
    prioritized(world, ids["c"], Priority.MEDIUM)
    assert line(world) == [*"abc"]
    notes = [event.data["message"] for event in world.events(ids["c"]) if event.type == "note"]
    assert notes == [
        "Priority changed from medium to high.",
        "Priority changed from high to medium.",
    ]


def test_a_member_sets_priorities_and_only_an_admin_moves_runs_past_others(world: World, bob: Actor) -> None:
    anns = launched(world, "a")
    bobs = launched(world, "b", actor=bob)
    prioritized(world, bobs["b"], Priority.HIGH, actor=bob)
    with pytest.raises(NotAllowed, match="may not manage"):
        move(world, bobs["b"], anns["a"], actor=bob)
    rule(world, priorities=False)
    with pytest.raises(BadInput, match="priorities turned off"):
        prioritized(world, bobs["b"], Priority.CRITICAL, actor=bob)
    prioritized(world, bobs["b"], Priority.CRITICAL)


def test_only_what_waits_in_the_same_queue_has_a_place_in_it(world: World) -> None:
    ids = launched(world, "a", "b")
    world.queue("other")
    elsewhere = launched(world, "c", queue="other")
    for beside in (elsewhere["c"], ids["a"]):
        with pytest.raises(BadInput, match="cannot be moved"):
            move(world, ids["a"], beside)
    world.agent().poll()
    with pytest.raises(Conflict, match="no longer waits"):
        prioritized(world, ids["a"], Priority.HIGH)
