"""The tables. One `MetaData`, the same for SQLite and PostgreSQL.

Times are whole microseconds since 1970 (UTC); JSON columns hold plain data. Indexes are made for the
queries on the hot path: claiming, listing and counting stay fast with a million runs
(`tests/integration/store/test_query_plans.py` checks the plans).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.types import TypeEngine

AnyRow: TypeAlias = Row[*tuple[Any, ...]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def micros(at: datetime) -> int:
    """As moments are kept."""
    return (at - _EPOCH) // _MICRO


def moment(value: int) -> datetime:
    """A moment that was kept so."""
    return _EPOCH + timedelta(microseconds=value)


class Instant(TypeDecorator[datetime]):
    """A moment, kept as microseconds since 1970: compares and indexes alike on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else micros(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else moment(value)


class Words(TypeDecorator[str]):
    """What a program said. PostgreSQL keeps no NUL in a text; here one becomes the sign for such things."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return value


def _serial() -> TypeEngine[int]:
    """The key of a table that only grows: 64 bits on PostgreSQL, the rowid on SQLite."""
    return BigInteger().with_variant(Integer, "sqlite")


def _name(length: int) -> TypeEngine[str]:
    """A text that lists are sorted by: byte by byte, whatever language a PostgreSQL was set up in."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _optional_json() -> JSON:
    """None is kept as NULL, not as the JSON word."""
    return JSON(none_as_null=True)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)

users = Table(
    "users",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("admin", Boolean, nullable=False),  # of the whole server
    Column("default_entity", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
)

entities = Table(
    "entities",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # user, team
    Column("created_at", Instant, nullable=False),
    Column("limits", _optional_json()),  # of all its queues together
)

members = Table(
    "members",
    metadata,
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), primary_key=True),
    Column("user", ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("role", String(16), nullable=False),
    Index("ix_members_user", "user"),
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),  # user, agent
    Column("user", ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE")),  # for agent keys
    Column("label", String(128), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
)

projects = Table(
    "projects",
    metadata,
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("created_at", Instant, nullable=False),
)

queues = Table(
    "queues",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), nullable=False),
    Column("name", _name(64), nullable=False),
    Column("engine", String(32), nullable=False),
    Column("version", Integer, nullable=False),
    Column("follows_inventory", Boolean, nullable=False),
    Column("paused_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("draining_at", Instant),
    Index("uq_queues_entity_name", "entity", "name", unique=True),
)

queue_versions = Table(
    "queue_versions",
    metadata,
    Column("queue_id", ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("config", JSON, nullable=False),
    Column("variables", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("policy", _optional_json()),  # order, limits, what a launch may change
)

# What each user had of a queue of late, and whether it waits there: see `muster.store.shares`.
shares = Table(
    "shares",
    metadata,
    Column("queue_id", ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Column("user", _name(64), primary_key=True),
    Column("used", Float, nullable=False),
    Column("served_at", Instant),  # when something it had ended last
    Column("rank", BigInteger),  # of its first run that waits, or less; null: none waits
    Column("priority", String(16)),  # of that run
    Index(
        "ix_shares_waiting",
        "queue_id",
        sqlite_where=text("rank IS NOT NULL"),
        postgresql_where=text("rank IS NOT NULL"),
    ),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), nullable=False),
    Column("project", String(64), nullable=False),
    Column("name", String(128), nullable=False),
    Column("origin", String(64)),  # name its source gives; launches find it by this when it was renamed
    Column("newest", Integer, nullable=False),  # version
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(64), nullable=False),
    Column("deleted_at", Instant),  # its runs still lead to it
    Index(
        "uq_jobs_name",
        "entity",
        "project",
        "name",
        unique=True,
        sqlite_where=text("deleted_at IS NULL"),
        postgresql_where=text("deleted_at IS NULL"),
    ),
)

job_versions = Table(
    "job_versions",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", String(64), nullable=False),  # of the content
    Column("content", JSON, nullable=False),  # source, entrypoint, inputs, training
    Column("defaults", JSON, nullable=False),  # arguments and config of the launch that filed it
    Column("created_at", Instant, nullable=False),
    Column("created_by", String(64), nullable=False),
    Index("uq_job_versions_digest", "job_id", "digest", unique=True),
)

