"""Which endpoints are answered quickly: only those of which nothing is left out that way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from muster.server.auth import Admin, Caller, Ctx
from muster.server.quick import QuickRoute, Speaker
from muster.server.routes import launches, work


class Asked(BaseModel):
    size: int


async def by_anybody(ctx: Ctx, caller: Caller, name: str, asked: Asked) -> Response:
    return Response()


async def by_an_agent(caller: Speaker, name: str, asked: Asked, request: Request) -> Response:
    return Response()


async def by_an_admin(ctx: Ctx, caller: Admin, name: str, asked: Asked) -> Response:
    return Response()


async def by_nobody(name: str, asked: Asked) -> Response:
    return Response()


async def with_a_query(ctx: Ctx, caller: Caller, name: str, asked: Asked, dry: bool = False) -> Response:
    return Response()


async def to_be_checked(ctx: Ctx, caller: Caller, name: str, asked: Asked) -> Asked:
    return asked


def is_quick(route: APIRoute) -> bool:
    return route.get_route_handler().__name__ == "quickly"


@pytest.mark.parametrize(
    ("endpoint", "quick"),
    [
        (by_anybody, True),
        (by_an_agent, True),
        (by_an_admin, False),
        (by_nobody, False),
        (with_a_query, False),
        (to_be_checked, False),
    ],
)
def test_an_endpoint_that_asks_for_more_than_is_given_quickly_goes_the_long_way(
    endpoint: Callable[..., Any], quick: bool
) -> None:
    assert is_quick(QuickRoute("/things/{name}", endpoint, methods=["POST"])) is quick


def test_what_comes_many_times_a_second_is_answered_quickly() -> None:
    routes = [
        route for route in (*work.router.routes, *launches.router.routes) if isinstance(route, APIRoute)
    ]
    quick = {route.name for route in routes if is_quick(route)}
    assert quick >= {"poll_work", "send_reports", "launch", "launch_batch"}
    assert "rerun_run" not in quick
