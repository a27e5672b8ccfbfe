"""Writing down what happens to runs: the event and the change it stands for, together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from muster.domain.run import EventType, RunHead, RunState
from muster.service.bus import EVENTS, run_topic
from muster.store import events, runs, shares
from muster.store.database import Tx


@dataclass
class Entry:
    """Changes of one run that will be written at once."""

    head: RunHead
    at: datetime
    actor: str
    changes: dict[str, Any] = field(default_factory=dict)
    events: list[events.NewEvent] = field(default_factory=list)

    def note(self, kind: EventType, data: Mapping[str, Any], *, attempt: int | None = None) -> None:
        number = self.head.last_event + 1
        self.head = replace(self.head, last_event=number)
        self.changes["last_event"] = number
        self.events.append(
            events.NewEvent(
                run_id=self.head.id,
                seq=number,
                attempt=self.head.attempt if attempt is None else attempt,
                type=kind,
                at=self.at,
                actor=self.actor,
                data=data,
            )
        )

    def move(self, state: RunState, *, reason: str = "") -> None:
        data = {"from": self.head.state.value, "to": state.value}
        if reason:
            data["reason"] = reason
        self.note(EventType.STATE, data)
        self.set(state=state)

    @property
    def ends_attempt(self) -> bool:
        return any(event.type is EventType.ATTEMPT for event in self.events)

    def set(self, **values: Any) -> None:
        """Change columns of the run, and of the head where it has them."""
        self.changes.update(values)
        known = {name: value for name, value in values.items() if name in RunHead.__dataclass_fields__}
        if known:
            self.head = replace(self.head, **known)


def write(tx: Tx, entries: list[Entry]) -> None:
    """Write all entries; tell whoever follows these runs."""
    events.add(tx, [event for entry in entries for event in entry.events])
    ended = [entry.head.id for entry in entries if entry.ends_attempt]
    if ended:
        shares.charge(tx.conn, ended, now=entries[0].at)
    again = [entry.head.id for entry in entries if entry.changes.get("state") is RunState.QUEUED]
    if again:
        shares.enter_again(tx.conn, again)
    runs.change(tx.conn, {entry.head.id: entry.changes for entry in entries if entry.changes})
    for entry in entries:
        if entry.events:
            tx.tell(run_topic(entry.head.id))
    if any(entry.events for entry in entries):
        tx.tell(EVENTS)