job_aliases = Table(
    "job_aliases",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("alias", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("seq", _serial(), primary_key=True, autoincrement=True),
    Column("id", String(16), nullable=False, unique=True),
    Column("entity", ForeignKey("entities.name"), nullable=False),
    Column("project", _name(64), nullable=False),
    Column("queue_id", ForeignKey("queues.id"), nullable=False),
    Column("queue_version", Integer, nullable=False),
    Column("name", _name(128), nullable=False),
    Column("author", _name(64), nullable=False),
    Column("state", _name(16), nullable=False),
    Column("priority", String(16), nullable=False),
    Column("rank", BigInteger, nullable=False),  # place in the queue's order
    Column("spec", JSON, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("millicpus", BigInteger, nullable=False),
    Column("memory", BigInteger, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),  # 0 before the first claim
    Column("epoch", Integer, nullable=False),  # grows with every claim
    Column("agent_id", String(16)),  # who has, or last had, the lease
    Column("locality", String(128)),  # where its processes can be seen
    Column("lease_expires_at", Instant),
    Column("stop_requested_at", Instant),
    Column("stop_requested_by", String(64)),
    Column("failure", _optional_json()),
    Column("created_at", Instant, nullable=False),
    Column("claimed_at", Instant),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("last_event", Integer, nullable=False),  # number of its newest event
    Column("job_id", String(16)),
    Column("job_version", Integer),
    Column("group_id", String(16)),  # runs that were launched together, as one grid
    # Newest first within an entity; and all that a list may be narrowed by, so that what is rare is found
    # without a look at the rows themselves.
    Index("ix_runs_lists", "entity", "seq", "project", "author", "state", "queue_id", "name", "id"),
    Index("ix_runs_project", "entity", "project", "seq"),
    Index("ix_runs_queue_seq", "queue_id", "seq"),
    Index("ix_runs_state_seq", "entity", "state", "seq"),
    Index("ix_runs_author", "entity", "author", "seq"),
    # What else a list may be sorted by: name, GPUs, and the duration of those that ended, go on, or did
    # not start. Conditions are columns too: SQLite looks at them once more.
    Index("ix_runs_name", "entity", "name", "seq"),
    Index("ix_runs_gpus", "entity", "gpus", "seq"),
    Index(
        "ix_runs_lasted",
        "entity",
        text("(ended_at - started_at)"),
        "seq",
        sqlite_where=text("ended_at IS NOT NULL AND started_at IS NOT NULL"),
        postgresql_where=text("ended_at IS NOT NULL AND started_at IS NOT NULL"),
    ),
    Index(
        "ix_runs_going",
        "entity",
        "seq",
        "started_at",
        "ended_at",
        sqlite_where=text("ended_at IS NULL AND started_at IS NOT NULL"),
        postgresql_where=text("ended_at IS NULL AND started_at IS NOT NULL"),
    ),
    Index(
        "ix_runs_unstarted",
        "entity",
        "seq",
        "started_at",
        sqlite_where=text("started_at IS NULL"),
        postgresql_where=text("started_at IS NULL"),
    ),
    Index(
        "ix_runs_waiting",
        "queue_id",
        "state",  # always the same here, but so the index alone can count
        "rank",
        "seq",
        sqlite_where=text("state = 'queued'"),
        postgresql_where=text("state = 'queued'"),
    ),
    # Fair share: from user to user, and to the next run of each.
    Index(
        "ix_runs_waiting_user",
        "queue_id",
        "state",  # as above
        "author",
        "rank",
        "seq",
        "priority",
        sqlite_where=text("state = 'queued'"),
        postgresql_where=text("state = 'queued'"),
    ),
    Index(
        "ix_runs_job",
        "job_id",
        "seq",
        sqlite_where=text("job_id IS NOT NULL"),
        postgresql_where=text("job_id IS NOT NULL"),
    ),
    Index(
        "ix_runs_group",
        "group_id",
        "seq",
        sqlite_where=text("group_id IS NOT NULL"),
        postgresql_where=text("group_id IS NOT NULL"),
    ),
    Index(
        "ix_runs_ended",
        "queue_id",
        "ended_at",
        sqlite_where=text("ended_at IS NOT NULL"),
        postgresql_where=text("ended_at IS NOT NULL"),
    ),
    # `lease_expires_at` is null unless an agent has the run, so these hold only live runs.
    Index(
        "ix_runs_leased",
        "agent_id",
        sqlite_where=text("lease_expires_at IS NOT NULL"),
        postgresql_where=text("lease_expires_at IS NOT NULL"),
    ),
    Index(
        "ix_runs_live",
        "queue_id",
        "lease_expires_at",
        sqlite_where=text("lease_expires_at IS NOT NULL"),
        postgresql_where=text("lease_expires_at IS NOT NULL"),
    ),
    Index(
        "ix_runs_lease_expiry",
        "lease_expires_at",
        sqlite_where=text("lease_expires_at IS NOT NULL"),
        postgresql_where=text("lease_expires_at IS NOT NULL"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),  # of the newest claim of this attempt
    Column("agent_id", String(16), nullable=False),
    Column("agent_name", String(128), nullable=False),
    Column("host", String(128), nullable=False),
    Column("report_seq", Integer, nullable=False),  # newest report of this epoch that was applied
    Column("phase", String(16)),
    Column("end", String(16)),
    Column("reason", Words, nullable=False),
    Column("end_seen", _optional_json()),
    Column("failure", _optional_json()),
    Column("manifest", _optional_json()),
    Column("claimed_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant),
)

replicas = Table(
    "replicas",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    Column("state", String(16), nullable=False),
    Column("data", JSON, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", _serial(), primary_key=True, autoincrement=True),
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("type", String(32), nullable=False),
    Column("at", Instant, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("data", JSON, nullable=False),
    Index("uq_events_run_seq", "run_id", "seq", unique=True),
    sqlite_autoincrement=True,
)

agents = Table(
    "agents",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("incarnation", String(32), nullable=False),
    Column("engine", String(32), nullable=False),
    Column("host", String(128), nullable=False),
    Column("locality", String(128), nullable=False),
    Column("version", String(32), nullable=False),
    Column("max_jobs", Integer, nullable=False),
    Column("inventory", JSON, nullable=False),
    Column("free", _optional_json()),
    Column("registered_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Column("left_at", Instant),
    Column("paused_at", Instant),  # since then it is given no run
    Index("uq_agents_entity_name", "entity", "name", unique=True),
)

agent_queues = Table(
    "agent_queues",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("queue_id", ForeignKey("queues.id", ondelete="CASCADE"), primary_key=True),
    Index("ix_agent_queues_queue", "queue_id"),
)

clusters = Table(
    "clusters",
    metadata,
    Column("agent_id", ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("seen", JSON, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("entity", ForeignKey("entities.name", ondelete="CASCADE"), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("manifest", JSON, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("actor", String(128), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("answer", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_idempotency_created_at", "created_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _serial(), primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("action", String(64), nullable=False),
    Column("entity", String(64), nullable=False),
    Column("target", String(128), nullable=False),
    Column("data", JSON, nullable=False),
    Index("ix_audit_entity", "entity", "id"),
)
