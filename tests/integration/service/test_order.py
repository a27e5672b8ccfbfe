"""Who is next, in a real store: fair share, priorities, limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_
from hypothesis import strategies as st
from psycopg import _queries
from sqlalchemy import delete, event, insert, select, update

from muster.domain.access import Actor, Role
from muster.domain.errors import ImpossibleRequest, MusterError
from muster.domain.observation import ReplicaState
from muster.domain.policy import Limit, Policy
from muster.domain.resources import Resources
from muster.domain.run import AttemptEnd, Priority, Retry, queue_rank
from muster.domain.schedule import Candidate
from muster.domain.share import START_CHARGE, Line, Standing, rate, weight
from muster.service import claim, handout, queue, sweep
from muster.store import accounts, schema, shares
from muster.store.database import Tx
from world import GIB, MACHINE, Worker, World, member, order

HOUR = timedelta(hours=1)


@pytest.fixture
def bob(world: World) -> Actor:
    return world.user("bob", ann=Role.MEMBER)


def rule(world: World, **policy: Any) -> None:
    """Give queue `gpu` these rules."""
    world.do(
        lambda tx: queue.edit(
            tx, world.owner, "gpu", entity=None, config=None, variables=None, policy=policy, now=world.now
        )
    )


def launched(world: World, count: int, actor: Actor | None = None, **asked: Any) -> list[str]:
    world.clock.advance(1)
    return [
        run.id for run in world.launch(*[order(entity="ann", **asked) for _ in range(count)], actor=actor)
    ]


def given(answer: claim.Assignment) -> list[str]:
    return [item.run.id for item in answer.claims]


def asking(worker: Worker, *, slots: int) -> claim.Ask:
    """What it would ask with nothing in hand."""
    return claim.Ask(
        actor=worker.actor,
        agent_id=worker.agent.id,
        incarnation=worker.agent.incarnation,
        held=(),
        slots=slots,
        free=MACHINE,
        heard=worker.world.now,
    )


def finish(agent: Worker, run_id: str) -> None:
    agent.report(agent.held.pop(run_id), member(0, ReplicaState.SUCCEEDED))


def test_a_thousand_runs_of_one_do_not_hold_up_the_one_of_another(world: World, bob: Actor) -> None:
    anns = launched(world, 20)
    agent = world.agent(max_jobs=2)
    assert given(agent.poll()) == anns[:2]
    bobs = launched(world, 1, bob)
    finish(agent, anns[0])
    assert given(agent.poll()) == bobs


def test_in_order_of_arrival_it_would_have_waited(world: World, bob: Actor) -> None:
    rule(world, order="fifo")
    anns = launched(world, 20)
    agent = world.agent(max_jobs=2)
    agent.poll()
    launched(world, 1, bob)
    finish(agent, anns[0])
    assert given(agent.poll()) == [anns[2]]


def test_who_used_much_waits_for_who_used_little(world: World, bob: Actor) -> None:
    agent = world.agent(max_jobs=1)
    [first] = launched(world, 1)
    agent.poll()
    world.clock.advance(HOUR)
    finish(agent, first)
    anns, bobs = launched(world, 2), launched(world, 2, bob)
    got = []
    for _ in range(4):
        [run_id] = given(agent.poll())
        got.append(run_id)
        finish(agent, run_id)
    assert got == [*bobs, *anns]


def test_what_the_store_charges_is_what_the_rules_say(world: World) -> None:
    values = {"gpus": 2, "cpus": 3, "memory": "8Gi"}
    agent = world.agent(max_jobs=1)
    run_id, _ = launched(world, 2, values=values)
    agent.poll()
    world.clock.advance(100)
    needs = Resources(gpus=2, millicpus=3000, memory=8 * GIB)

    def used() -> float:
        return waiting_in_order(world)["ann"].used

    assert used() == pytest.approx(rate(needs) * (100 + START_CHARGE.total_seconds()))
    finish(agent, run_id)
    assert used() == pytest.approx(rate(needs) * 100, rel=1e-4)
    world.clock.advance(timedelta(days=7))
    assert used() == pytest.approx(rate(needs) * 50, rel=1e-3), "it halves in a week"


def waiting_in_order(world: World, *, share: bool = True) -> dict[str, Standing]:
    found = world.do(lambda tx: queue.find(tx.conn, world.owner, "gpu", None))
    return world.do(lambda tx: shares.first_waiting(tx.conn, found.id, now=world.now, share=share, limit=100))


def test_the_driver_remembers_every_statement_of_a_claim(world: World) -> None:
    """One that is longer, or has more parameters, it reads anew each time: longer than it takes to run."""
    if not world.db.shared:
        pytest.skip("only the driver of PostgreSQL reads them")
    said: list[tuple[str, Any]] = []

    def note(conn: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        said.append((statement, parameters))

    launched(world, 3)
    agent = world.agent()
    engine = world.do(lambda tx: tx.conn.engine)
    event.listen(engine, "before_cursor_execute", note)
    try:
        assert len(agent.poll().claims) == 3
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert any("shares" in statement for statement, _ in said)
    for statement, parameters in said:
        assert len(statement) <= _queries.MAX_CACHED_STATEMENT_LENGTH, statement
        one = parameters[0] if isinstance(parameters, list) else parameters
        assert len(one) <= _queries.MAX_CACHED_STATEMENT_PARAMS, statement


users = st.lists(
    st.tuples(
        st.sampled_from(Priority),
        st.integers(0, 40),  # hours it has been waiting
        st.one_of(st.none(), st.integers(0, 40)),  # hours since it was served
        st.one_of(st.just(0.0), st.floats(1, 1e6)),  # what it used
    ),
    max_size=12,
)


@given_(asked=users, share=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_store_orders_users_as_the_rules_do(
    world: World, asked: list[tuple[Priority, int, int | None, float]], share: bool
) -> None:
    found = world.do(lambda tx: queue.find(tx.conn, world.owner, "gpu", None))
    standings = {
        f"u{number:02}": Standing(
            user=f"u{number:02}",
            rank=queue_rank(world.now - timedelta(hours=waited), priority),
            priority=priority,
            used=used,
            served_at=None if served is None else world.now - timedelta(hours=served),
        )
        for number, (priority, waited, served, used) in enumerate(asked)
    }

    def fill(tx: Tx) -> None:
        tx.conn.execute(delete(schema.shares))
        for one in standings.values():
            tx.conn.execute(
                insert(schema.shares).values(
                    queue_id=found.id,
                    user=one.user,
                    used=one.used * weight(world.now),
                    served_at=one.served_at,
                    rank=one.rank,
                    priority=one.priority.value,
                )
            )

    world.do(fill)
    seen = waiting_in_order(world, share=share)
    runs_of = {
        user: Candidate(run_id=user, needs=Resources(), user=user, priority=one.priority, rank=one.rank)
        for user, one in standings.items()
    }
    line = Line(lambda user: [runs_of[user]], now=world.now, standings=standings, share=share)
    by_rules = []
    while (candidate := line.next()) is not None:
        by_rules.append(candidate.user)
    assert list(seen) == by_rules
    assert {user: (s.rank, s.served_at) for user, s in seen.items()} == {
        user: (s.rank, s.served_at) for user, s in standings.items()
    }


def ranks(world: World) -> dict[str, int | None]:
    """What the store has noted of who waits."""
    rows = world.do(lambda tx: tx.conn.execute(select(schema.shares.c.user, schema.shares.c.rank)).all())
    return {row.user: row.rank for row in rows}


def test_it_is_noted_who_waits_and_who_does_not_any_more(world: World, bob: Actor) -> None:
    anns, bobs = launched(world, 2), launched(world, 1, bob)
    agent = world.agent(max_jobs=1)
    assert ranks(world) == {"ann": world.run(anns[0]).rank, "bob": world.run(bobs[0]).rank}
    for _ in range(3):
        [run_id] = given(agent.poll())
        finish(agent, run_id)
    agent.poll()
    assert ranks(world) == {"ann": None, "bob": None}
    launched(world, 1, bob)
    assert ranks(world)["bob"] is not None


def test_what_was_lost_waits_again_and_is_noted(world: World) -> None:
    [run_id] = launched(world, 1, retry=Retry(max=1, on=frozenset({AttemptEnd.FAILED})))
    agent = world.agent()
    agent.poll()
    agent.poll()
    assert ranks(world) == {"ann": None}
    agent.report(agent.held.pop(run_id), member(0, ReplicaState.FAILED, exit_code=1))
    assert ranks(world) == {"ann": world.run(run_id).rank}
    assert given(agent.poll()) == [run_id]


def test_a_user_whose_last_run_was_stopped_holds_up_nobody(world: World, bob: Actor) -> None:
    [stopped] = launched(world, 1)
    bobs = launched(world, 1, bob)
    world.stop(stopped)
    agent = world.agent()
    assert given(agent.poll()) == bobs
    assert ranks(world)["ann"] is None


def test_who_was_forgotten_is_found_again(world: World) -> None:
    [run_id] = launched(world, 1)
    world.do(lambda tx: tx.conn.execute(update(schema.shares).values(rank=None, priority=None)))
    agent = world.agent()
    assert given(agent.poll()) == []
    world.do(sweep.repair)
    assert given(agent.poll()) == [run_id]


def test_priority_comes_before_share(world: World, bob: Actor) -> None:
    agent = world.agent(max_jobs=1)
    [first] = launched(world, 1)
    agent.poll()
    world.clock.advance(HOUR)
    finish(agent, first)
    bobs = launched(world, 1, bob)
    urgent = launched(world, 1, priority=Priority.HIGH)
    assert given(agent.poll()) == urgent
    finish(agent, urgent[0])
    assert given(agent.poll()) == bobs


def test_who_got_nothing_for_long_rises(world: World, bob: Actor) -> None:
    """Ann has used much, and bob's runs go first; but not for ever."""
    agent = world.agent(max_jobs=1)
    [first] = launched(world, 1)
    agent.poll()
    world.clock.advance(HOUR)
    finish(agent, first)
    [patient] = launched(world, 1)
    [his] = launched(world, 1, bob)
    assert given(agent.poll()) == [his]
    world.clock.advance(timedelta(hours=6))
    finish(agent, his)
    launched(world, 1, bob)
    assert given(agent.poll()) == [patient]


