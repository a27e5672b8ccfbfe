"""Who one is, keys, entities and their members, the audit."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from muster._version import __version__
from muster.domain.access import Action, Actor, KeyKind, Role
from muster.domain.errors import NotFound
from muster.server.auth import Admin, Caller, Ctx, Visitor
from muster.server.routes.runs import Limit, cursor_number
from muster.service import accounts as service
from muster.service.accounts import NewKey
from muster.store import accounts, records
from muster.store.accounts import Entity
from muster.store.database import Tx
from muster.wire.accounts import (
    AuditModel,
    EntityModel,
    EntityRequest,
    KeyModel,
    KeyRequest,
    MeModel,
    NewKeyModel,
    RoleRequest,
    UserRequest,
)
from muster.wire.base import Page
from muster.wire.queues import LimitModel

router = APIRouter(tags=["accounts"])


@router.get("/me")
async def get_me(visitor: Visitor) -> MeModel:
    """Who the caller is, and where."""
    return me(visitor)


def me(actor: Actor) -> MeModel:
    return MeModel(
        name=actor.name,
        kind=actor.kind,
        default_entity=actor.default_entity,
        roles=dict(actor.roles),
        server_admin=actor.server_admin,
        server_version=__version__,
    )


def _shown(new: NewKey) -> NewKeyModel:
    return NewKeyModel(**KeyModel.model_validate(new.key, from_attributes=True).model_dump(), key=new.text)


@router.get("/keys")
async def list_keys(ctx: Ctx, caller: Caller) -> Page[KeyModel]:
    """One's own keys that are not revoked, and those of agents of entities one manages; all keys, for
    an admin of the server."""
    managed = [name for name in caller.roles if caller.may(Action.MANAGE, name)]

    def work(conn: Connection) -> Page[KeyModel]:
        found = (
            accounts.all_keys(conn) if caller.server_admin else accounts.list_keys(conn, caller.name, managed)
        )
        return Page(items=[KeyModel.model_validate(key, from_attributes=True) for key in found])

    return await ctx.db.read(work)


@router.post("/keys", status_code=201)
async def create_key(ctx: Ctx, caller: Caller, asked: KeyRequest) -> NewKeyModel:
    """A new key. It is shown in this answer and never again."""
    now = ctx.now()
    lifetime = timedelta(days=asked.days) if asked.days else None
    return await ctx.db.write(
        lambda tx: _shown(
            service.create_key(
                tx,
                caller,
                kind=KeyKind(asked.kind),
                label=asked.label,
                entity=asked.entity,
                lifetime=lifetime,
                now=now,
                random=ctx.random,
            )
        )
    )


@router.delete("/keys/{key_id}", status_code=204, response_class=Response)
async def revoke_key(ctx: Ctx, caller: Caller, key_id: str) -> None:
    """Make a key worthless, at once."""
    now = ctx.now()
    await ctx.db.write(lambda tx: service.revoke_key(tx, caller, key_id, now=now))


@router.post("/users", status_code=201)
async def create_user(ctx: Ctx, admin: Admin, asked: UserRequest) -> NewKeyModel:
    """Add a user, with an entity of the same name and a first key."""
    now = ctx.now()
    return await ctx.db.write(
        lambda tx: _shown(
            service.create_user(tx, admin, asked.name, admin=asked.admin, now=now, random=ctx.random)
        )
    )


def _entity(conn: Connection, entity: Entity) -> EntityModel:
    return EntityModel.model_validate(
        {
            "name": entity.name,
            "kind": entity.kind,
            "created_at": entity.created_at,
            "members": accounts.members_of(conn, entity.name),
            "limits": LimitModel.of(entity.limits),
        }
    )


@router.get("/entities")
async def list_entities(ctx: Ctx, caller: Caller) -> Page[EntityModel]:
    """The entities one belongs to; all, for an admin of the server."""

    def work(conn: Connection) -> Page[EntityModel]:
        found = accounts.list_entities(conn, caller.visible)
        return Page(items=[_entity(conn, entity) for entity in found])

    return await ctx.db.read(work)


@router.get("/entities/{name}")
async def get_entity(ctx: Ctx, caller: Caller, name: str) -> EntityModel:
    """One entity with its members."""

    def work(conn: Connection) -> EntityModel:
        entity = accounts.find_entity(conn, name)
        if entity is None or not caller.may(Action.READ, name):
            raise NotFound("entity", name, known=caller.roles)
        return _entity(conn, entity)

    return await ctx.db.read(work)


@router.post("/entities", status_code=201)
async def create_entity(ctx: Ctx, caller: Caller, asked: EntityRequest) -> EntityModel:
    """Create a team; its first admin is the caller."""
    now = ctx.now()

    def work(tx: Tx) -> EntityModel:
        return _entity(tx.conn, service.create_team(tx, caller, asked.name, now=now))

    return await ctx.db.write(work)


@router.put("/entities/{name}/limits")
async def set_entity_limits(ctx: Ctx, admin: Admin, name: str, asked: LimitModel) -> EntityModel:
    """Limit what all queues of an entity together may run at once; what is absent is not limited."""
    now = ctx.now()

    def work(tx: Tx) -> EntityModel:
        return _entity(tx.conn, service.set_limits(tx, admin, name, asked.to_domain(), now=now))

    return await ctx.db.write(work)


@router.put("/entities/{name}/members/{user}")
async def set_member(ctx: Ctx, caller: Caller, name: str, user: str, asked: RoleRequest) -> RoleRequest:
    """Give a user a role in an entity."""
    now = ctx.now()
    await ctx.db.write(lambda tx: service.set_role(tx, caller, name, user, Role(asked.role), now=now))
    return asked


@router.delete("/entities/{name}/members/{user}", status_code=204, response_class=Response)
async def remove_member(ctx: Ctx, caller: Caller, name: str, user: str) -> None:
    """Take a user out of an entity."""
    now = ctx.now()
    await ctx.db.write(lambda tx: service.remove_member(tx, caller, name, user, now=now))


@router.get("/audit")
async def list_audit(
    ctx: Ctx,
    caller: Caller,
    entity: str | None = None,
    limit: Limit = 100,
    cursor: str | None = None,
) -> Page[AuditModel]:
    """Who did what, newest first, in entities one manages."""
    before = cursor_number(cursor)

    def work(conn: Connection) -> Page[AuditModel]:
        managed = [name for name in caller.roles if caller.may(Action.MANAGE, name)]
        wanted = None if caller.server_admin else managed
        if entity is not None:
            caller.require(Action.MANAGE, entity)
            wanted = [entity]
        found = records.list_audit(conn, wanted, before=before, limit=limit + 1)
        shown = found[:limit]
        following = str(shown[-1].id) if len(found) > limit else None
        items = [AuditModel.model_validate(record, from_attributes=True) for record in shown]
        return Page(items=items, next=following)

    return await ctx.db.read(work)
