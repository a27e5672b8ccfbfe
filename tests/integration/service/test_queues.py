"""Queues as versioned definitions: rules, roll back, drain, on either database."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.errors import BadInput, Conflict, NotAllowed, NotFound
from muster.domain.policy import Limit, Policy, QueueOrder
from muster.domain.queue import Queue
from muster.domain.run import Priority
from muster.service import accounts, queue
from muster.service.bus import queue_topic
from muster.store import accounts as store_accounts
from muster.store import queues, records
from world import World, order

NEWER = {**queue.LOCAL_CONFIG, "stop_grace": 5}


def edit(world: World, **changes: Any) -> Queue:
    asked: dict[str, Any] = {"entity": None, "config": None, "variables": None, **changes}
    return world.do(lambda tx: queue.edit(tx, world.owner, "gpu", now=world.now, **asked))


def roll_back(world: World, version: int) -> Queue:
    return world.do(lambda tx: queue.roll_back(tx, world.owner, "gpu", version, entity=None, now=world.now))


def drain(world: World) -> Queue:
    return world.do(lambda tx: queue.drain(tx, world.owner, "gpu", entity=None, now=world.now))


def newest(world: World) -> Queue:
    return world.do(lambda tx: queue.find(tx.conn, world.owner, "gpu", None))


def test_an_edit_of_a_rule_is_a_new_version_and_keeps_the_others(world: World) -> None:
    edit(world, policy={"limits": {"runs": 3}})
    made = edit(world, policy={"order": "fifo"})
    assert queue_topic(made.id) in world.told, "a raised limit lets runs go on"
    assert (made.version, made.policy.order, made.policy.limits.queue.runs) == (3, QueueOrder.FIFO, 3)
    assert newest(world) == made
    assert edit(world, policy={"order": "fifo"}).version == 3
    assert edit(world, policy={"order": None, "limits": {}}).policy == Policy()


def test_an_edit_that_is_refused_leaves_the_queue_as_it_was(world: World) -> None:
    before = newest(world)
    for changes in (
        {"policy": {"order": "lifo"}},
        {"config": {"a": "x\0y"}},
        {"config": {"cpus": "{{cpus}}"}},
    ):
        with pytest.raises(BadInput):
            edit(world, **changes)
    assert newest(world) == before


def test_a_version_brought_back_is_a_new_one(world: World) -> None:
    edit(world, config=NEWER, policy={"priorities": False})
    back = roll_back(world, 1)
    assert (back.version, back.config, back.policy) == (3, queue.LOCAL_CONFIG, Policy())
    kept = world.do(lambda tx: queues.versions(tx.conn, back.id))
    assert [(item.version, item.policy.priorities) for item in kept] == [(3, True), (2, False), (1, True)]
    audit = world.do(lambda tx: records.list_audit(tx.conn, ["ann"], before=None, limit=1))[0]
    assert (audit.action, audit.data) == ("queue.rollback", {"version": 3, "to": 1})
    with pytest.raises(NotFound, match=r"has v1 … v3"):
        roll_back(world, 4)


def test_a_draining_queue_finishes_what_it_has(world: World) -> None:
    waiting = world.launch_one()
    assert drain(world).draining_at == world.now
    with pytest.raises(Conflict, match="takes no more launches"):
        world.launch_one()
    assert world.agent().claim(waiting).key.run_id == waiting
    world.pause(paused=False)
    assert newest(world).draining_at is None
    assert world.launch_one()


def test_a_paused_queue_can_be_drained_and_resume_ends_both(world: World) -> None:
    world.pause()
    drained = drain(world)
    assert (drained.paused_at, drained.draining_at) == (world.now, world.now)
    world.clock.advance(60)
    assert drain(world) == drained
    world.pause(paused=False)
    opened = newest(world)
    assert (opened.paused_at, opened.draining_at) == (None, None)


def test_a_queue_may_turn_priorities_off(world: World) -> None:
    edit(world, policy={"priorities": False})
    with pytest.raises(BadInput, match="names 'medium'"):
        world.launch(order(priority=Priority.MEDIUM))
    assert world.run(world.launch_one()).priority is Priority.MEDIUM


def test_a_waiting_run_says_that_its_queue_has_a_newer_version(world: World) -> None:
    run_id = world.launch_one()
    assert not world.why(run_id).details
    edit(world, config=NEWER)
    assert world.why(run_id).details == (
        "It keeps version 1 of the queue, with which it was launched; the newest is version 2.",
    )


def test_only_an_admin_of_the_server_limits_an_entity(world: World) -> None:
    bob = world.user("bob")
    limit = Limit(runs=2)
    with pytest.raises(NotAllowed):
        world.do(lambda tx: accounts.set_limits(tx, bob, "bob", limit, now=world.now))
    world.do(lambda tx: accounts.set_limits(tx, world.owner, "bob", limit, now=world.now))
    found = world.do(lambda tx: store_accounts.find_entity(tx.conn, "bob"))
    assert found is not None
    assert found.limits == limit
    place = queue_topic(newest(world).id)
    world.do(lambda tx: accounts.set_limits(tx, world.owner, "ann", Limit(gpus=0), now=world.now))
    assert place in world.told
