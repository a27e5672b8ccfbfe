"""The web app's files: built by `make web` into the package, read once, served from memory.

A name in `assets/` has its content's hash in it, so it may be kept for ever. Every other path that is not
the API's is a page of the app, and all of these are the one `index.html`.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from muster.server.auth import Ctx

router = APIRouter()

INDEX = "index.html"
ASSETS = "assets/"
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_FIRST = "no-cache"
#: Nothing from elsewhere, no inline script, no plug-in, no frame; styles only from files of ours.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_NOT_BUILT = b"""\
<!doctype html><html lang=en><meta charset=utf-8><title>Muster</title>
<h1>Muster is running</h1>
<p>Its web app is not part of this installation: it was installed from source without being built.
<p>In the source folder, with Node.js 20.19 or newer, run <code>make web</code> and start the server again.
<p>Everything else works: the <code>muster</code> command and the <a href=/api/docs>API</a>.
</html>
"""


class PagePath(Convertor[str]):
    """Any path but those that belong to programs."""

    regex = r"(?!(?:api|graphql|files)(?:/|$)).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", PagePath())


@dataclass(frozen=True, kw_only=True)
class WebFile:
    content: bytes
    zipped: bytes | None  #: the same, gzipped, where that is smaller
    media_type: str
    etag: str


@cache
def files(folder: Path) -> Mapping[str, WebFile]:
    """Path below `folder` → file; empty where the app was not built."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix == ".gz":
            continue
        content, zipped = path.read_bytes(), path.with_name(f"{path.name}.gz")
        found[path.relative_to(folder).as_posix()] = WebFile(
            content=content,
            zipped=zipped.read_bytes() if zipped.exists() else None,
            media_type=mimetypes.guess_type(path.name)[0] or "application/octet-stream",
            etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        )
    return found


@router.get("/{page:page}", include_in_schema=False)
async def web(ctx: Ctx, request: Request, page: str) -> Response:
    """A file of the web app, or the app itself, which knows what to show at this path."""
    built = files(ctx.settings.web_dir)
    file = built.get(page) or built.get(INDEX)
    if page.startswith(ASSETS) and page not in built:
        raise HTTPException(404)
    if file is None:
        return Response(_NOT_BUILT, media_type="text/html", headers=_HEADERS)
    headers = {
        **_HEADERS,
        "ETag": file.etag,
        "Cache-Control": _FOR_EVER if page.startswith(ASSETS) else _ASK_FIRST,
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.zipped, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
