"""What happens when nobody speaks: leases that run out, runs that stay lost, answers too old to keep."""

from __future__ import annotations

from datetime import datetime, timedelta

from muster.domain.run import LEASE_TTL, LOST_AFTER, EventType
from muster.service.bus import locality_topic
from muster.service.journal import Entry, write
from muster.service.observe import end_attempt_unseen
from muster.store import agents, records, runs
from muster.store.database import Tx

KEEP_ANSWERS = timedelta(hours=24)
_AT_ONCE = 500


def sweep(tx: Tx, *, now: datetime) -> None:
    """Orphan the runs of silent agents; give up those that stayed orphans too long."""
    entries = []
    for head, locality in runs.expired(tx.conn, before=now, limit=_AT_ONCE):
        entry = Entry(head, now, "server")
        if head.agent_id is not None:
            agent = agents.find(tx.conn, head.agent_id)
            name = agent.name if agent else head.agent_id
            entry.note(EventType.LEASE, {"agent": name, "epoch": head.epoch, "what": "silent"})
            entry.set(agent_id=None)
            if locality:
                tx.tell(locality_topic(locality))
        elif head.lease_expires_at is not None and now - head.lease_expires_at > LOST_AFTER:
            minutes = int(LOST_AFTER.total_seconds() // 60)
            end_attempt_unseen(tx, entry, f"Its agent has been silent for {minutes} minutes.")
        else:
            continue
        entries.append(entry)
    write(tx, entries)
    records.drop_answers(tx.conn, before=now - KEEP_ANSWERS)


def give_everyone_time(tx: Tx, *, now: datetime) -> None:
    """A starting server was deaf for a while: no lease may run out because of that."""
    runs.extend_all_leases(tx.conn, until=now + LEASE_TTL)
