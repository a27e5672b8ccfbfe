"""Following: events of runs, and logs as they grow. Resumable by the id of the last event received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from muster.domain.errors import MusterError, NotAllowed, NotFound, NotSignedIn
from muster.server.auth import Ctx, Visitor, signed_in
from muster.server.context import CLOSING, Context
from muster.server.eventframe import encoded
from muster.server.eventstream import PING_SECONDS, EventStream, woken
from muster.server.logfeed import LogFeed
from muster.server.logshare import RunView
from muster.server.problems import problem_response
from muster.server.routes.runs import cursor_number, visible_run
from muster.service.bus import EVENTS, GONE, KEYS, PLACES, log_topic, run_topic
from muster.store import events
from muster.store.logs import MAX_OFFSET, LogKey
from muster.wire.runs import EventModel

router = APIRouter(tags=["streams"])

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=10_000)]
_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("event", "id", "data")},
    "required": ["data"],
}
STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _EVENT}}}}
MAX_READ = 8 * 1024 * 1024
#: Seconds between two looks at a log that keeps growing, at least, and for each who follows it: one
#: delivery takes about a tenth of a millisecond, so all of them take a tenth of the server's time at most.
BEAT, BEAT_EACH = 0.04, 0.001


@router.get("/events", status_code=200, response_class=EventStream, responses=STREAM)
async def follow_events(
    ctx: Ctx,
    visitor: Visitor,
    request: Request,
    run: str | None = None,
    places: Annotated[
        bool, Query(description="Tell also when queues or agents have changed, or a run was deleted.")
    ] = False,
    last: LastEventId = None,
) -> EventStream:
    """Events of the runs one may see (or of one), as they happen. `resync` says: something was missed,
    read the lists again. `places` says that of the lists of queues and agents alone."""
    if run is not None:
        await ctx.db.read(lambda conn: visible_run(conn, visitor, run))
    after = cursor_number(last)
    newest = await ctx.db.read(events.newest)

    async def stream() -> AsyncGenerator[bytes | None, None]:
        at = newest if after is None else after
        if at > newest:  # the id is of another database: it was replaced since
            yield encoded("resync", b"{}", id=str(newest))
            at = newest
        topic = EVENTS if run is None else run_topic(run)
        others = (PLACES, GONE) if places else ()
        with (
            ctx.bus.listen(topic, KEYS, CLOSING, *others) as wake,
            ctx.bus.listen(*others[:1]) as moved,
            ctx.bus.listen(*others[1:]) as gone,
        ):
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
                        data = EventModel.of(event).model_dump_json().encode()
                        yield encoded(event.type.value, data, id=str(event.id))
                if moved.is_set():
                    moved.clear()
                    yield encoded("places", b"{}")
                if gone.is_set():  # no event can tell: it went with the run
                    gone.clear()
                    yield encoded("resync", b"{}")
                if not found:
                    await woken(wake, PING_SECONDS)
                yield None

    return EventStream(stream())


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

    def look() -> tuple[int, int, bytes]:
        length = ctx.logs.length(key)
        start = offset if offset >= 0 else max(0, length + offset)
        return length, start, ctx.logs.read(key, start, limit)

    length, start, data = await asyncio.to_thread(look)
    headers = {
        "Muster-Log-Length": str(length),
        "Muster-Log-Offset": str(start),
        "Muster-Log-Attempt": str(key.attempt),
        "X-Content-Type-Options": "nosniff",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.get("/runs/{run_id}/logs/stream", status_code=200, response_class=EventStream, responses=STREAM)
async def follow_logs(
    ctx: Ctx,
    visitor: Visitor,
    request: Request,
    run_id: str,
    rank: Annotated[int | None, Query(ge=0, le=1_000_000)] = None,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="This attempt alone.")] = None,
    tail: Annotated[
        int | None, Query(ge=0, le=MAX_OFFSET, description="Start so many bytes before the end.")
    ] = None,
    last: LastEventId = None,
) -> EventStream:
    """The output of all replicas (or of one) from the start, as it grows, until the run has ended.
    Ends with an event `end` that carries the run's state."""
    await ctx.db.read(lambda conn: visible_run(conn, visitor, run_id))
    feed = LogFeed(
        run_id=run_id,
        only_rank=rank,
        only_attempt=attempt,
        tail=tail,
        share=ctx.log_share,
        attempt=attempt or 0,
    )
    if last is not None:
        feed.resume(last)
    return EventStream(_log_stream(ctx, feed, request))


async def _log_stream(ctx: Context, feed: LogFeed, request: Request) -> AsyncGenerator[bytes | None, None]:
    """Who is signed in is asked again when keys or the run have changed and at times in between, but not
    for every line that comes."""
    loop = asyncio.get_running_loop()
    changed = run_topic(feed.run_id)
    with (
        ctx.bus.listen(log_topic(feed.run_id), changed, KEYS, CLOSING) as wake,
        ctx.bus.listen(changed, KEYS) as doubt,
        ctx.log_share.watch(feed.run_id) as watch,
    ):
        doubt.set()  # something may have changed before we listened
        admitted = loop.time()
        while not ctx.closing:
            wake.clear()
            again = doubt.is_set() or loop.time() > admitted + PING_SECONDS
            doubt.clear()
            try:
                view = await watch.view(feed.attempt)
                if view is None:
                    raise NotFound("run", feed.run_id)
                if again:
                    await _admit(request, view, feed.run_id)
                    admitted = loop.time()
            except (NotSignedIn, NotAllowed, NotFound) as error:
                yield _refusal(error)
                return
            sent = False
            async for event in feed.events(view):
                sent = True
                yield event
            if not sent and feed.finished(view):
                yield encoded("end", b'{"state":"%b"}' % view.state.value.encode())
                return
            if feed.over(view):
                if not sent:  # its agent may be gone: look again now and then
                    await woken(wake, 1.0)
                continue
            if sent:
                await _next_beat(watch.followers)
            await woken(wake, PING_SECONDS)
            yield None


async def _next_beat(followers: int) -> None:
    """All who follow a log keep the same time: then they stand at the same place in it, and what one of
    them reads serves them all."""
    beat = max(BEAT, BEAT_EACH * followers)
    await asyncio.sleep(beat - asyncio.get_running_loop().time() % beat)


async def _admit(request: Request, view: RunView, run_id: str) -> None:
    reader = await signed_in(request)
    if not reader.may_see(view.entity, run_id):
        raise NotFound("run", run_id)


def _refusal(error: MusterError) -> bytes:
    """Who may not look any more (a key revoked, a role taken away) is told so, and the stream ends."""
    return encoded("error", bytes(problem_response(error).body))
