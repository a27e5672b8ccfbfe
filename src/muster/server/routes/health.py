"""Is it alive, is it ready, how is it doing; and the pages for people."""

from __future__ import annotations

import html

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy import Connection

from muster._version import __version__
from muster.domain.errors import Unavailable
from muster.server.auth import Caller, Ctx
from muster.store import agents, queues, runs

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz")
async def readyz(ctx: Ctx) -> dict[str, str]:
    """The database answers and the server is not about to stop."""
    if ctx.closing:
        raise Unavailable("The server is stopping.", hint="Try again when it is back.")
    await ctx.db.read(lambda conn: queues.of_entities(conn, []))
    return {"status": "ready", "version": __version__}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(ctx: Ctx, caller: Caller) -> Response:
    """For Prometheus: what waits and runs in each queue, which agents are there."""
    registry = CollectorRegistry()
    waiting = Gauge("muster_runs_waiting", "Runs that wait", ["entity", "queue"], registry=registry)
    running = Gauge("muster_runs_live", "Runs an agent has", ["entity", "queue"], registry=registry)
    online = Gauge("muster_agent_online", "1 if the agent is online", ["entity", "agent"], registry=registry)
    info = Gauge("muster_info", "The server", ["version"], registry=registry)
    info.labels(__version__).set(1)
    now = ctx.now()

    def load(conn: Connection) -> None:
        found = queues.of_entities(conn, caller.visible)
        counts = runs.count_by_state(conn, [queue.id for queue in found])
        for queue in found:
            waiting.labels(queue.entity, queue.name).set(counts.get((queue.id, "waiting"), 0))
            running.labels(queue.entity, queue.name).set(counts.get((queue.id, "running"), 0))
        for agent in agents.of_entities(conn, caller.visible):
            online.labels(agent.entity, agent.name).set(agent.online(now))

    await ctx.db.read(load)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/api/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The operations, read from the OpenAPI document; no script, nothing from elsewhere."""
    document = request.app.openapi()
    rows = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = html.escape(operation.get("description") or operation.get("summary", ""))
            verb, place, name = method.upper(), html.escape(path), html.escape(operation["operationId"])
            rows.append(f"<tr><td><code>{verb} {place}</code><td><code>{name}</code><td>{text}</tr>")
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Muster API</title>"
        "<style>body{font:16px system-ui;margin:2rem;max-width:75rem}td,th{text-align:left;"
        "padding:.3rem 1rem .3rem 0;vertical-align:top}</style><h1>Muster API</h1>"
        "<p>Every operation is also a method of <code>muster.Client</code>. Errors are RFC 9457 problem "
        'documents. Schemas: <a href="/api/openapi.json">openapi.json</a>.</p>'
        f"<table><tr><th>Request<th>Operation<th>What it does</tr>{''.join(rows)}</table></html>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
