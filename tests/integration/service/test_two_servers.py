"""Two servers on one PostgreSQL at the same moment, down to their transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from muster.domain.errors import MusterError
from muster.service import claim
from muster.store.database import Database, Tx
from postgres import new_postgres
from world import Worker, World, open_world


@pytest.fixture
def servers() -> Iterator[tuple[World, World]]:
    url = new_postgres()
    here = open_world(url)
    there = World(db=Database(url), clock=here.clock, random=here.random, owner=here.owner)
    yield here, there
    here.close()
    there.close()


class HandingOut(threading.Thread):
    """A server that has chosen runs for an agent, and has not committed yet."""

    def __init__(self, worker: Worker, *, slots: int) -> None:
        super().__init__(daemon=True)
        self.chosen = threading.Event()
        self.commit = threading.Event()
        self.given: set[str] = set()
        self._worker = worker
        self._slots = slots

    def run(self) -> None:
        self.given = self._worker.world.do(self._work)

    def _work(self, tx: Tx) -> set[str]:
        agent, world = self._worker.agent, self._worker.world
        ask = claim.Ask(
            actor=self._worker.actor,
            agent_id=agent.id,
            incarnation=agent.incarnation,
            held=[],
            slots=self._slots,
            free=agent.total,
            heard=world.now,
            draining=False,
        )
        [answer] = claim.assign(tx, [ask], now=world.now)
        assert not isinstance(answer, MusterError)
        self.chosen.set()
        assert self.commit.wait(60)
        return {item.run.head.id for item in answer.claims}


def test_what_one_server_is_handing_out_another_passes_over(servers: tuple[World, World]) -> None:
    here, there = servers
    here.queue()
    waiting = {here.launch_one(values={"gpus": 1}) for _ in range(4)}
    slow = HandingOut(here.agent("a1"), slots=2)
    other = there.agent("a2", locality="host-2")
    slow.start()
    assert slow.chosen.wait(30)
    try:
        answer = other.poll(slots=2)  # while the first has not committed
    finally:
        slow.commit.set()
        slow.join(30)
    theirs = {item.run.head.id for item in answer.claims}
    assert len(slow.given) == len(theirs) == 2
    assert slow.given | theirs == waiting