def test_several_agents_that_ask_at_once_share_what_waits(world: World, bob: Actor) -> None:
    workers = [world.agent(f"a{n}", locality=f"host-{n}", max_jobs=2) for n in range(3)]
    anns, bobs = launched(world, 4), launched(world, 2, bob)
    asks = [asking(worker, slots=2) for worker in workers]
    answers = world.do(lambda tx: claim.assign(tx, asks, now=world.now))
    got = [given(answer) for answer in answers if isinstance(answer, claim.Assignment)]
    assert [len(one) for one in got] == [2, 2, 2]
    assert sorted(run_id for one in got for run_id in one) == sorted([*anns, *bobs])


def test_one_that_may_not_ask_does_not_spoil_it_for_the_others(world: World) -> None:
    good, old = world.agent("good"), world.agent("old")
    world.agent("old")  # started again
    [run_id] = launched(world, 1)
    asks = [asking(worker, slots=1) for worker in (old, good, good)]
    refused, first, second = world.do(lambda tx: claim.assign(tx, asks, now=world.now))
    assert isinstance(refused, MusterError)
    assert "overtaken" in refused.detail
    assert isinstance(first, claim.Assignment)
    assert given(first) == [run_id]
    assert isinstance(second, claim.Assignment)
    assert given(second) == [run_id], "the same agent asked twice: what it did not name is sent again"


