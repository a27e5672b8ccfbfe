"""Who may do what: roles per entity, kinds of keys, one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.domain.errors import NotAllowed


class Role(StrEnum):
    ADMIN = "admin"  #: of an entity: also its queues, members and keys
    MEMBER = "member"  #: launches and stops runs
    VIEWER = "viewer"  #: looks


class Action(StrEnum):
    READ = "read"
    LAUNCH = "launch"  #: and stop, delete, upload code
    MANAGE = "manage"  #: queues, members, agent keys
    SERVE = "serve"  #: what agents do: claim, report, send logs
    ADMINISTER = "administer"  #: the server: users, entities, audit


ALLOWED: Mapping[Role, frozenset[Action]] = {
    Role.ADMIN: frozenset({Action.READ, Action.LAUNCH, Action.MANAGE, Action.SERVE}),
    Role.MEMBER: frozenset({Action.READ, Action.LAUNCH, Action.SERVE}),
    Role.VIEWER: frozenset({Action.READ}),
}


class KeyKind(StrEnum):
    USER = "user"
    AGENT = "agent"  #: can do only what agents do, for one entity
    RUN = "run"  #: lives as long as an attempt, can touch that run only
    CODE = "code"  #: lives as long as an attempt, can read that run's code only


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who is asking, as the door established it."""

    name: str
    kind: KeyKind
    default_entity: str
    roles: Mapping[str, Role] = field(default_factory=dict)
    server_admin: bool = False
    run_id: str | None = None  #: the only run a run key may touch
    snapshot: str | None = None  #: the only one a code key may read

    def may(self, action: Action, entity: str) -> bool:
        if self.kind is KeyKind.AGENT:
            return entity == self.default_entity and action in (Action.SERVE, Action.READ)
        if self.kind in (KeyKind.RUN, KeyKind.CODE):
            return False
        if self.server_admin:
            return True
        role = self.roles.get(entity)
        return role is not None and action in ALLOWED[role]

    def require(self, action: Action, entity: str) -> None:
        if not self.may(action, entity):
            raise NotAllowed(
                f"{self.name} may not {action} in {entity!r}.",
                hint=f"Ask an admin of {entity!r} for the role, or choose another with -e ENTITY.",
            )

    def may_see(self, entity: str, run_id: str) -> bool:
        """May this run be looked at?"""
        return self.may(Action.READ, entity) or self.run_id == run_id

    def require_code(self, entity: str, snapshot: str) -> None:
        """May this code be read?"""
        if self.kind is not KeyKind.CODE:
            self.require(Action.READ, entity)
        elif (entity, snapshot) != (self.default_entity, self.snapshot):
            raise NotAllowed("This key can only be used for the code of its run.")

    @property
    def visible(self) -> tuple[str, ...] | None:
        """Entities whose things may be listed; None means all."""
        if self.server_admin:
            return None
        if self.kind is KeyKind.AGENT:
            return (self.default_entity,)
        return tuple(sorted(self.roles))
