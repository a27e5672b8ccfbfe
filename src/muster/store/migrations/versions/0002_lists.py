"""Lists narrowed by several things, or by text, are found in one index."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index(
        "ix_runs_lists",
        "runs",
        ["entity", "seq", "project", "author", "state", "queue_id", "name", "id"],
    )
    op.drop_index("ix_runs_entity_seq", "runs")
