"""Agents that are given no run for now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("agents", sa.Column("paused_at", sa.BigInteger()))
