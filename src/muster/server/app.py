"""The application: routes, guards and the tasks that run beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import structlog
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message

from muster._version import __version__
from muster.domain.errors import MusterError
from muster.server import document, problems, web
from muster.server.auth import Doorkeeper
from muster.server.context import Context
from muster.server.guard import Guard
from muster.server.loopback import is_loopback
from muster.server.routes import (
    accounts,
    agents,
    clusters,
    code,
    groups,
    health,
    jobs,
    launches,
    lines,
    loglines,
    queues,
    runs,
    session,
    streams,
    versions,
    work,
)
from muster.service import sweep, tidy
from muster.service.accounts import server_secret

log = structlog.get_logger()
SWEEP_SECONDS = 1.0
REPAIR_EVERY = 60  #: sweeps
TIDY_SECONDS = 3600.0
API = "/api/v1"


def create_app(context: Context) -> FastAPI:
    settings = context.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        context.db.follow(context.bus.wake_everyone)
        await context.keep_time()
        context.secret = await context.db.read(server_secret)
        context.start(_sweep_forever(context))
        context.start(_tidy_forever(context))
        if context.db.shared:
            await _rehearse(app)
        yield
        await context.close()

    app = FastAPI(
        title="Muster",
        version=__version__,
        summary="Launches machine-learning jobs.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.context = context
    app.state.doorkeeper = Doorkeeper(context)
    # They are tried in this order: first those that ask many times a second.
    for module in (
        work,
        agents,
        launches,
        groups,
        runs,
        streams,
        loglines,
        versions,
        lines,
        queues,
        jobs,
        clusters,
        code,
        accounts,
        session,
    ):
        app.include_router(module.router, prefix=API)
    app.include_router(health.router)
    app.include_router(web.router)  # last: it takes every path that is left
    problems.install(app)
    document.install(app)
    app.add_middleware(Guard, hosts=settings.hosts, any_host=not is_loopback(settings.host))
    return app


def _operation_id(route: APIRoute) -> str:
    """The operation is called as its method in the SDK is."""
    return route.name


async def _rehearse(app: FastAPI) -> None:
    """Ask for a path that no route has: it goes by all of them.

    FastAPI makes the routes of a module when one of them is first asked for, which took seconds on a busy
    machine. Where other servers can answer meanwhile, that is done before anybody is let in.
    """
    answered = asyncio.Event()

    async def receive() -> Message:
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            answered.set()

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "query_string": b""}
    path = f"{API}/rehearsal"
    headers = [(b"host", b"localhost")]
    await app({**scope, "path": path, "raw_path": path.encode(), "headers": headers}, receive, send)


async def _sweep_forever(context: Context) -> None:
    for times in count():
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            await context.keep_time()
            await context.db.write(partial(sweep.sweep, now=context.now()))
            if times % REPAIR_EVERY == 0:
                await context.db.write(sweep.repair)
        except MusterError as error:
            log.error("sweep failed", detail=str(error))


async def _tidy_forever(context: Context) -> None:
    while True:
        try:
            await tidy.tidy(context.db, context.files)
        except (MusterError, OSError) as error:
            log.error("tidying failed", detail=str(error))
        await asyncio.sleep(TIDY_SECONDS)
