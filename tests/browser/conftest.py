"""A real Muster with a real agent, and Chromium to click in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from installation import Installation
from muster.server.context import WEB_DIR

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 20_000  #: ms; a deadline, not a wait
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = (
        "no Chromium here (package chromium)"
        if CHROMIUM is None
        else "the web app is not built (make web)"
        if not (WEB_DIR / "index.html").exists()
        else None
    )
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for the tests of a module."""
    installation = Installation(tmp_path_factory.mktemp("muster"), env={"MUSTER_FAKE_GPUS": "4"})
    try:
        installation.start()
        yield installation
    finally:
        installation.destroy()


@pytest.fixture
def tab(chromium: Browser, muster: Installation) -> Iterator[BrowserContext]:
    """A fresh profile."""
    context = chromium.new_context(base_url=muster.url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(tab: BrowserContext) -> Iterator[Page]:
    """A page that may complain of nothing: no error, nothing that its policy refused."""
    page = tab.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    page.on(
        "requestfailed",
        lambda request: (
            complaints.append(f"{request.url}: {request.failure}") if "/assets/" in request.url else None
        ),
    )
    yield page
    assert not complaints


@pytest.fixture
def chromium_page(tab: BrowserContext) -> Page:
    """A page that may complain: for tests of what is refused."""
    return tab.new_page()
