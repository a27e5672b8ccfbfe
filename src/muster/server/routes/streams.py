"""Following: events of runs, and logs as they grow. Resumable by the id of the last event received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from muster.domain.errors import MusterError, NotAllowed, NotFound, NotSignedIn
from muster.server.auth import Ctx, Visitor, signed_in
from muster.server.context import CLOSING, Context
from muster.server.logfeed import MAX_OFFSET, LogFeed
from muster.server.problems import problem_response
from muster.server.routes.runs import cursor_number, visible_run
from muster.service.bus import EVENTS, KEYS, log_topic, run_topic
from muster.store import events
from muster.store.logs import LogKey
from muster.wire.runs import EventModel

router = APIRouter(tags=["streams"])

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=10_000)]
STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
PING_SECONDS = 15
MAX_READ = 8 * 1024 * 1024


@router.get(
    "/events", response_class=EventSourceResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def follow_events(
    ctx: Ctx, visitor: Visitor, request: Request, run: str | None = None, last: LastEventId = None
) -> EventSourceResponse:
    """Events of the runs one may see (or of one), as they happen. `resync` says: something was missed,
    read the lists again."""
    if run is not None:
        await ctx.db.read(lambda conn: visible_run(conn, visitor, run))
    after = cursor_number(last)
    newest = await ctx.db.read(events.newest)

    async def stream() -> AsyncIterator[ServerSentEvent]:
        at = newest if after is None else after
        if at > newest:  # the id is of another database: it was replaced since
            yield ServerSentEvent(event="resync", id=str(newest), data="{}")
            at = newest
        topic = EVENTS if run is None else run_topic(run)
        with ctx.bus.listen(topic, KEYS, CLOSING) as wake:
            while not ctx.closing:
                wake.clear()
                try:
                    reader = await signed_in(request)
                except (NotSignedIn, NotAllowed) as error:
                    yield _refusal(error)
                    return
                found = await ctx.db.read(partial(events.since, after=at, limit=500))
                for entity, event in found:
                    at = event.id
                    if run is not None and event.run_id != run:
                        continue
                    if reader.may_see(entity, event.run_id):
                        data = EventModel.of(event).model_dump_json()
                        yield ServerSentEvent(event=event.type.value, id=str(event.id), data=data)
                if not found:
                    await wake.wait()

    return EventSourceResponse(stream(), ping=PING_SECONDS)


@router.get(
    "/runs/{run_id}/logs",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def read_log(
    ctx: Ctx,
    visitor: Visitor,
    run_id: str,
    rank: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    offset: Annotated[
        int, Query(ge=-MAX_OFFSET, le=MAX_OFFSET, description="Below zero: so many bytes before the end.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_READ)] = 1024 * 1024,
) -> Response:
    """Raw bytes of one replica's output from an offset. The header `Muster-Log-Length` tells how much
    there is now."""
    run = await ctx.db.read(lambda conn: visible_run(conn, visitor, run_id))
    key = LogKey(run_id=run_id, attempt=attempt or max(run.head.attempt, 1), rank=rank)
    length = await asyncio.to_thread(ctx.logs.length, key)
    start = offset if offset >= 0 else max(0, length + offset)
    data = await asyncio.to_thread(ctx.logs.read, key, start, limit)
    headers = {
        "Muster-Log-Length": str(length),
        "Muster-Log-Offset": str(start),
        "Muster-Log-Attempt": str(key.attempt),
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.get(
    "/runs/{run_id}/logs/stream",
    response_class=EventSourceResponse,
    responses=STREAM,
)
async def follow_logs(
    ctx: Ctx,
    visitor: Visitor,
    request: Request,
    run_id: str,
    rank: Annotated[int | None, Query(ge=0)] = None,
    attempt: Annotated[int | None, Query(ge=1, description="This attempt alone.")] = None,
    tail: Annotated[int | None, Query(ge=0, description="Start so many bytes before the end.")] = None,
    last: LastEventId = None,
) -> EventSourceResponse:
    """The output of all replicas (or of one) from the start, as it grows, until the run has ended.
    Ends with an event `end` that carries the run's state."""
    await ctx.db.read(lambda conn: visible_run(conn, visitor, run_id))
    feed = LogFeed(
        run_id=run_id,
        only_rank=rank,
        only_attempt=attempt,
        tail=tail,
        logs=ctx.logs,
        attempt=attempt or 0,
    )
    if last is not None:
        feed.resume(last)
    return EventSourceResponse(_log_stream(ctx, feed, request), ping=PING_SECONDS)


async def _log_stream(ctx: Context, feed: LogFeed, request: Request) -> AsyncIterator[ServerSentEvent]:
    with ctx.bus.listen(log_topic(feed.run_id), run_topic(feed.run_id), KEYS, CLOSING) as wake:
        while not ctx.closing:
            wake.clear()
            try:
                reader = await signed_in(request)
                await ctx.db.read(partial(visible_run, actor=reader, run_id=feed.run_id))
            except (NotSignedIn, NotAllowed, NotFound) as error:
                yield _refusal(error)
                return
            view = await ctx.db.read(feed.look)
            if view is None:
                return
            sent = False
            async for chunk in feed.chunks(view):
                sent = True
                yield ServerSentEvent(event="log", id=feed.cursor, data=chunk.model_dump_json())
            if not sent and feed.finished(view):
                yield ServerSentEvent(event="end", data=f'{{"state":"{view.state.value}"}}')
                return
            if not sent:
                await _wait(wake, view.over)


def _refusal(error: MusterError) -> ServerSentEvent:
    """Who may not look any more (a key revoked, a role taken away) is told so, and the stream ends."""
    return ServerSentEvent(event="error", data=bytes(problem_response(error).body).decode())


async def _wait(wake: asyncio.Event, ended: bool) -> None:
    """Until told. Once the run has ended, its agent may be gone: look again now and then."""
    try:
        await asyncio.wait_for(wake.wait(), 1.0 if ended else None)
    except TimeoutError:
        return
