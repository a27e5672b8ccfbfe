"""Users, entities, members, projects and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, null, or_, select, update

from muster.domain.access import KeyKind, Role
from muster.domain.policy import Limit
from muster.store.schema import AnyRow, entities, keys, members, projects, users


@dataclass(frozen=True, kw_only=True)
class User:
    name: str
    admin: bool
    default_entity: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Entity:
    name: str
    kind: str  #: user or team
    created_at: datetime
    limits: Limit = field(default_factory=Limit)  #: of all its queues together


@dataclass(frozen=True, kw_only=True)
class Key:
    """What is known of a key; the key itself is nowhere."""

    id: str
    kind: KeyKind
    user: str
    entity: str | None
    label: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def add_user(conn: Connection, user: User) -> None:
    conn.execute(insert(users).values(**user.__dict__))


def find_user(conn: Connection, name: str) -> User | None:
    row = conn.execute(select(users).where(users.c.name == name)).one_or_none()
    return User(**row._mapping) if row else None


def first_user(conn: Connection) -> User:
    """The one that the server was set up with."""
    row = conn.execute(select(users).order_by(users.c.created_at, users.c.name).limit(1)).one()
    return User(**row._mapping)


def count_users(conn: Connection) -> int:
    return conn.execute(select(func.count()).select_from(users)).scalar_one()


def add_entity(conn: Connection, entity: Entity) -> None:
    conn.execute(insert(entities).values(**{**entity.__dict__, "limits": entity.limits.to_data() or None}))


def find_entity(conn: Connection, name: str) -> Entity | None:
    row = conn.execute(select(entities).where(entities.c.name == name)).one_or_none()
    return _entity(row) if row else None


def list_entities(conn: Connection, names: Sequence[str] | None) -> list[Entity]:
    query = select(entities).order_by(entities.c.name)
    if names is not None:
        query = query.where(entities.c.name.in_(names))
    return [_entity(row) for row in conn.execute(query)]


def set_limits(conn: Connection, name: str, limits: Limit) -> None:
    conn.execute(update(entities).where(entities.c.name == name).values(limits=limits.to_data() or None))


def _entity(row: AnyRow) -> Entity:
    return Entity(
        name=row.name,
        kind=row.kind,
        created_at=row.created_at,
        limits=Limit.parse(row.limits or {}, where="limits"),
    )


def set_role(conn: Connection, entity: str, user: str, role: Role) -> None:
    drop_member(conn, entity, user)
    conn.execute(insert(members).values(entity=entity, user=user, role=role.value))


def drop_member(conn: Connection, entity: str, user: str) -> bool:
    where = (members.c.entity == entity) & (members.c.user == user)
    return bool(conn.execute(delete(members).where(where)).rowcount)


def roles_of(conn: Connection, user: str) -> dict[str, Role]:
    rows = conn.execute(select(members.c.entity, members.c.role).where(members.c.user == user))
    return {row.entity: Role(row.role) for row in rows}


def members_of(conn: Connection, entity: str) -> dict[str, Role]:
    rows = conn.execute(
        select(members.c.user, members.c.role).where(members.c.entity == entity).order_by(members.c.user)
    )
    return {row.user: Role(row.role) for row in rows}


_project = select(projects.c.name).where(
    projects.c.entity == bindparam("entity"), projects.c.name == bindparam("name")
)


def ensure_project(conn: Connection, entity: str, name: str, *, at: datetime) -> None:
    if conn.execute(_project, {"entity": entity, "name": name}).first() is None:
        conn.execute(insert(projects).values(entity=entity, name=name, created_at=at))


def add_key(conn: Connection, key: Key, *, digest: str) -> None:
    conn.execute(insert(keys).values(**{**key.__dict__, "kind": key.kind.value}, hash=digest))


def find_key_by_digest(conn: Connection, digest: str) -> Key | None:
    row = conn.execute(select(keys).where(keys.c.hash == digest)).one_or_none()
    return _key(row) if row else None


def find_key(conn: Connection, key_id: str) -> Key | None:
    row = conn.execute(select(keys).where(keys.c.id == key_id)).one_or_none()
    return _key(row) if row else None


def list_keys(conn: Connection, user: str, managed: Sequence[str]) -> list[Key]:
    """A user's own keys, and those of the agents of entities that user manages."""
    mine = or_(keys.c.user == user, keys.c.entity.in_(managed))
    rows = conn.execute(select(keys).where(keys.c.revoked_at.is_(null()), mine).order_by(keys.c.created_at))
    return [_key(row) for row in rows]


def all_keys(conn: Connection) -> list[Key]:
    rows = conn.execute(select(keys).where(keys.c.revoked_at.is_(null())).order_by(keys.c.created_at))
    return [_key(row) for row in rows]


def revoke_key(conn: Connection, key_id: str, *, at: datetime) -> None:
    conn.execute(update(keys).where(keys.c.id == key_id).values(revoked_at=at))


def _key(row: AnyRow) -> Key:
    values = {name: value for name, value in row._mapping.items() if name != "hash"}
    return Key(**{**values, "kind": KeyKind(row.kind)})
