"""Following a run: its states and notes on stderr, its output on stdout, its verdict at the end.

Nothing is missed: events are read by their number, not caught as they fly by, and a server that goes
away for a moment is waited for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from muster.cli.describe import show_explanation
from muster.cli.events import sentence
from muster.cli.output import hint, say
from muster.cli.words import span, state
from muster.client.sdk import LineAssembler
from muster.domain.errors import ServerUnreachable, Unavailable
from muster.domain.run import EventType, RunState

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import EventModel, LogChunk, RunModel

T = TypeVar("T")

HOLD = 20.0  #: seconds one request waits for news
FIRST_HOLD = 2.0  #: a run that waits longer than this is explained
PATIENCE = 30.0  #: seconds to wait for a server that went away
PAUSE = 0.5
INDENT = "  "


@dataclass(frozen=True, kw_only=True)
class News:
    run: RunModel
    events: list[EventModel]  #: those since the last news; none, if it only waited


async def news(client: AsyncClient, run_id: str, *, seen: int = 0) -> AsyncIterator[News]:
    """What happens to a run after its event number `seen`, until it has ended."""
    hold = FIRST_HOLD
    while True:
        run = await _patiently(lambda: client.get_run(run_id, newer_than=seen, wait=hold))  # noqa: B023
        events = await _events_after(client, run_id, seen) if run.version > seen else []
        hold = FIRST_HOLD if events else HOLD
        seen = events[-1].seq if events else seen
        yield News(run=run, events=events)
        if run.state.terminal:
            return


async def _events_after(client: AsyncClient, run_id: str, seen: int) -> list[EventModel]:
    found: list[EventModel] = []
    cursor: str | None = str(seen)
    while cursor is not None:
        here = cursor
        page = await _patiently(lambda: client.list_run_events(run_id, cursor=here))  # noqa: B023
        found += page.items
        cursor = page.next
    return found


async def chunks(
    client: AsyncClient, run_id: str, *, rank: int | None = None, tail: int | None = None
) -> AsyncIterator[LogChunk]:
    """Output as it grows, until the run has ended."""
    until = None
    while True:
        try:
            async for chunk in client.follow_logs(run_id, rank=rank, tail=tail):
                until = 0.0  # from now on the client itself takes the stream up again where it broke
                yield chunk
            return
        except (ServerUnreachable, Unavailable):
            until = until if until is not None else asyncio.get_running_loop().time() + PATIENCE
            if asyncio.get_running_loop().time() > until:
                raise
        await asyncio.sleep(PAUSE)


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again for a while if the server went away."""
    until: float | None = None
    while True:
        try:
            return await ask()
        except (ServerUnreachable, Unavailable):
            now = asyncio.get_running_loop().time()
            if until is None:
                until = now + PATIENCE
                say(INDENT, "The server does not answer; waiting for it …")
            if now > until:
                raise
        await asyncio.sleep(PAUSE)


async def follow(client: AsyncClient, run: RunModel, *, output: bool = True) -> RunModel:
    """Show all of it; returns the run as it ended."""
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(_watch(client, run))
        if output:
            tasks.create_task(show_output(client, run))
    ended = watching.result()
    show_explanation(await client.explain_run(ended.id), state(ended.state), say=say)
    return ended


async def _watch(client: AsyncClient, run: RunModel) -> RunModel:
    explained = ""
    async with aclosing(news(client, run.id)) as stream:
        async for item in stream:
            run = item.run
            for event in item.events:
                _tell(event, run)
            if not item.events and run.state is RunState.QUEUED:
                why = await _patiently(lambda: client.explain_run(run.id))
                if why.summary != explained:
                    explained = why.summary
                    say(INDENT * 2, explained)
                    if why.advice:
                        hint(why.advice)
    return run


def _tell(event: EventModel, run: RunModel) -> None:
    match event.type:
        case EventType.STATE if RunState(event.data["to"]).terminal:
            return  # the verdict says it, at the very end
        case EventType.STATE:
            line = sentence(event)
            if event.seq > 1:
                line.pad_right(max(1, 14 - line.cell_len)).append(span(event.at - run.created_at), "dim")
            say(INDENT, line)
        case EventType.NOTE | EventType.LEASE | EventType.STOP:
            say(INDENT * 3, sentence(event))
        case EventType.ATTEMPT | EventType.REPLICA:
            return  # told by the state that follows
