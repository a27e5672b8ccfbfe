"""After a restore the server knows less than the machines: nothing is stuck, nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from muster.domain.errors import NotFound
from muster.domain.observation import End, EndSeen, ReplicaState
from muster.domain.run import LEASE_TTL, RunState
from muster.service.restore import LEAP, settle
from world import World, member, new_sqlite, open_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = open_world(new_sqlite(tmp_path))
    made.queue()
    yield made
    made.close()


def restored(world: World) -> int:
    """The database as it is now was in a backup, and a server starts on it."""
    live = world.do(lambda tx: settle(tx, taken_at="then", now=world.now))
    world.keep_time()
    return live


def test_an_agent_of_the_time_before_is_told_to_register_and_finds_its_runs(world: World) -> None:
    agent = world.agent("a1")
    run_id = world.launch_one()
    held = agent.claim(run_id)
    agent.report(held, member(0, ReplicaState.RUNNING))
    assert restored(world) == 1
    with pytest.raises(NotFound):
        agent.poll()
    with pytest.raises(NotFound):
        agent.report(held, member(0, ReplicaState.SUCCEEDED))
    again = world.agent("a1", incarnation=agent.agent.incarnation)
    again.held = dict(agent.held)
    answer = again.poll()
    assert [key.run_id for key in answer.drops] == [run_id], "the old claim counts no more"
    (claim,) = answer.claims
    assert claim.adopt
    assert claim.run.head.attempt == 1
    assert claim.run.head.epoch > held.epoch + LEAP
    again.report(again.held[run_id], member(0, ReplicaState.SUCCEEDED))
    assert world.run(run_id).state is RunState.SUCCEEDED


def test_the_time_since_the_backup_counts_for_nothing(world: World) -> None:
    """A live run of the backup waits for its machine as long as any orphan, not for days."""
    agent = world.agent("a1")
    run_id = world.launch_one()
    agent.claim(run_id)
    world.keep_time()
    world.clock.advance(timedelta(days=3))
    restored(world)
    assert world.run(run_id).head.lease_expires_at == world.now


def test_a_claim_after_a_restore_is_newer_than_any_before(world: World) -> None:
    """A machine refuses what is older than what it has seen."""
    run_id = world.launch_one()
    restored(world)
    held = world.agent("a1").claim(run_id)
    assert held.epoch > LEAP
    assert held.key.attempt == 1


def test_a_live_run_goes_to_its_own_machine_and_to_no_other(world: World) -> None:
    agent = world.agent("a1", locality="host-1")
    run_id = world.launch_one()
    agent.report(agent.claim(run_id), member(0, ReplicaState.RUNNING))
    restored(world)
    other = world.agent("a2", locality="host-2")
    world.clock.advance(4 * LEASE_TTL)
    world.sweep()
    assert run_id not in other.held
    other.poll()
    assert run_id not in other.held
    home = world.agent("a1", locality="host-1")
    home.poll()
    home.report(home.held[run_id], EndSeen(end=End.LOST, reason="nothing of it can be found"))
    assert world.run(run_id).state is RunState.QUEUED, "what is gone is tried again"
    other.poll()
    assert other.held[run_id].key.attempt == 2


def test_ended_runs_stay_as_they_are_and_event_ids_are_not_given_again(world: World) -> None:
    agent = world.agent("a1")
    run_id = world.launch_one()
    agent.report(agent.claim(run_id), member(0, ReplicaState.RUNNING), member(0, ReplicaState.SUCCEEDED))
    before, events = world.run(run_id), world.events(run_id)
    assert restored(world) == 0
    assert world.run(run_id) == before
    assert world.events(run_id) == events
    later = world.launch_one()
    assert world.events(later)[0].id > events[-1].id + LEAP