def test_a_limit_of_the_queue(world: World) -> None:
    rule(world, limits={"runs": 2})
    anns = launched(world, 4)
    agent = world.agent()
    assert given(agent.poll()) == anns[:2]
    assert given(agent.poll()) == []
    assert "the queue has 2 of 2 allowed runs at once" in world.why(anns[2]).summary
    finish(agent, anns[0])
    assert given(agent.poll()) == [anns[2]]


def test_a_limit_of_each_user(world: World, bob: Actor) -> None:
    rule(world, limits={"user": {"gpus": 2}}, order="fifo")
    anns = launched(world, 3, values={"gpus": 1})
    bobs = launched(world, 1, bob, values={"gpus": 2})
    agent = world.agent()
    assert given(agent.poll()) == [*anns[:2], *bobs]
    assert "ann has 2 of 2 allowed GPUs in use, and it needs 1" in world.why(anns[2]).summary
    free = launched(world, 1)
    assert given(agent.poll()) == free, "what needs no GPU goes on"


def test_a_limit_of_the_entity_counts_all_its_queues(world: World) -> None:
    world.queue("other")
    world.do(lambda tx: accounts.set_limits(tx.conn, "ann", Limit(runs=2)))
    here, there = launched(world, 2), launched(world, 2, queue="other")
    agent = world.agent(queues=("gpu", "other"))
    assert given(agent.poll()) == here
    assert "ann has, in all its queues, 2 of 2 allowed runs at once" in world.why(there[0]).summary
    finish(agent, here[0])
    assert given(agent.poll()) == there[:1]


