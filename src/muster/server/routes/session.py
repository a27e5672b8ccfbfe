"""Signing in and out with a browser."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from muster.domain.errors import NotSignedIn
from muster.server import session
from muster.server.auth import Caller, Ctx
from muster.server.routes.accounts import me
from muster.wire.accounts import MeModel, SessionRequest

router = APIRouter(tags=["session"])


@router.post("/session")
async def sign_in(ctx: Ctx, asked: SessionRequest, request: Request, response: Response) -> MeModel:
    """Begin a session with an API key: from now on the browser sends a cookie in its place."""
    if not asked.key:
        raise NotSignedIn("No API key was given.")
    now = ctx.now()
    begun, actor = await ctx.db.read(lambda conn: session.begin(conn, asked.key, now=now))
    session.set_cookie(response, request, ctx, begun)
    return me(actor)


@router.delete("/session", status_code=204)
async def sign_out(ctx: Ctx, caller: Caller, response: Response) -> None:
    """Forget the cookie. The key stays good."""
    session.clear_cookie(response, ctx.settings)
