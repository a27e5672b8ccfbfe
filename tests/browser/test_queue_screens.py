"""The screens of queues and agents: accessible, in both colour schemes, on small and large displays.

Pictures of them are left in `.web/screenshots` for people to look at.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from accessibility import check_accessible
from browser.hands import SCREENSHOTS
from installation import Installation, until
from muster.wire.queues import QueueEdit, QueueRequest

SIZES = {"phone": (380, 760), "laptop": (1280, 800), "large": (3840, 2160)}
VARIABLES = {
    "gpus": {"type": "integer", "default": 0, "minimum": 0, "maximum": 4, "description": "GPUs of each node"},
    "dataset": {"type": "string", "default": "tiny", "choices": ["tiny", "full"]},
}
CONFIG = {"resources": {"gpus": "{{gpus}}"}, "env": {"DATASET": "{{dataset}}"}}


@pytest.fixture(scope="module")
def lab(muster: Installation) -> str:
    """A queue with versions and a line, and a machine at work. Returns the agent's name."""
    client = muster.client()
    client.create_queue(QueueRequest(name="lab", config=CONFIG, variables=VARIABLES))
    client.edit_queue("lab", QueueEdit.model_validate({"limits": {"runs": 8, "gpus": 4}, "order": "fifo"}))
    for name in ("resnet-50", "vit-large", "unet", "a-run-with-a-name-that-is-rather-long-and-goes-on"):
        muster.launch(["true"], queue="lab", name=name, values={"gpus": 1})
    busy = [muster.launch(["sleep", "600"], name=f"train-{n}", values={"gpus": 1}) for n in range(2)]
    until(lambda: all(run.state == "running" for run in busy), what="running")
    return client.list_agents().items[0].name


def _drawer(page: Page) -> None:
    page.get_by_role("button", name="Parse configuration").click()
    expect(page.get_by_label("Type of gpus")).to_be_visible()
    expect(page.get_by_role("region", name="The rendered object")).to_be_visible()
    page.get_by_text("Rules and limits").click()


def _nothing(page: Page) -> None:
    pass


#: name → address, what is on it when it is whole, what to do before it is looked at
PAGES: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "queues": ("/queues", "lab", _nothing),
    "queue": ("/queues/lab", "resnet-50", _nothing),
    "queue-usage": ("/queues/local?tab=usage", "GPUs in use", _nothing),
    "queue-agents": ("/queues/local?tab=agents", "Online", _nothing),
    "queue-config": ("/queues/lab?tab=config", "fair share|first in, first out", _nothing),
    "queue-versions": ("/queues/lab?tab=versions", "current", _nothing),
    "queue-create": ("/queues?create=new", "Parse configuration", _drawer),
    "agents": ("/agents", "Online", _nothing),
    "agent": ("/agents/{agent}", "Last words", _nothing),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_screen_is_accessible_in_both_schemes(
    muster: Installation, page: Page, lab: str, name: str, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    open_page(page, name, lab)
    check_accessible(page)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")


@pytest.mark.parametrize("size", ["phone", "large"])
@pytest.mark.parametrize("name", PAGES)
def test_a_screen_fits_a_phone_and_a_wall(
    muster: Installation, page: Page, lab: str, name: str, size: str
) -> None:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})
    open_page(page, name, lab)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}-{size}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def open_page(page: Page, name: str, agent: str) -> None:
    address, shows, prepare = PAGES[name]
    page.goto(address.format(agent=agent))
    found = shows.split("|")
    expect(page.get_by_text(found[-1]).first).to_be_visible()
    prepare(page)
