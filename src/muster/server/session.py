"""Sessions of browsers: a cookie that stands for an API key, so that no script ever holds the key itself.

The cookie names the key and is signed with the server's secret; nothing is kept. It ends with the key:
a revoked key ends every session that was begun with it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fastapi import Request, Response
from sqlalchemy import Connection

from muster.domain.access import Actor, KeyKind
from muster.domain.errors import NotSignedIn
from muster.server.context import Context, Settings
from muster.service import accounts as service
from muster.store import accounts
from muster.store.accounts import Key

LIFETIME = timedelta(days=30)


@dataclass(frozen=True, kw_only=True)
class Session:
    key_id: str
    expires_at: datetime

    def signed(self, secret: str) -> str:
        what = f"{self.key_id}.{int(self.expires_at.timestamp())}"
        return f"{what}.{_signature(secret, what)}"


def _signature(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), f"session {what}".encode(), hashlib.sha256).hexdigest()


def begin(conn: Connection, text: str, *, now: datetime) -> tuple[Session, Actor]:
    """A session for who has this key. Only people have sessions."""
    actor = service.authenticate(conn, text, now=now)
    key = accounts.find_key_by_digest(conn, service.digest(text))
    if actor.kind is not KeyKind.USER or key is None:
        raise NotSignedIn("This is an agent's or a run's key. Sign in with a key of your own.")
    return Session(key_id=key.id, expires_at=_end(key, now)), actor


def _end(key: Key, now: datetime) -> datetime:
    return min(now + LIFETIME, key.expires_at or now + LIFETIME)


def actor_of(conn: Connection, cookie: str, *, secret: str, now: datetime) -> Actor:
    """Who sent this cookie."""
    what, _, signature = cookie.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(secret, what).encode()):
        raise NotSignedIn("The session is not known here.")
    key_id, _, seconds = what.partition(".")
    key = accounts.find_key(conn, key_id)
    if now >= datetime.fromtimestamp(int(seconds), UTC) or key is None or not key.valid(now):
        raise NotSignedIn("The session has ended.")
    return service.user_actor(conn, key.user)


def cookie_name(settings: Settings) -> str:
    """With the port: cookies do not tell the servers of one machine apart."""
    return f"muster-session-{settings.port}"


def set_cookie(response: Response, request: Request, context: Context, session: Session) -> None:
    response.set_cookie(
        cookie_name(context.settings),
        session.signed(context.secret),
        expires=session.expires_at,
        httponly=True,
        samesite="strict",
        # Behind a proxy that ends TLS, only the browser knows that it speaks TLS.
        secure=request.headers.get("origin", "").startswith("https://"),
    )


def clear_cookie(response: Response, settings: Settings) -> None:
    response.delete_cookie(cookie_name(settings), httponly=True, samesite="strict")
