"""Requests that agents make many times a second, answered without what they do not need.

FastAPI's way to an endpoint (a tree of dependencies, solved anew for every request) cost three times as
much as a claim itself. `QuickRoute` signs in, checks the protocol and reads the body with the model;
whatever is not as it should be goes FastAPI's way after all, which says what is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
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


Speaker = Annotated[Actor, Depends(same_protocol)]  #: an agent, in this server's protocol


class QuickRoute(APIRoute):
    """For endpoints that take an agent's request, `asked`, and answer with a response of their own."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        thoroughly = super().get_route_handler()
        endpoint = self.endpoint
        takes = inspect.signature(endpoint, eval_str=True).parameters
        model: type[BaseModel] = takes["asked"].annotation
        also_request = "request" in takes

        async def quickly(request: Request) -> Response:
            spoken = request.headers.get(PROTOCOL_HEADER)
            if spoken is None or request.headers.get("content-type") != "application/json":
                return await thoroughly(request)
            caller = await same_protocol(await person_or_agent(await signed_in(request)), spoken)
            try:
                asked = model.model_validate_json(await request.body())
            except ValidationError:
                return await thoroughly(request)
            given = {"request": request} if also_request else {}
            answer: Response = await endpoint(
                ctx=request.app.state.context, caller=caller, asked=asked, **request.path_params, **given
            )
            return answer

        return quickly
