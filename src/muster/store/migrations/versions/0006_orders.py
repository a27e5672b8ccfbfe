"""Lists in other orders than the newest first are read from indexes, too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        for table, columns in {
            "runs": {"project": 64, "name": 128, "author": 64, "state": 16},
            "queues": {"name": 64},
            "shares": {"user": 64},
        }.items():
            changes = (
                f'ALTER COLUMN "{column}" TYPE VARCHAR({length}) COLLATE "C"'
                for column, length in columns.items()
            )
            op.execute(f"ALTER TABLE {table} {', '.join(changes)}")
    op.create_index("ix_runs_name", "runs", ["entity", "name", "seq"])
    op.create_index("ix_runs_gpus", "runs", ["entity", "gpus", "seq"])
    _index(
        "ix_runs_lasted",
        ["entity", sa.text("(ended_at - started_at)"), "seq"],
        where="ended_at IS NOT NULL AND started_at IS NOT NULL",
    )
    _index(
        "ix_runs_going",
        ["entity", "seq", "started_at", "ended_at"],
        where="ended_at IS NULL AND started_at IS NOT NULL",
    )
    _index("ix_runs_unstarted", ["entity", "seq", "started_at"], where="started_at IS NULL")


def _index(name: str, columns: list[str | sa.TextClause], *, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "runs", columns, sqlite_where=condition, postgresql_where=condition)
