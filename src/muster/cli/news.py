"""What happens to a run, as it happens.

Nothing is missed: events are read by their number, not caught as they fly by, and a server that goes
away for a moment is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from muster.cli.output import say
from muster.domain.errors import ServerUnreachable, Unavailable

if TYPE_CHECKING:
    from muster.client.api import AsyncClient
    from muster.wire.runs import EventModel, RunModel

T = TypeVar("T")

HOLD = 20.0  #: seconds one request waits for news
FIRST_HOLD = 2.0  #: and the first one after news: a run that waits longer than this is worth a word
PATIENCE = 30.0  #: seconds to wait for a server that went away
PAUSE = 0.5


@dataclass(frozen=True, kw_only=True)
class News:
    run: RunModel
    events: list[EventModel]  #: those since the last news; none, if nothing happened for a while


async def news(client: AsyncClient, run_id: str, *, seen: int = 0) -> AsyncGenerator[News, None]:
    """What happens to a run after its event number `seen`, until it has ended."""
    hold = FIRST_HOLD
    while True:
        run = await patiently(
            lambda seen, hold: client.get_run(run_id, newer_than=seen, wait=hold), seen, hold
        )
        events = await events_after(client, run_id, seen) if run.version > seen else []
        hold = FIRST_HOLD if events else HOLD
        seen = events[-1].seq if events else seen
        yield News(run=run, events=events)
        if run.state.terminal:
            return


async def events_after(client: AsyncClient, run_id: str, seen: int) -> list[EventModel]:
    found: list[EventModel] = []
    cursor: str | None = str(seen)
    while cursor is not None:
        page = await patiently(lambda cursor: client.list_run_events(run_id, cursor=cursor), cursor)
        found += page.items
        cursor = page.next
    return found


async def until_ended(client: AsyncClient, run: RunModel, *, timeout: float | None = None) -> RunModel:
    """The run as it ended; or as it stands when the time is up."""
    loop = asyncio.get_running_loop()
    until = None if timeout is None else loop.time() + timeout
    while not run.state.terminal:
        left = HOLD if until is None else until - loop.time()
        if left <= 0:
            break
        hold = min(HOLD, left)
        run = await patiently(
            lambda run, hold: client.get_run(run.id, newer_than=run.version, wait=hold), run, hold
        )
    return run


async def patiently(ask: Callable[..., Awaitable[T]], *given: object) -> T:
    """Ask again for a while if the server went away."""
    loop = asyncio.get_running_loop()
    until: float | None = None
    while True:
        try:
            return await ask(*given)
        except (ServerUnreachable, Unavailable):
            if until is None:
                until = loop.time() + PATIENCE
                say("The server does not answer; waiting for it …")
            if loop.time() > until:
                raise
        await asyncio.sleep(PAUSE)
