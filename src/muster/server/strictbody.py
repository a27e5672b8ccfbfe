"""Bodies that hold a document: read as strictly as a file would be, duplicate keys and size included."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from muster.domain.document import MAX_BYTES, parse_json, place_in
from muster.domain.errors import TooLarge

MAX_BODY = 2 * MAX_BYTES  #: a document of the largest size, escaped, and what is around it


class StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        if len(body) > MAX_BODY:
            line, column = place_in(body, MAX_BODY)
            raise TooLarge(
                f"The request is larger than 2 MiB: its limit is passed at line {line}, column {column}.",
                hint="A config is a few lines of YAML.",
            )
        return parse_json(body)


class StrictRoute(APIRoute):
    """As FastAPI's guide has it for requests of one's own kind."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly
