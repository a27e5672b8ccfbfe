"""May this be launched into that queue at all, as its owner has set it?"""

from __future__ import annotations

from muster.domain.errors import BadInput, Conflict
from muster.domain.queue import Queue
from muster.domain.run import Priority


def check_open(queue: Queue, priority: Priority | None) -> None:
    """`priority` None: the launch names none."""
    if queue.draining_at is not None:
        raise Conflict(
            f"Queue {queue.name!r} is draining: it finishes what it has and takes no more launches.",
            hint=f"Launch on another queue, or ask its owner to open it: muster queue resume {queue.name}",
            facts={"queue": queue.name},
        )
    if priority is not None and not queue.policy.priorities:
        raise BadInput(
            f"Queue {queue.name!r} has its priorities turned off; this launch names {priority.value!r}.",
            hint="Launch without --priority.",
            facts={"queue": queue.name, "priority": priority.value},
        )
