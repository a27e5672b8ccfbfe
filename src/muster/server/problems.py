"""Errors become RFC 9457 problem documents, here and nowhere else."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from muster.domain.errors import BadInput, MusterError, nearest
from muster.wire.base import Problem

log = structlog.get_logger()
MEDIA_TYPE = "application/problem+json"


def problem_response(error: MusterError) -> JSONResponse:
    problem = Problem(
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        hint=error.hint,
        facts=error.facts,
    )
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return JSONResponse(
        problem.model_dump(), status_code=error.status, media_type=MEDIA_TYPE, headers=headers
    )


def install(app: FastAPI) -> None:
    app.add_exception_handler(MusterError, _on_muster_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_surprise)


async def _on_muster_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, MusterError):
        raise error
    if error.status >= 500:
        log.error("request failed", path=request.url.path, code=error.code, detail=error.detail)
    return problem_response(error)


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
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
    model = getattr(getattr(field, "field_info", None), "annotation", None)
    return set(getattr(model, "model_fields", {}))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    problem = Problem(
        title=error.detail,
        status=error.status_code,
        detail=f"{request.method} {request.url.path}: {error.detail}.",
        code="not_found" if error.status_code == 404 else "http_error",
        hint="See /api/docs for what there is.",
    )
    return JSONResponse(
        problem.model_dump(), status_code=error.status_code, media_type=MEDIA_TYPE, headers=error.headers
    )


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
