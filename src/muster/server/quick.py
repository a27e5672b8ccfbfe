"""Requests that come many times a second, answered without what they do not need.

FastAPI's way to an endpoint (a tree of dependencies, solved anew for every request) cost more than a claim
itself. `QuickRoute` signs in, checks the protocol and reads the body with its model;
whatever is not as it should be goes FastAPI's way after all, which says what is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from muster.domain.access import Actor
from muster.domain.errors import Conflict
from muster.server.auth import Caller, person_or_agent, signed_in
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER


async def same_protocol(
    caller: Caller,
    spoken: Annotated[
        str, Header(alias=PROTOCOL_HEADER, description=f"The agent protocol: {PROTOCOL} for this server.")
    ],
) -> Actor:
    """Before the body is looked at: one of another protocol may be of another shape."""
    if spoken != PROTOCOL:
        raise Conflict(
            f"This server speaks agent protocol {PROTOCOL}, not {spoken!r}.",
            hint="Use an agent of the server's version.",
        )
    return caller


IDEMPOTENCY_HEADER = "Idempotency-Key"
MAX_IDEMPOTENCY_KEY = 128

Speaker = Annotated[Actor, Depends(same_protocol)]  #: an agent, in this server's protocol


class QuickRoute(APIRoute):
    """Quick for endpoints that are given a body, `asked`, and answer with a response of their own. What else
    they take is in their path or among `_GIVERS`; any other endpoint goes FastAPI's way, above all one that
    asks for more of its caller."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        thoroughly = super().get_route_handler()
        endpoint = self.endpoint
        signature = inspect.signature(endpoint, eval_str=True)
        takes = signature.parameters
        known = {"caller", "asked", *_GIVERS, *self.param_convertors}
        whose = takes["caller"].annotation if "caller" in takes else None
        if (
            "asked" not in takes
            or not takes.keys() <= known
            or whose not in (Caller, Speaker)
            or signature.return_annotation is not Response
        ):
            return thoroughly
        model: type[BaseModel] = takes["asked"].annotation
        speaks = whose == Speaker
        givers = [(name, give) for name, give in _GIVERS.items() if name in takes]

        async def quickly(request: Request) -> Response:
            if not _is_plain(request, speaks):
                return await thoroughly(request)
            caller = await person_or_agent(await signed_in(request))
            if speaks:
                caller = await same_protocol(caller, request.headers[PROTOCOL_HEADER])
            try:
                asked = model.model_validate_json(await request.body())
            except ValidationError:
                return await thoroughly(request)
            given = {name: give(request) for name, give in givers}
            answer: Response = await endpoint(caller=caller, asked=asked, **given, **request.path_params)
            return answer

        return quickly


_GIVERS: Mapping[str, Callable[[Request], Any]] = {
    "ctx": lambda request: request.app.state.context,
    "request": lambda request: request,
    "key": lambda request: request.headers.get(IDEMPOTENCY_HEADER),
}


def _is_plain(request: Request, speaks: bool) -> bool:
    """Has it the headers that it should have?"""
    headers = request.headers
    return (
        headers.get("content-type") == "application/json"
        and len(headers.get(IDEMPOTENCY_HEADER, "")) <= MAX_IDEMPOTENCY_KEY
        and not (speaks and PROTOCOL_HEADER not in headers)
    )
