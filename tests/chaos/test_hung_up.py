"""An agent that was killed while its request for work was held."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.fleet import Fleet
from installation import until
from muster.client.sync import Client
from muster.wire.agents import AgentRequest, PollRequest
from muster.wire.base import PROTOCOL, PROTOCOL_HEADER
from muster.wire.runs import LaunchRequest, ResourcesModel

INCARNATION = "0123456789abcdef"
ALL = ResourcesModel(millicpus=2000, memory=2**30)
FREE = ResourcesModel(millicpus=1000, memory=2**30)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path)
    try:
        made.set_up(agents=0)
        yield made
    finally:
        made.tear_down()


def test_a_run_is_not_given_to_an_agent_that_hung_up(fleet: Fleet) -> None:
    with fleet.client() as client:
        me = client.register_agent(
            AgentRequest(
                name="a1",
                incarnation=INCARNATION,
                engine="process",
                host="h",
                locality="l",
                version="0",
                max_jobs=9,
                total=ALL,
                devices=[],
                queues=["local"],
            )
        ).id
        ask = PollRequest(incarnation=INCARNATION, held=[], slots=9, free=FREE, wait=5)
        hang_up(fleet, client, f"/api/v1/agents/{me}/poll", ask)
        client.launch(LaunchRequest(command=["true"]))
        (claim,) = client.poll_work(me, ask).claims
        assert not claim.adopt, "it had been given to the request that was dropped"


def hang_up(fleet: Fleet, client: Client, path: str, ask: PollRequest) -> None:
    """Ask for work, and end the connection once the request is held."""
    connection = http.client.HTTPConnection("127.0.0.1", int(client.url.rsplit(":", 1)[1]))
    headers = {
        "Authorization": f"Bearer {fleet.env['MUSTER_API_KEY']}",
        "Content-Type": "application/json",
        PROTOCOL_HEADER: PROTOCOL,
    }
    connection.request("POST", path, json.dumps(ask.model_dump(mode="json")), headers)
    until(lambda: client.list_agents().items[0].free == ask.free, what="the request to be heard")
    connection.close()
