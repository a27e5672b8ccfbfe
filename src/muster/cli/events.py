"""An event of a run as a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from muster.cli.words import SIGNS, visible
from muster.domain.run import EventType

if TYPE_CHECKING:
    from muster.wire.runs import EventModel


def sentence(event: EventModel) -> Text:
    data = event.data
    match event.type:
        case EventType.STATE:
            return _state(str(data.get("to", "?")), _after_colon(data.get("reason")))
        case EventType.REPLICA:
            text = f"replica {data.get('rank')}: "
            return Text(text).append_text(_state(str(data.get("state", "?")), _replica(data)))
        case EventType.NOTE:
            style = "yellow" if data.get("level") == "warning" else ""
            return Text(visible(str(data.get("message", ""))), style=style)
        case EventType.ATTEMPT:
            end = data.get("end")
            what = f"attempt {event.attempt} {f'ended: {end}' if end else 'begins'}"
            return Text(what + visible(_after_colon(data.get("reason"))))
        case EventType.STOP:
            return Text(f"{data.get('by', event.actor)} asked it to stop")
        case EventType.LEASE:
            return Text(visible(f"agent {data.get('agent')}: {data.get('what')}"))


def _state(name: str, more: str) -> Text:
    sign, style = SIGNS.get(name, ("·", ""))
    return Text(f"{sign} {name}", style=style).append(visible(more), style="default")


def _replica(data: dict[str, Any]) -> str:
    facts = []
    if data.get("node"):
        facts.append(f"on {data['node']}")
    if data.get("exit_code") is not None:
        facts.append(f"exit status {data['exit_code']}")
    if data.get("signal") is not None:
        facts.append(f"signal {data['signal']}")
    return (f" {', '.join(facts)}" if facts else "") + _after_colon(data.get("reason"))


def _after_colon(text: Any) -> str:
    return f": {text}" if text else ""
