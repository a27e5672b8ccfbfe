"""Users, entities, keys: who somebody is, and what was given to whom.

Keys are shown once and kept as SHA-256. The tokens of a run are not kept at all: they are the run's name
signed with the server's secret, and good for as long as that attempt is alive. One opens the run itself,
the other only its code, for whatever brings that to where the run starts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from muster.domain.access import Action, Actor, KeyKind, Role
from muster.domain.errors import AlreadyExists, BadInput, Conflict, NotAllowed, NotFound, NotSignedIn
from muster.domain.names import RandomBytes, checked_name, new_id
from muster.domain.policy import Limit
from muster.domain.run import RunHead
from muster.service.bus import KEYS, queue_topic
from muster.store import accounts, queues, records, runs
from muster.store.accounts import Entity, Key, User
from muster.store.database import Tx

KEY_PREFIX = {KeyKind.USER: "mk-", KeyKind.AGENT: "ma-"}
RUN_PREFIX, CODE_PREFIX = "mr-", "mc-"
_SECRET = "server_secret"  # noqa: S105 - the name of the setting, not a secret


@dataclass(frozen=True, kw_only=True)
class NewKey:
    key: Key
    text: str  #: the only time it is seen


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def authenticate(conn: Connection, token: str, *, now: datetime) -> Actor:
    """Who carries this token."""
    if token.startswith(RUN_PREFIX):
        head = _checked_head(conn, token, RUN_PREFIX, run_token)
        return Actor(name=f"run/{head.id}", kind=KeyKind.RUN, default_entity=head.entity, run_id=head.id)
    if token.startswith(CODE_PREFIX):
        return _code_actor(conn, token)
    key = accounts.find_key_by_digest(conn, digest(token))
    if key is None:
        raise NotSignedIn("The API key is not known here.")
    if not key.valid(now):
        raise NotSignedIn(f"The API key {key.label!r} was revoked or has expired.")
    if key.kind is KeyKind.AGENT:
        return Actor(name=f"{key.user}/{key.label}", kind=key.kind, default_entity=key.entity or "")
    return user_actor(conn, key.user)


def user_actor(conn: Connection, name: str) -> Actor:
    user = accounts.find_user(conn, name)
    if user is None:
        raise NotSignedIn(f"User {name!r} is not known here.")
    return Actor(
        name=user.name,
        kind=KeyKind.USER,
        default_entity=user.default_entity,
        roles=accounts.roles_of(conn, user.name),
        server_admin=user.admin,
    )


def run_token(secret: str, run_id: str, attempt: int) -> str:
    """Opens the run."""
    return f"{RUN_PREFIX}{run_id}-{attempt}-{_signature(secret, f'{run_id}.{attempt}')}"


def code_token(secret: str, run_id: str, attempt: int) -> str:
    """Reads the run's code."""
    return f"{CODE_PREFIX}{run_id}-{attempt}-{_signature(secret, f'code.{run_id}.{attempt}')}"


def _signature(secret: str, text: str) -> str:
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _code_actor(conn: Connection, token: str) -> Actor:
    head = _checked_head(conn, token, CODE_PREFIX, code_token)
    run = runs.find(conn, head.id)
    snapshot = run.spec.snapshot if run else None
    if snapshot is None:
        raise NotSignedIn("The run of this key has no code.")
    name = f"run/{head.id}/code"
    return Actor(name=name, kind=KeyKind.CODE, default_entity=head.entity, snapshot=snapshot)


def _checked_head(conn: Connection, token: str, prefix: str, made: Callable[[str, str, int], str]) -> RunHead:
    """The run of this token, if it is ours and its attempt is alive."""
    try:
        run_id, attempt, _ = token.removeprefix(prefix).split("-", 2)
        expected = made(server_secret(conn), run_id, int(attempt))
    except ValueError as error:
        raise NotSignedIn("The run token cannot be read.") from error
    head = runs.heads(conn, [run_id]).get(run_id)
    if not hmac.compare_digest(expected.encode(), token.encode()) or head is None:
        raise NotSignedIn("The run token is not known here.")
    if head.attempt != int(attempt) or not head.state.active:
        raise NotSignedIn("The run token ended with its attempt.")
    return head


