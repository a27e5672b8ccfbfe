"""Rules of queues, shares of users, jobs with versions, groups of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("entities", sa.Column("limits", sa.JSON()))
    op.add_column("queues", sa.Column("draining_at", sa.BigInteger()))
    op.add_column("queue_versions", sa.Column("policy", sa.JSON()))
    op.add_column("runs", sa.Column("job_id", sa.String(16)))
    op.add_column("runs", sa.Column("job_version", sa.Integer()))
    op.add_column("runs", sa.Column("group_id", sa.String(16)))
    _index(
        "ix_runs_waiting_user",
        "runs",
        ["queue_id", "state", "author", "rank", "seq", "priority"],
        where="state = 'queued'",
    )
    _index("ix_runs_job", "runs", ["job_id", "seq"], where="job_id IS NOT NULL")
    _index("ix_runs_group", "runs", ["group_id", "seq"], where="group_id IS NOT NULL")
    op.create_table(
        "shares",
        sa.Column("queue_id", sa.String(16), nullable=False),
        sa.Column("user", sa.String(64), nullable=False),
        sa.Column("used", sa.Float(), nullable=False),
        sa.Column("served_at", sa.BigInteger()),
        sa.Column("rank", sa.BigInteger()),
        sa.Column("priority", sa.String(16)),
        sa.PrimaryKeyConstraint("queue_id", "user", name=op.f("pk_shares")),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queues.id"], ondelete="CASCADE", name=op.f("fk_shares_queue_id_queues")
        ),
    )
    _index("ix_shares_waiting", "shares", ["queue_id"], where="rank IS NOT NULL")
    op.execute(
        """
        INSERT INTO shares (queue_id, "user", used, rank, priority)
        SELECT queue_id, author, 0, rank, priority FROM runs AS r WHERE state = 'queued' AND seq = (
            SELECT seq FROM runs AS f
            WHERE f.queue_id = r.queue_id AND f.state = 'queued' AND f.author = r.author
            ORDER BY f.rank, f.seq LIMIT 1
        )
        """
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("entity", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("origin", sa.String(64)),
        sa.Column("newest", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("deleted_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.ForeignKeyConstraint(
            ["entity"], ["entities.name"], ondelete="CASCADE", name=op.f("fk_jobs_entity_entities")
        ),
    )
    _index("uq_jobs_name", "jobs", ["entity", "project", "name"], where="deleted_at IS NULL", unique=True)
    op.create_table(
        "job_versions",
        sa.Column("job_id", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("defaults", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "version", name=op.f("pk_job_versions")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], ondelete="CASCADE", name=op.f("fk_job_versions_job_id_jobs")
        ),
    )
    op.create_index("uq_job_versions_digest", "job_versions", ["job_id", "digest"], unique=True)
    op.create_table(
        "job_aliases",
        sa.Column("job_id", sa.String(16), nullable=False),
        sa.Column("alias", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "alias", name=op.f("pk_job_aliases")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], ondelete="CASCADE", name=op.f("fk_job_aliases_job_id_jobs")
        ),
    )


def _index(name: str, table: str, columns: list[str], *, where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
