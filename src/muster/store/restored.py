"""Statements that only a restore needs."""

from __future__ import annotations

from sqlalchemy import Connection, delete, null, select, text, update

from muster.store.schema import agents, attempts, runs


def raise_epochs(conn: Connection, by: int) -> None:
    """Of every run that has not ended, and of its attempts that have not."""
    open_runs = select(runs.c.id).where(runs.c.ended_at.is_(null()))
    conn.execute(
        update(attempts)
        .where(attempts.c.run_id.in_(open_runs), attempts.c.end.is_(null()))
        .values(epoch=attempts.c.epoch + by)
    )
    conn.execute(update(runs).where(runs.c.ended_at.is_(null())).values(epoch=runs.c.epoch + by))


def raise_event_ids(conn: Connection, by: int) -> None:
    """Ids given from now on are greater by so much."""
    conn.execute(text("UPDATE sqlite_sequence SET seq = seq + :by WHERE name = 'events'"), {"by": by})


def live_runs(conn: Connection) -> list[str]:
    """Those that an agent had."""
    return list(conn.execute(select(runs.c.id).where(runs.c.lease_expires_at.is_not(null()))).scalars())


def forget_agents(conn: Connection) -> None:
    conn.execute(delete(agents))
