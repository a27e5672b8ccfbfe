"""Who somebody is: keys, roles, run tokens, and what the audit keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from muster.domain.access import Action, Actor, KeyKind, Role
from muster.domain.errors import AlreadyExists, Conflict, MusterError, NotAllowed, NotFound, NotSignedIn
from muster.domain.observation import End, EndSeen, ReplicaState
from muster.service import accounts, fleet, queue, stop
from muster.service.accounts import NewKey
from muster.service.bus import KEYS
from muster.store import accounts as store_accounts
from muster.store import records
from muster.store.database import Tx
from world import World, member, order


def new_key(world: World, actor: Actor, kind: KeyKind = KeyKind.USER, days: int | None = None) -> NewKey:
    return world.do(
        lambda tx: accounts.create_key(
            tx,
            actor,
            kind=kind,
            label="laptop",
            entity=None,
            lifetime=timedelta(days=days) if days else None,
            now=world.now,
            random=world.random,
        )
    )


def who(world: World, token: str) -> Actor:
    return world.do(lambda tx: accounts.authenticate(tx.conn, token, now=world.now))


def token_of(world: World, run_id: str, attempt: int) -> str:
    secret = world.do(lambda tx: accounts.server_secret(tx.conn))
    return accounts.run_token(secret, run_id, attempt)


# --- keys ------------------------------------------------------------------------------------------


def test_a_key_signs_its_user_in_and_is_kept_nowhere(world: World) -> None:
    new = new_key(world, world.owner)
    assert who(world, new.text) == world.owner
    assert len(new.text) >= 40
    kept = world.do(lambda tx: tx.conn.exec_driver_sql("SELECT * FROM keys").all())
    assert new.text not in str(kept)


def test_a_revoked_key_is_worthless_at_once(world: World) -> None:
    new = new_key(world, world.owner)
    world.do(lambda tx: accounts.revoke_key(tx, world.owner, new.key.id, now=world.now))
    assert KEYS in world.told
    with pytest.raises(NotSignedIn, match="revoked or has expired"):
        who(world, new.text)


def test_a_key_expires_when_it_says(world: World) -> None:
    new = new_key(world, world.owner, days=7)
    world.clock.advance(timedelta(days=7) - timedelta(seconds=1))
    assert who(world, new.text).name == "ann"
    world.clock.advance(1)
    with pytest.raises(NotSignedIn):
        who(world, new.text)


@pytest.mark.parametrize(
    "token", ["", "mk-", "mk-" + "x" * 43, "mr-", "mr-a-b", "mr-a-1-x", "mr-ä-٣-x", "mc-", "mc-a-1-x"]
)
def test_what_is_no_key_signs_nobody_in(world: World, token: str) -> None:
    with pytest.raises(NotSignedIn):
        who(world, token)


def test_an_agent_key_can_do_only_what_agents_do(world: World) -> None:
    new = new_key(world, world.owner, KeyKind.AGENT)
    actor = who(world, new.text)
    assert {action for action in Action if actor.may(action, "ann")} == {Action.READ, Action.SERVE}
    assert world.agent("keyed", actor=actor).poll().claims == ()
    run_id = world.launch_one()
    with pytest.raises(NotAllowed):
        launching(world, actor)
    with pytest.raises(NotAllowed):
        new_key(world, actor)
    with pytest.raises(NotAllowed):
        world.do(lambda tx: stop.delete(tx, actor, run_id, now=world.now))


def test_a_stranger_cannot_revoke_a_key(world: World) -> None:
    new = new_key(world, world.owner)
    eve = world.user("eve", ann=Role.ADMIN)
    with pytest.raises(NotFound):
        world.do(lambda tx: accounts.revoke_key(tx, eve, new.key.id, now=world.now))
    assert who(world, new.text).name == "ann"


def test_a_member_cannot_make_agent_keys_of_an_entity(world: World) -> None:
    eve = world.user("eve", ann=Role.MEMBER)
    with pytest.raises(NotAllowed):
        world.do(
            lambda tx: accounts.create_key(
                tx,
                eve,
                kind=KeyKind.AGENT,
                label="x",
                entity="ann",
                lifetime=None,
                now=world.now,
                random=world.random,
            )
        )


# --- run tokens ------------------------------------------------------------------------------------


def test_a_run_token_lives_as_long_as_its_attempt(world: World) -> None:
    agent = world.agent()
    run_id = world.launch_one()
    first, second = token_of(world, run_id, 1), token_of(world, run_id, 2)
    for token in (first, second):
        with pytest.raises(NotSignedIn):
            who(world, token)
    held = agent.claim(run_id)
    actor = who(world, first)
    assert (actor.kind, actor.run_id) == (KeyKind.RUN, run_id)
    agent.report(held, EndSeen(end=End.PREEMPTED))
    with pytest.raises(NotSignedIn, match="ended with its attempt"):
        who(world, first)
    agent.held.clear()
    held = agent.claim(run_id)
    with pytest.raises(NotSignedIn, match="ended with its attempt"):
        who(world, first)
    assert who(world, second).run_id == run_id
    agent.report(held, member(0, ReplicaState.SUCCEEDED))
    with pytest.raises(NotSignedIn):
        who(world, second)


def test_a_run_token_of_another_server_or_run_is_not_known(world: World) -> None:
    agent = world.agent()
    run_id, other = world.launch_one(), world.launch_one()
    agent.poll()
    token = token_of(world, run_id, 1)
    swapped = token.replace(run_id, other)
    for bad in (accounts.run_token("other secret", run_id, 1), swapped, token[:-1], token + "A"):
        with pytest.raises(NotSignedIn):
            who(world, bad)


def test_a_run_can_stop_itself_and_nothing_else(world: World) -> None:
    agent = world.agent()
    run_id, other = world.launch_one(), world.launch_one()
    agent.poll()
    actor = who(world, token_of(world, run_id, 1))
    with pytest.raises(NotFound):
        world.stop(other, actor=actor)
    with pytest.raises(NotAllowed):
        world.do(lambda tx: stop.delete(tx, actor, run_id, now=world.now))
    assert world.stop(run_id, actor=actor).head.stop_requested_by == f"run/{run_id}"


# --- roles -----------------------------------------------------------------------------------------

Doing = Callable[[World, Actor], object]


def launching(world: World, actor: Actor) -> object:
    return world.launch(order(entity="ann"), actor=actor)


def stopping(world: World, actor: Actor) -> object:
    return world.stop(world.launch_one(), actor=actor)


def deleting(world: World, actor: Actor) -> object:
    run_id = world.launch_one()
    world.stop(run_id)
    return world.do(lambda tx: stop.delete(tx, actor, run_id, now=world.now))


def looking(world: World, actor: Actor) -> object:
    return world.do(lambda tx: queue.find(tx.conn, actor, "gpu", "ann"))


def pausing(world: World, actor: Actor) -> object:
    return world.do(lambda tx: queue.set_paused(tx, actor, "gpu", entity="ann", paused=True, now=world.now))


def inviting(world: World, actor: Actor) -> object:
    world.user("guest")
    return world.do(lambda tx: accounts.set_role(tx, actor, "ann", "guest", Role.VIEWER, now=world.now))


def removing_an_agent(world: World, actor: Actor) -> object:
    world.agent("gone")
    world.clock.advance(60)
    return world.do(lambda tx: fleet.forget(tx, actor, "gone", "ann", now=world.now))


def adding_a_user(world: World, actor: Actor) -> object:
    return world.do(
        lambda tx: accounts.create_user(tx, actor, "new", admin=False, now=world.now, random=world.random)
    )


@pytest.mark.parametrize(
    ("doing", "allowed"),
    [
        (looking, {"admin", "member", "viewer"}),
        (launching, {"admin", "member"}),
        (stopping, {"admin", "member"}),
        (deleting, {"admin", "member"}),
        (pausing, {"admin"}),
        (inviting, {"admin"}),
        (removing_an_agent, {"admin"}),
        (adding_a_user, set()),
    ],
)
@pytest.mark.parametrize("role", ["admin", "member", "viewer", "stranger"])
def test_each_role_may_do_what_the_table_says(
    world: World, doing: Doing, allowed: set[str], role: str
) -> None:
    actor = world.user("eve") if role == "stranger" else world.user("eve", ann=Role(role))
    if role in allowed:
        doing(world, actor)
        return
    with pytest.raises((NotAllowed, NotFound)):
        doing(world, actor)


def test_an_entity_keeps_an_admin(world: World) -> None:
    world.user("eve", ann=Role.MEMBER)
    steps: list[Callable[[Tx], None]] = [
        lambda tx: accounts.remove_member(tx, world.owner, "ann", "ann", now=world.now),
        lambda tx: accounts.set_role(tx, world.owner, "ann", "ann", Role.VIEWER, now=world.now),
    ]
    for step in steps:
        with pytest.raises(Conflict, match="only admin"):
            world.do(step)
    assert world.do(lambda tx: store_accounts.members_of(tx.conn, "ann"))["ann"] is Role.ADMIN


@pytest.mark.parametrize(("name", "error"), [("ann", AlreadyExists), ("a/b", MusterError), ("", MusterError)])
def test_a_user_needs_a_new_and_valid_name(world: World, name: str, error: type[MusterError]) -> None:
    with pytest.raises(error):
        world.user(name)


def test_a_team_belongs_to_who_made_it(world: World) -> None:
    eve = world.user("eve")
    world.do(lambda tx: accounts.create_team(tx, eve, "lab", now=world.now))
    with pytest.raises(AlreadyExists):
        world.do(lambda tx: accounts.create_team(tx, world.owner, "lab", now=world.now))
    assert world.do(lambda tx: accounts.user_actor(tx.conn, "eve")).roles["lab"] is Role.ADMIN


# --- audit -----------------------------------------------------------------------------------------


def test_the_audit_says_who_did_what(world: World) -> None:
    eve = world.user("eve", ann=Role.MEMBER)
    new = new_key(world, world.owner)
    world.do(lambda tx: accounts.revoke_key(tx, world.owner, new.key.id, now=world.now))
    world.agent("a1")
    world.pause()
    run_id = world.launch_one()
    world.stop(run_id)
    world.do(lambda tx: stop.delete(tx, eve, run_id, now=world.now))
    found = world.do(lambda tx: records.list_audit(tx.conn, None, before=None, limit=100))
    said = [(record.actor, record.action, record.target) for record in reversed(found)]
    assert said == [
        ("server", "user.create", "ann"),
        ("server", "key.create", said[1][2]),
        ("ann", "queue.create", "gpu"),
        ("ann", "user.create", "eve"),
        ("ann", "key.create", said[4][2]),
        ("ann", "key.create", new.key.id),
        ("ann", "key.revoke", new.key.id),
        ("ann", "agent.register", "a1"),
        ("ann", "queue.pause", "gpu"),
        ("eve", "run.delete", run_id),
    ]
