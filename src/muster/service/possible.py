"""Could this ever start? What no machine and no limit lets start is refused at the launch."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from muster.domain.errors import ImpossibleRequest
from muster.domain.queue import Queue
from muster.domain.resources import Resources
from muster.store import accounts


def check_possible(conn: Connection, needs: Resources, rooms: Sequence[Resources], queue: Queue) -> None:
    """`rooms` are the machines of the queue. Agents yet unknown get the benefit of the doubt."""
    if needs.gpus:
        _check_limits(conn, needs, queue)
    if not rooms or any(needs.fits_in(room) for room in rooms):
        return
    shortest = min((needs.short_of(room) for room in rooms), key=len)
    raise ImpossibleRequest(
        f"No machine of queue {queue.name!r} is big enough: this needs {' and '.join(shortest)}.",
        hint="Ask for less, or launch on another queue (`muster queue list`).",
        facts={"queue": queue.name, "short": list(shortest)},
    )


def _check_limits(conn: Connection, needs: Resources, queue: Queue) -> None:
    limits = queue.policy.limits
    for limit, whose in ((limits.queue, "all its runs together"), (limits.user, "each user")):
        if limit.gpus is not None and needs.gpus > limit.gpus:
            raise ImpossibleRequest(
                f"Queue {queue.name!r} allows {whose} {limit.gpus} GPUs at once; this needs {needs.gpus}.",
                hint="Ask for less, or launch on another queue (`muster queue list`).",
                facts={"queue": queue.name, "gpus": needs.gpus, "limit": limit.gpus},
            )
    entity = accounts.find_entity(conn, queue.entity)
    allowed = entity.limits.gpus if entity else None
    if allowed is not None and needs.gpus > allowed:
        raise ImpossibleRequest(
            f"{queue.entity} may have {allowed} GPUs at once in all its queues; this needs {needs.gpus}.",
            hint="Ask for less, or ask an admin of the server for more: muster entity limit.",
            facts={"entity": queue.entity, "gpus": needs.gpus, "limit": allowed},
        )