def server_secret(conn: Connection) -> str:
    secret = records.setting(conn, _SECRET)
    if secret is None:
        raise Conflict("This server has no secret yet.", hint="Start it once; it makes its own.")
    return secret


def ensure_secret(tx: Tx, *, random: RandomBytes) -> None:
    if records.setting(tx.conn, _SECRET) is None:
        records.set_setting(tx.conn, _SECRET, random(32).hex())


def create_user(
    tx: Tx, actor: Actor | None, name: str, *, admin: bool, now: datetime, random: RandomBytes
) -> NewKey:
    """A user with an entity of the same name and a first key. `actor` None: the server itself."""
    if actor is not None and not actor.server_admin:
        raise NotAllowed("Only an admin of the server may add users.")
    checked_name(name, what="user")
    tx.alone("accounts")
    if accounts.find_user(tx.conn, name) or accounts.find_entity(tx.conn, name):
        raise AlreadyExists("entity", name)
    accounts.add_entity(tx.conn, Entity(name=name, kind="user", created_at=now))
    accounts.add_user(tx.conn, User(name=name, admin=admin, default_entity=name, created_at=now))
    accounts.set_role(tx.conn, name, name, Role.ADMIN)
    by = actor.name if actor else "server"
    records.add_audit(tx.conn, at=now, actor=by, action="user.create", entity=name, target=name)
    return _issue(tx, KeyKind.USER, name, None, "first key", None, by=by, now=now, random=random)


def create_team(tx: Tx, actor: Actor, name: str, *, now: datetime) -> Entity:
    if actor.kind is not KeyKind.USER:
        raise NotAllowed("Only users may create teams.")
    checked_name(name, what="entity")
    tx.alone("accounts")
    if accounts.find_entity(tx.conn, name):
        raise AlreadyExists("entity", name)
    entity = Entity(name=name, kind="team", created_at=now)
    accounts.add_entity(tx.conn, entity)
    accounts.set_role(tx.conn, name, actor.name, Role.ADMIN)
    records.add_audit(tx.conn, at=now, actor=actor.name, action="entity.create", entity=name, target=name)
    tx.tell(KEYS)
    return entity


def set_role(tx: Tx, actor: Actor, entity: str, user: str, role: Role, *, now: datetime) -> None:
    tx.alone("accounts")
    _require_entity(tx.conn, actor, entity)
    actor.require(Action.MANAGE, entity)
    if accounts.find_user(tx.conn, user) is None:
        raise NotFound("user", user, hint="An admin of the server adds users: muster key create --user NAME.")
    _keep_an_admin(tx.conn, entity, user, role)
    accounts.set_role(tx.conn, entity, user, role)
    _audit_member(tx, actor, entity, user, {"role": role.value}, now)


def remove_member(tx: Tx, actor: Actor, entity: str, user: str, *, now: datetime) -> None:
    tx.alone("accounts")
    _require_entity(tx.conn, actor, entity)
    actor.require(Action.MANAGE, entity)
    _keep_an_admin(tx.conn, entity, user, None)
    if not accounts.drop_member(tx.conn, entity, user):
        raise NotFound("member", user, hint=f"`muster entity show {entity}` lists the members.")
    _audit_member(tx, actor, entity, user, {"role": None}, now)


