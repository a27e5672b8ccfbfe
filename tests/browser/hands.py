"""What a hand does again and again in the web app."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, Route, expect

from installation import MUSTER, Installation, until

#: Pictures for people to look at; made anew by every run of these tests.
SCREENSHOTS = Path(__file__).parents[2] / ".web" / "screenshots"
SCHEMES = ("light", "dark")


def state(page: Page) -> Locator:
    return page.locator(".run-title .state")


def confirm(page: Page, action: str) -> None:
    """Presses a button, and again in the question that comes."""
    page.get_by_role("button", name=action, exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name=action, exact=True).click()


def queue_drawer(page: Page) -> Locator:
    return page.get_by_role("dialog", name=re.compile("Create queue|Edit "))


def launch_drawer(page: Page) -> Locator:
    return page.locator(".launch-drawer")


def unfold(form: Locator, title: str) -> None:
    part = form.locator("details").filter(has=form.page.get_by_role("heading", name=title, exact=True))
    if part.get_attribute("open") is None:
        part.locator("summary").click()


def write_config(page: Page, text: str) -> None:
    """Into the editor of a queue, in place of what is there."""
    page.get_by_role("textbox", name="Configuration as YAML or JSON").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def launched(page: Page) -> str:
    """The id of the run whose page this is, once it is there."""
    expect(launch_drawer(page)).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/runs/[a-z0-9]{10}$"))
    return page.url.rsplit("/", 1)[1]


def picture(page: Page, name: str, scheme: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")


def hold(page: Page, part: str) -> Callable[[], None]:
    """Questions with this in their address get no answer until the returned function is called."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    def release() -> None:
        until(lambda: page.evaluate("true") and held, what=f"a question with {part}")
        while held:
            held.pop().continue_()

    page.route(lambda url: part in url, keep)
    return release


@contextmanager
def agent_for(muster: Installation, queue: str, folder: Path) -> Iterator[str]:
    """An agent as the page of a new queue says to start one. Its name."""
    name = f"agent-of-{queue}"
    log = (folder / f"{name}.log").open("wb")
    command = [*MUSTER, "agent", "--queue", queue, "--name", name, "--data-dir", str(folder / name)]
    process = subprocess.Popen(command, env=muster.env, stdout=log, stderr=log)
    try:
        until(lambda: muster.client().get_queue(queue).agents_online, what=f"an agent for {queue}")
        yield name
    finally:
        process.terminate()
        process.wait(30)
        log.close()
