"""The OpenAPI document: what FastAPI derives from the routes, and the problems each operation answers with.

Most of these follow from what an operation takes; the rest is one table. A test drives every operation
and refuses an answer that is not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

from muster.domain.errors import (
    BadInput,
    Conflict,
    MusterError,
    NotAllowed,
    NotFound,
    NotSignedIn,
    TooLarge,
    Unavailable,
)
from muster.server.problems import MEDIA_TYPE
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER, Problem

_ABOUT = f"""\
Sign in with an API key: `Authorization: Bearer KEY`, or as the password of Basic; a browser begins a session
with one. What went wrong comes as an RFC 9457 problem document with a stable `code`. Agents send the header
`{PROTOCOL_HEADER}: {PROTOCOL}`; a server that speaks another version answers 409."""

_KINDS: tuple[type[MusterError], ...] = (
    NotSignedIn,
    NotAllowed,
    NotFound,
    Conflict,
    TooLarge,
    BadInput,
    Unavailable,
)

#: Beside those whose path names something: they look up what a body or a query names.
_LOOK_UP = frozenset(
    "launch launch_batch launch_grid preview_launch list_runs follow_events create_queue register_agent "
    "create_snapshot create_key create_job".split()
)
#: Beside what agents send: the thing may be taken, or in no state for this.
_MAY_CONFLICT = frozenset(
    "launch launch_batch launch_grid preview_launch delete_run place_run create_queue delete_queue "
    "delete_agent download_snapshot create_user create_entity set_member remove_member rename_job "
    "rerun_run".split()
)
_NEEDS_NO_STORE = frozenset({"healthz"})


def install(app: FastAPI) -> None:
    """Complete the document once, when it is first asked for."""
    derive = app.openapi

    def complete() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(derive())
        return derive()

    app.openapi = complete  # type: ignore[method-assign] # as FastAPI's own guide does


def _complete(document: dict[str, Any]) -> None:
    document["info"]["description"] = _ABOUT
    components = document["components"]
    components["responses"] = {kind.__name__: _response(kind) for kind in _KINDS}
    components["schemas"]["Problem"] = Problem.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            for kind in _problems(operation):
                operation["responses"][str(kind.status)] = {"$ref": f"#/components/responses/{kind.__name__}"}


def _response(kind: type[MusterError]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": kind.title, "content": {MEDIA_TYPE: {"schema": schema}}}


def _problems(operation: Mapping[str, Any]) -> Iterator[type[MusterError]]:
    name, takes_body = operation["operationId"], "requestBody" in operation
    parameters = {(item["in"], item["name"]) for item in operation.get("parameters", ())}
    from_agent = ("header", PROTOCOL_HEADER) in parameters
    if "security" in operation or name == "sign_in":
        yield NotSignedIn
    yield NotAllowed  # also for a Host or Origin that is not this server's
    if any(place == "path" for place, _ in parameters) or name in _LOOK_UP:
        yield NotFound
    if from_agent or name in _MAY_CONFLICT:
        yield Conflict
    if takes_body:
        yield TooLarge
    if takes_body or parameters:
        yield BadInput
    if name not in _NEEDS_NO_STORE:
        yield Unavailable
