"""The events of a run as sentences."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from rich.text import Text

from muster.cli.news import events_after, news
from muster.cli.output import show, show_json_items, show_json_line
from muster.cli.words import SIGNS, moment, visible
from muster.domain.run import EventType

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import EventModel, RunModel


async def show_events(client: AsyncClient, run: RunModel, *, follow: bool, json: bool) -> None:
    """One line an event; while following, one JSON document a line."""
    if json and not follow:
        show_json_items(await events_after(client, run.id, 0))
        return
    if not follow:
        for event in await events_after(client, run.id, 0):
            _show(event)
        return
    async with aclosing(news(client, run.id)) as stream:
        async for item in stream:
            for event in item.events:
                show_json_line(event) if json else _show(event)


def _show(event: EventModel) -> None:
    show(Text(f"{moment(event.at)}  {event.actor:<10}  ", style="dim"), sentence(event))


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
