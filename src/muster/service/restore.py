"""Putting a backup back. Time has gone on since it was taken, and the machines know more than it does.

What an agent was given after the backup is newer than what the restored server believes. So that no run is
stuck behind a claim the server forgot, and none runs twice:

1. Every run that has not ended leaps to an epoch greater than any that a machine may have seen.
2. Live runs wait, without an agent, for one that can see their processes: it finds them, or how they ended,
   or that they are gone, which ends the attempt as lost.
3. Agents are forgotten. Each hears so with its next request, and registers again.
4. Ids of events leap too: a follower goes on from the last one it saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from muster.domain.run import EventType
from muster.service import sweep
from muster.service.journal import Entry, write
from muster.store import agents, migrations, restored, runs, unpack
from muster.store.backup import Manifest, Progress
from muster.store.database import Database, Tx, sqlite_url
from muster.store.soundness import require_sound

LEAP = 1_000_000  #: more claims than a run can have seen since any backup
EVENTS_LEAP = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Restored:
    manifest: Manifest
    replaced: Path | None  #: where what was there before is now
    live: int  #: runs that an agent had when the backup was taken


def restore(file: Path, data_dir: Path, *, replace: bool, now: datetime, progress: Progress) -> Restored:
    """Put a backup in its place, once all of it is known to be good. No server may run on `data_dir`."""
    unpack.require_place(data_dir, replace=replace)
    with unpack.unpacked(file, data_dir, progress=progress) as content:
        require_sound(content.database, called=file)
        live = _settle(content, now)
        aside = data_dir / f"replaced-{now:%Y%m%d-%H%M%S}"
        replaced = unpack.place(content, data_dir, aside=aside)
    return Restored(manifest=content.manifest, replaced=replaced, live=live)


def _settle(content: unpack.Unpacked, now: datetime) -> int:
    db = Database(sqlite_url(content.database))
    try:
        db.write_now(lambda tx: migrations.upgrade(tx.conn))
        return db.write_now(lambda tx: settle(tx, taken_at=content.manifest.taken_at, now=now))
    finally:
        db.close()


def settle(tx: Tx, *, taken_at: str, now: datetime) -> int:
    """Make a database of the past fit for the present; returns how many runs were live in it."""
    restored.raise_epochs(tx.conn, LEAP)
    restored.raise_event_ids(tx.conn, EVENTS_LEAP)
    entries = []
    for head in runs.heads(tx.conn, restored.live_runs(tx.conn)).values():
        agent = agents.find(tx.conn, head.agent_id or "")
        entry = Entry(head, now, "server")
        data = {"agent": agent.name if agent else None, "epoch": head.epoch, "taken_at": taken_at}
        entry.note(EventType.LEASE, {**data, "what": "restored"})
        entry.set(agent_id=None, lease_expires_at=now)
        entries.append(entry)
    write(tx, entries)
    restored.forget_agents(tx.conn)
    sweep.set_time(tx, now=now)
    return len(entries)
