"""What agents see of the clusters they drive."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column(
            "agent_id", sa.String(16), sa.ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.JSON(), nullable=False),
    )