def test_a_run_that_no_limit_would_ever_let_start_is_refused(world: World) -> None:
    rule(world, limits={"gpus": 3, "user": {"gpus": 2}})
    with pytest.raises(ImpossibleRequest, match="allows each user 2 GPUs at once; this needs 3"):
        launched(world, 1, values={"gpus": 3})
    with pytest.raises(ImpossibleRequest, match="all its runs together 3 GPUs at once; this needs 4"):
        launched(world, 1, values={"gpus": 4})


def test_a_limit_that_is_lowered_stops_nothing_that_runs(world: World) -> None:
    anns = launched(world, 3)
    agent = world.agent()
    assert len(given(agent.poll(slots=2))) == 2
    rule(world, limits={"runs": 1})
    assert agent.poll() == claim.Assignment()
    finish(agent, anns[0])
    assert given(agent.poll()) == []
    finish(agent, anns[1])
    assert given(agent.poll()) == [anns[2]]


def test_why_tells_the_place_by_share(world: World, bob: Actor) -> None:
    world.agent()
    anns, bobs = launched(world, 6), launched(world, 1, bob)
    assert world.why(bobs[0]).place == 2
    assert world.why(anns[0]).place == 1
    assert world.why(anns[1]).place == 3
    assert [run.id for run in world.why(anns[1]).ahead] == [anns[0], bobs[0]]


def test_far_back_the_place_is_an_estimate(world: World, bob: Actor) -> None:
    anns = launched(world, 260)
    launched(world, 1, bob)
    assert world.why(anns[-1]).summary.startswith("It is about number 260 in queue")


def test_the_rules_are_kept_with_the_queue(world: World) -> None:
    rule(world, limits={"runs": 2}, order="fifo")
    found = world.do(lambda tx: queue.find(tx.conn, world.owner, "gpu", None))
    assert found.policy == Policy.parse({"limits": {"runs": 2}, "order": "fifo"})


@pytest.mark.parametrize("why", ["too big for this machine", "stopped"])
def test_many_users_with_nothing_to_start_here_hide_nobody(world: World, why: str) -> None:
    """More of them than are looked at first."""
    crowd = [world.user(f"u{number:03}", ann=Role.MEMBER) for number in range(handout.LOOK_AHEAD + 6)]
    for actor in crowd:
        [run_id] = launched(world, 1, actor, values={"gpus": 1})
        if why == "stopped":
            world.stop(run_id, actor=actor)
    [mine] = launched(world, 1)
    agent = world.agent(total=replace(MACHINE, gpus=0))
    assert given(agent.poll()) == [mine]


def test_a_few_users_with_much_that_has_no_room_now_hide_nobody(world: World) -> None:
    """As many runs as are looked at, of fewer users than there are."""
    for number in range(handout.FEW_USERS):
        big = world.user(f"u{number}", ann=Role.MEMBER)
        launched(world, handout.LOOK_AHEAD // handout.FEW_USERS, big, values={"gpus": 1})
    [mine] = launched(world, 1, world.user("zoe", ann=Role.MEMBER))
    assert given(world.agent().poll(slots=1, free=replace(MACHINE, gpus=0))) == [mine]
