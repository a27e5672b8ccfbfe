"""Errors become RFC 9457 problem documents, here and nowhere else."""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Sequence
from typing import Any, get_args

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from muster.domain.errors import BadInput, MusterError, StoreUnavailable, nearest
from muster.wire.base import Problem

log = structlog.get_logger()
MEDIA_TYPE = "application/problem+json"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def problem_response(error: MusterError) -> Response:
    problem = Problem(
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        hint=error.hint,
        facts=error.facts,
    )
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    # What was given may be quoted, and it need not be text that can be encoded.
    body = json.dumps(problem.model_dump(), ensure_ascii=False).encode(errors="replace")
    return Response(body, status_code=error.status, media_type=MEDIA_TYPE, headers=headers)


def install(app: FastAPI) -> None:
    app.add_exception_handler(MusterError, _on_muster_error)
    app.add_exception_handler(UnicodeEncodeError, _on_half_character)
    app.add_exception_handler(OverflowError, _on_overflow)
    app.add_exception_handler(OSError, _on_disk_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_surprise)


async def _on_muster_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, MusterError):
        raise error
    if error.status >= 500:
        log.error("request failed", path=request.url.path, code=error.code, detail=error.detail)
    return problem_response(error)


async def _on_half_character(request: Request, error: Exception) -> Response:
    """JSON can say half of a surrogate pair; no database and no process can hold it."""
    return problem_response(BadInput("A text of the request has half a character in it (a lone surrogate)."))


async def _on_overflow(request: Request, error: Exception) -> Response:
    return problem_response(BadInput("A number of the request is too large to be kept."))


async def _on_disk_error(request: Request, error: Exception) -> Response:
    """Logs, usage and code are files: their disk may be full or read-only while all else works."""
    if not isinstance(error, OSError) or error.errno not in _DISK:
        return await _on_surprise(request, error)
    log.error("disk error", path=request.url.path, detail=str(error))
    return problem_response(
        StoreUnavailable(
            f"The server cannot write to its disk: {error.strerror}.",
            hint="Make room or mount it writable, then try again.",
        )
    )


async def _on_validation_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return problem_response(_bad_input(error.errors(), request))


def _bad_input(errors: Sequence[Any], request: Request) -> BadInput:
    """The first of the errors as a sentence, all of them as facts."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    facts = {"errors": [{"where": list(e["loc"]), "what": e["msg"]} for e in errors[:20]]}
    if first["type"] == "extra_forbidden":
        near = nearest(str(first["loc"][-1]), _known_keys(request))
        hint = f"Did you mean {near!r}?" if near else "See /api/docs for what this request takes."
        return BadInput(f"The request has an unknown key {where!r}.", hint=hint, facts=facts)
    return BadInput(f"{where}: {first['msg']}.", hint="See /api/docs for what is expected.", facts=facts)


def _known_keys(request: Request) -> set[str]:
    """Every key that any request model of this operation knows."""
    route = request.scope.get("route")
    field = getattr(route, "body_field", None)
    return _keys_of(getattr(getattr(field, "field_info", None), "annotation", None))


def _keys_of(annotation: Any) -> set[str]:
    """The keys of a model and of the models inside it."""
    fields = getattr(annotation, "model_fields", {})
    inner = [field.annotation for field in fields.values()] or get_args(annotation)
    return set(fields).union(*map(_keys_of, inner))


async def _on_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error.__cause__, MusterError):  # raised while FastAPI read the body
        return problem_response(error.__cause__)
    if error.status_code == 400 and error.__cause__ is not None:  # and this: bytes that are no text, say
        return problem_response(BadInput("The body of the request cannot be read as JSON."))
    problem = Problem(
        title=error.detail,
        status=error.status_code,
        detail=f"{request.method} {request.url.path}: {error.detail}.",
        code="not_found" if error.status_code == 404 else "http_error",
        hint="See /api/docs for what there is.",
    )
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
    return JSONResponse(
        problem.model_dump(), status_code=error.status_code, media_type=MEDIA_TYPE, headers=headers
    )


def _allowed(request: Request) -> str:
    """The methods of this path. Each is a route of its own, and Starlette names those of the first only."""
    routes = request.app.router.routes

    def takes(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in routes)

    return ", ".join(filter(takes, _METHODS))


async def _on_surprise(request: Request, error: Exception) -> JSONResponse:
    incident = secrets.token_hex(6)
    log.exception("internal error", incident=incident, path=request.url.path)
    problem = Problem(
        title="Internal error",
        status=500,
        detail=f"The server failed at this request (incident {incident}).",
        code="internal",
        hint="It is in the server's log under that number; please report it.",
    )
    return JSONResponse(problem.model_dump(), status_code=500, media_type=MEDIA_TYPE)
