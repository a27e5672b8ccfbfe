"""Who waits for what: topics that are told after a commit wake those who wait on them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

EVENTS = "events"  #: some run has a new event
KEYS = "keys"  #: keys, roles or members changed
GONE = "gone"  #: a run was deleted, and its events with it
PLACES = "places"  #: queues or agents changed: they came, went, or stand otherwise


def queue_topic(queue_id: str) -> str:
    """The queue has something to hand out."""
    return f"queue:{queue_id}"


def agent_topic(agent_id: str) -> str:
    """Something for this agent: a stop, freed room, a newer incarnation."""
    return f"agent:{agent_id}"


def locality_topic(locality: str) -> str:
    """A run was orphaned where these agents can see it."""
    return f"locality:{locality}"


def run_topic(run_id: str) -> str:
    """The run changed."""
    return f"run:{run_id}"


def log_topic(run_id: str) -> str:
    """The run's log grew."""
    return f"log:{run_id}"


class Bus:
    """In one process; what other servers of the same database commit reaches it too."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._called: dict[str, list[Callable[[], None]]] = defaultdict(list)

    def publish(self, topics: Iterable[str]) -> None:
        """Call those who asked for it, then wake those who wait."""
        told = set(topics)
        for topic in told & self._called.keys():
            for call in self._called[topic]:
                call()
        for topic in told & self._waiting.keys():
            for event in self._waiting[topic]:
                event.set()

    def wake_everyone(self) -> None:
        """Word of something was missed: all look again."""
        self.publish({*self._waiting, *self._called})

    def on(self, topic: str, call: Callable[[], None]) -> None:
        """From now on, `call` is called when `topic` is told, before anybody wakes."""
        self._called[topic].append(call)

    @contextmanager
    def listen(self, *topics: str) -> Iterator[asyncio.Event]:
        """An event that is set when any of `topics` is told. Listen first, look second: then
        nothing that happens in between is missed."""
        event = asyncio.Event()
        for topic in topics:
            self._waiting[topic].add(event)
        try:
            yield event
        finally:
            for topic in topics:
                waiting = self._waiting[topic]
                waiting.discard(event)
                if not waiting:
                    del self._waiting[topic]