def set_limits(tx: Tx, actor: Actor, name: str, limits: Limit, *, now: datetime) -> Entity:
    """What all queues of an entity may run at once. Its own admins cannot lift it."""
    tx.alone("accounts")
    if not actor.server_admin:
        raise NotAllowed("Only an admin of the server may limit an entity.")
    entity = accounts.find_entity(tx.conn, name)
    if entity is None:
        raise NotFound(
            "entity", name, known=[entity.name for entity in accounts.list_entities(tx.conn, None)]
        )
    accounts.set_limits(tx.conn, name, limits)
    records.add_audit(
        tx.conn,
        at=now,
        actor=actor.name,
        action="entity.limit",
        entity=name,
        target=name,
        data=limits.to_data(),
    )
    for queue in queues.of_entities(tx.conn, [name]):
        tx.tell(queue_topic(queue.id))  # what waited may go on
    return replace(entity, limits=limits)


def create_key(
    tx: Tx,
    actor: Actor,
    *,
    kind: KeyKind,
    label: str,
    entity: str | None,
    lifetime: timedelta | None,
    now: datetime,
    random: RandomBytes,
) -> NewKey:
    """A further key for oneself, or a key for an agent of an entity one manages."""
    if actor.kind is not KeyKind.USER:
        raise NotAllowed("Only users may create keys.")
    owner = None
    if kind is KeyKind.AGENT:
        owner = entity or actor.default_entity
        _require_entity(tx.conn, actor, owner)
        actor.require(Action.MANAGE, owner)
    elif kind is not KeyKind.USER:
        raise BadInput("Run tokens are made by the server, for each attempt.")
    expires = now + lifetime if lifetime else None
    return _issue(tx, kind, actor.name, owner, label, expires, by=actor.name, now=now, random=random)


def revoke_key(tx: Tx, actor: Actor, key_id: str, *, now: datetime) -> None:
    key = accounts.find_key(tx.conn, key_id)
    if key is None or not _may_revoke(actor, key):
        raise NotFound("key", key_id)
    accounts.revoke_key(tx.conn, key_id, at=now)
    records.add_audit(
        tx.conn, at=now, actor=actor.name, action="key.revoke", entity=key.entity or key.user, target=key_id
    )
    tx.tell(KEYS)


def _may_revoke(actor: Actor, key: Key) -> bool:
    """One's own key, or one of an agent of an entity one manages."""
    if actor.kind is not KeyKind.USER:
        return False
    mine = key.user == actor.name
    managed = key.entity is not None and actor.may(Action.MANAGE, key.entity)
    return mine or managed or actor.server_admin


def _issue(
    tx: Tx,
    kind: KeyKind,
    user: str,
    entity: str | None,
    label: str,
    expires_at: datetime | None,
    *,
    by: str,
    now: datetime,
    random: RandomBytes,
) -> NewKey:
    secret = base64.urlsafe_b64encode(random(32)).decode().rstrip("=")
    key = Key(
        id=new_id(random),
        kind=kind,
        user=user,
        entity=entity,
        label=label,
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
    )
    text = KEY_PREFIX[kind] + secret
    accounts.add_key(tx.conn, key, digest=digest(text))
    records.add_audit(tx.conn, at=now, actor=by, action="key.create", entity=entity or user, target=key.id)
    tx.tell(KEYS)
    return NewKey(key=key, text=text)


def _require_entity(conn: Connection, actor: Actor, entity: str) -> None:
    if accounts.find_entity(conn, entity) is None or not actor.may(Action.READ, entity):
        raise NotFound("entity", entity, known=actor.roles)


def _keep_an_admin(conn: Connection, entity: str, user: str, role: Role | None) -> None:
    others = {name for name, held in accounts.members_of(conn, entity).items() if held is Role.ADMIN}
    if role is not Role.ADMIN and others == {user}:
        raise Conflict(
            f"{user!r} is the only admin of {entity!r}.", hint="Make somebody else an admin first."
        )


def _audit_member(
    tx: Tx, actor: Actor, entity: str, user: str, data: dict[str, str | None], now: datetime
) -> None:
    records.add_audit(
        tx.conn, at=now, actor=actor.name, action="entity.member", entity=entity, target=user, data=data
    )
    tx.tell(KEYS)
