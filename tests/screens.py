"""Every screen of the web app, with something on each."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Page, expect

from installation import Installation, until
from muster.wire.jobs import JobRequest
from muster.wire.queues import QueueRequest

_CONFIG = {"resources": {"gpus": "{{gpus}}"}}
_VARIABLES = {"gpus": {"type": "integer", "default": 0, "minimum": 0, "maximum": 4, "description": "each"}}
_FAILS = "for i in $(seq 300); do echo line $i; done; python3 -c \"raise ValueError('lr is nan')\""
_LONG = "a-run-with-a-name-that-is-rather-long-and-goes-on-to-the-limit-x"


@dataclass(frozen=True, kw_only=True)
class Screen:
    address: str
    shows: str  #: a selector of what is there when it has loaded


SCREENS = {
    "runs": Screen(address="/runs", shows=".run-name"),
    "runs-none": Screen(address="/runs?q=no-such-run", shows="h2, h3"),
    "run-overview": Screen(address="/runs/{failed}", shows="[aria-label='Why it failed']"),
    "run-waits": Screen(address="/runs/{waits}", shows="[aria-label='Why it waits']"),
    "run-replicas": Screen(address="/runs/{running}?tab=replicas", shows="tbody tr"),
    "run-logs": Screen(address="/runs/{failed}?tab=logs", shows=".log-line"),
    "run-resources": Screen(address="/runs/{running}?tab=resources", shows=".run-title"),
    "run-events": Screen(address="/runs/{failed}?tab=events", shows=".of-events li, .of-events tr"),
    "run-manifest": Screen(address="/runs/{failed}?tab=manifest", shows=".of-manifest [role=region]"),
    "compare": Screen(address="/compare?runs={failed},{running}", shows="table"),
    "queues": Screen(address="/queues", shows="tbody tr"),
    "queue": Screen(address="/queues/lab", shows="h1"),
    "queue-usage": Screen(address="/queues/local?tab=usage", shows=".uplot"),
    "queue-agents": Screen(address="/queues/local?tab=agents", shows="tbody tr"),
    "queue-config": Screen(address="/queues/lab?tab=config", shows="h1"),
    "queue-versions": Screen(address="/queues/lab?tab=versions", shows="h1"),
    "queue-create": Screen(address="/queues?create=new", shows=".cm-content"),
    "launch": Screen(address="/runs?launch=new", shows=".launch-drawer"),
    "jobs": Screen(address="/jobs", shows="tbody tr"),
    "job": Screen(address="/{entity}/shelf/jobs/trainer", shows="tbody tr"),
    "agents": Screen(address="/agents", shows="tbody tr"),
    "agent": Screen(address="/agents/{agent}", shows="h1"),
    "settings": Screen(address="/settings", shows="table"),
    "nothing": Screen(address="/no/such/page/at/all", shows="h1, h2, h3"),
}


def furnished(muster: Installation) -> dict[str, str]:
    """Something to show on every screen; the words that stand in the addresses."""
    client = muster.client()
    client.create_queue(QueueRequest(name="lab", config=_CONFIG, variables=_VARIABLES))
    client.create_job(JobRequest(name="trainer", project="shelf", image="acme/train:1", command=["train.py"]))
    failed = muster.launch(["sh", "-c", _FAILS], name="fails", config={"lr": 0.1, "optimizer": "adamw"})
    failed.wait(60)
    running = muster.launch(
        ["sh", "-c", "echo hello; sleep 900"], name=_LONG, training={"nodes": 2}, config={"lr": 0.2}
    )
    waits = muster.launch(["true"], queue="lab", name="waits", values={"gpus": 1})
    until(lambda: running.state == "running", what="running")
    return {
        "failed": failed.id,
        "running": running.id,
        "waits": waits.id,
        "agent": client.list_agents().items[0].name,
        "entity": client.get_me().default_entity,
    }


def open_screen(page: Page, name: str, words: dict[str, str]) -> None:
    """Returns when it shows what it is for."""
    screen = SCREENS[name]
    page.goto(screen.address.format(**words))
    expect(page.locator(screen.shows).first).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_attached()
