"""An agent that is given no run for now."""

from __future__ import annotations

from muster.service import fleet
from muster.service.bus import PLACES, agent_topic
from world import World


def set_paused(world: World, *, paused: bool) -> None:
    world.do(lambda tx: fleet.set_paused(tx, world.owner, "a1", None, paused=paused, now=world.now))


def test_a_paused_agent_keeps_what_it_has_and_gets_no_more(world: World) -> None:
    first = world.launch_one()
    agent = world.agent()
    held = agent.claim(first)
    set_paused(world, paused=True)
    waiting = world.launch_one()
    assert not agent.poll()
    assert held.key.run_id in agent.held
    why = world.why(waiting)
    assert "every agent that is online is paused (a1)" in why.summary
    assert why.advice
    set_paused(world, paused=False)
    assert world.told >= {PLACES, agent_topic(agent.agent.id)}
    assert [claim.run.id for claim in agent.poll().claims] == [waiting]


def test_it_stays_paused_when_it_is_started_again(world: World) -> None:
    world.agent()
    set_paused(world, paused=True)
    world.launch_one()
    again = world.agent()
    assert again.agent.paused_at == world.now
    assert not again.poll()


def test_others_of_the_queue_go_on(world: World) -> None:
    world.agent()
    set_paused(world, paused=True)
    run = world.launch_one()
    other = world.agent("a2", locality="host-2")
    assert [claim.run.id for claim in other.poll().claims] == [run]


def test_who_looks_is_told_when_an_agent_falls_silent(world: World) -> None:
    world.agent().poll()
    world.clock.advance(10)
    world.sweep()
    assert PLACES not in world.told
    world.clock.advance(6)
    world.sweep()
    assert PLACES in world.told
    world.clock.advance(10)
    world.sweep()
    assert PLACES not in world.told
