"""Staying with a run: its states and notes on stderr, its output on stdout, its verdict at the end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from muster.cli import logs
from muster.cli.describe import show_explanation
from muster.cli.events import sentence
from muster.cli.news import news, patiently
from muster.cli.output import hint, say
from muster.cli.words import span, state
from muster.domain.run import EventType, RunState

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import EventModel, RunModel

_STATE, _NOTE = "  ", " " * 26
_STATE_WIDTH = 14


async def follow(client: AsyncClient, run: RunModel, *, output: bool = True) -> RunModel:
    """Show all of it; returns the run as it ended."""
    if output:
        printing = logs.follow(client, run, logs.Wanted(), json=False)
        ended, _ = await asyncio.gather(_watch(client, run), printing)
    else:
        ended = await _watch(client, run)
    why = await patiently(client.explain_run, ended.id)
    show_explanation(why, state(ended.state), say=say)
    return ended


async def _watch(client: AsyncClient, run: RunModel) -> RunModel:
    explained = ""
    async with aclosing(news(client, run.id)) as stream:
        async for item in stream:
            run = item.run
            for event in item.events:
                _tell(event, run)
            if item.events or run.state is not RunState.QUEUED:
                continue
            why = await patiently(client.explain_run, run.id)
            if why.summary != explained:
                explained = why.summary
                say(_NOTE, explained)
                if why.advice:
                    hint(why.advice)
    return run


def _tell(event: EventModel, run: RunModel) -> None:
    match event.type:
        case EventType.STATE if RunState(event.data["to"]).terminal:
            return  # the verdict says it, at the very end
        case EventType.STATE:
            line = state(str(event.data["to"]))
            line.pad_right(max(2, _STATE_WIDTH - line.cell_len))
            line.append(f"{span(event.at - run.created_at):>8}  ", style="dim")
            say(_STATE, line, str(event.data.get("reason", "")))
        case EventType.NOTE | EventType.LEASE | EventType.STOP:
            say(_NOTE, sentence(event))
        case EventType.ATTEMPT | EventType.REPLICA:
            return  # told by the state that follows
