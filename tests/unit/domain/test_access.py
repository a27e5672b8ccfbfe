"""Who may do what: the whole table, written out a second time."""

from __future__ import annotations

import pytest

from muster.domain.access import ALLOWED, Action, Actor, KeyKind, Role
from muster.domain.errors import NotAllowed


def actor(kind: KeyKind = KeyKind.USER, *, role: Role | None = None, admin: bool = False) -> Actor:
    return Actor(
        name="ann",
        kind=kind,
        default_entity="lab",
        roles={"lab": role} if role else {},
        server_admin=admin,
        run_id="a123456789" if kind is KeyKind.RUN else None,
    )


WHO: dict[str, tuple[Actor, str, str]] = {
    # who → the actor, what may be done in `lab`, what elsewhere
    "admin of the entity": (actor(role=Role.ADMIN), "read launch manage serve", ""),
    "member": (actor(role=Role.MEMBER), "read launch serve", ""),
    "viewer": (actor(role=Role.VIEWER), "read", ""),
    "stranger": (actor(), "", ""),
    "admin of the server": (
        actor(admin=True),
        "read launch manage serve administer",
        "read launch manage serve administer",
    ),
    "agent": (actor(KeyKind.AGENT), "read serve", ""),
    "agent with a role by mistake": (actor(KeyKind.AGENT, role=Role.ADMIN), "read serve", ""),
    "agent that claims to be admin": (actor(KeyKind.AGENT, admin=True), "read serve", ""),
    "run": (actor(KeyKind.RUN), "", ""),
    "run that claims to be admin": (actor(KeyKind.RUN, role=Role.ADMIN, admin=True), "", ""),
}


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("action", Action)
def test_the_table(who: str, action: Action) -> None:
    actor, here, elsewhere = WHO[who]
    assert actor.may(action, "lab") == (action.value in here.split())
    assert actor.may(action, "other") == (action.value in elsewhere.split())


def test_every_role_has_its_row() -> None:
    assert set(ALLOWED) == set(Role)
    assert ALLOWED[Role.VIEWER] < ALLOWED[Role.MEMBER] < ALLOWED[Role.ADMIN]


def test_a_refusal_says_what_and_where_and_whom_to_ask() -> None:
    with pytest.raises(NotAllowed, match=r"ann may not launch in 'lab'\. Ask an admin of 'lab'"):
        actor(role=Role.VIEWER).require(Action.LAUNCH, "lab")
    actor(role=Role.MEMBER).require(Action.LAUNCH, "lab")


def test_a_run_sees_itself_and_nothing_else() -> None:
    run = actor(KeyKind.RUN)
    assert run.may_see("lab", "a123456789")
    assert not run.may_see("lab", "b123456789")


@pytest.mark.parametrize(
    ("who", "visible"),
    [
        (actor(role=Role.VIEWER), ("lab",)),
        (actor(), ()),
        (actor(admin=True), None),
        (actor(KeyKind.AGENT), ("lab",)),
        (actor(KeyKind.RUN), ()),
    ],
)
def test_whose_things_are_listed(who: Actor, visible: tuple[str, ...] | None) -> None:
    assert who.visible == visible
