"""What happens when nobody speaks: leases that run out, runs that stay lost, answers too old to keep.

Leases are measured in time that some server was there to see. While none runs, while the machine
sleeps, when the clock is set forward or back by an hour, no agent falls silent because of that:
`keep_time` finds that the clock is not where it should be and moves all leases along with it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from muster.domain.run import LEASE_TTL, LOST_AFTER, UNHEARD_AFTER, EventType, RunHead
from muster.service.bus import PLACES, locality_topic
from muster.service.journal import Entry, write
from muster.service.observe import end_attempt_unseen
from muster.store import agents, records, runs, shares
from muster.store.database import Tx

KEEP_ANSWERS = timedelta(hours=24)
BEAT = timedelta(seconds=5)  #: how often the servers note that one of them is there
_LAST_BEAT = "last_beat"
_AT_ONCE = 500
_RECENT = timedelta(seconds=3)  #: more than lies between two sweeps: who falls silent is told at least once


def sweep(tx: Tx, *, now: datetime) -> None:
    """Orphan the runs of agents that are silent, or have been since they were given them; give up those
    that stayed orphans too long."""
    write(tx, _orphaned(tx, now) + _given_up(tx, now))
    records.drop_answers(tx.conn, before=now - KEEP_ANSWERS)
    silent = now - LEASE_TTL
    if agents.fell_silent(tx.conn, after=silent - _RECENT, before=silent):
        tx.tell(PLACES)


def _orphaned(tx: Tx, now: datetime) -> list[Entry]:
    entries = []
    silent = runs.expired(tx.conn, before=now, limit=_AT_ONCE)
    silent += runs.unheard(tx.conn, given_before=now - UNHEARD_AFTER, ttl=LEASE_TTL, now=now, limit=_AT_ONCE)
    for head, locality in silent:
        agent = agents.find(tx.conn, head.agent_id or "")
        name = agent.name if agent else head.agent_id
        entry = Entry(head, now, "server")
        entry.note(EventType.LEASE, {"agent": name, "epoch": head.epoch, "what": "silent"})
        entry.set(agent_id=None)
        entries.append(entry)
        if locality:
            tx.tell(locality_topic(locality))
    return entries


def _given_up(tx: Tx, now: datetime) -> list[Entry]:
    entries: list[Entry] = []
    minutes = int(LOST_AFTER.total_seconds() // 60)
    for head, locality in runs.forsaken(tx.conn, before=now - LOST_AFTER):
        if len(entries) == _AT_ONCE:
            break
        if _is_better_elsewhere(tx, head, locality, now):
            entry = Entry(head, now, "server")
            end_attempt_unseen(tx, entry, f"Its agent has been silent for {minutes} minutes.")
            entries.append(entry)
    return entries


def _is_better_elsewhere(tx: Tx, head: RunHead, locality: str | None, now: datetime) -> bool:
    """Is there something better to do than to wait for its host?

    Where no other machine serves the queue, waiting loses nothing: its processes may well be alive
    there, and the host's next agent finds them.
    """
    if head.stop_requested_at is not None:
        return True
    serving = agents.of_queue(tx.conn, head.queue_id)
    return any(agent.online(now) and agent.locality != locality for agent in serving)


def repair(tx: Tx) -> None:
    """Find whoever waits and was not noted to; there should be nobody."""
    shares.repair(tx.conn)


def keep_time(tx: Tx, *, now: datetime) -> None:
    """To be called all the time; whichever server comes first does it for all."""
    last = _last_beat(tx)
    if last is not None and -BEAT < now - last < BEAT:
        return
    tx.alone("time")
    last = _last_beat(tx)
    unseen = now - last if last is not None else timedelta()
    if not -BEAT < unseen < 1.5 * BEAT:
        # A server may have been there until the next beat was due: that time was seen.
        runs.shift_leases(tx.conn, by=unseen - BEAT)
        agents.shift_seen(tx.conn, by=unseen - BEAT)
    set_time(tx, now=now)


def set_time(tx: Tx, *, now: datetime) -> None:
    """From here on time is seen."""
    records.set_setting(tx.conn, _LAST_BEAT, now.isoformat())


def _last_beat(tx: Tx) -> datetime | None:
    text = records.setting(tx.conn, _LAST_BEAT)
    return datetime.fromisoformat(text) if text else None
