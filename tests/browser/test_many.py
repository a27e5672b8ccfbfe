"""A hundred thousand runs, a million lines: the page never holds still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from installation import Installation, until
from mainthread import traced
from muster.wire.runs import LaunchRequest

pytestmark = [pytest.mark.slow, pytest.mark.timed]

RUNS = 100_000
BATCH = 5000
LONGEST = 100.0  #: ms that one task of the page's thread may be on a processor
ROUNDS = 3  #: a neighbour on the processor slows down some of them; a page that is slow, all
SCREENS = ((1280, 800), (3840, 2160))


def roll(page: Page, selector: str, times: int) -> None:
    """Turn the wheel, as fast as it goes."""
    box: Any = page.locator(selector).bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    for _ in range(times):
        page.mouse.wheel(0, 2500)
        page.wait_for_timeout(16)


def assert_smooth(what: str, page: Page, show: Callable[[], None], use: Callable[[], None]) -> None:
    for _ in range(ROUNDS):
        show()
        with traced(page) as thread:
            use()
        print(f"{what}: {thread.told()}")
        if thread.longest.cpu < LONGEST:
            return
    pytest.fail(f"{what}: above {LONGEST:.0f} ms in each of {ROUNDS} rounds")


@pytest.fixture(scope="module")
def many(muster: Installation) -> Installation:
    client = muster.client()
    client.pause_queue("local")
    for start in range(0, RUNS, BATCH):
        launches = [
            LaunchRequest(command=["true"], name=f"run-{n}", project=f"p{n % 7}")
            for n in range(start, start + BATCH)
        ]
        client.launch_batch(launches)
    return muster


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_a_hundred_thousand_runs_scroll_and_filter_smoothly(
    many: Installation, page: Page, screen: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": screen[0], "height": screen[1]})

    def show() -> None:
        page.goto("/runs")
        expect(page.locator(".run-name").first).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()

    def use() -> None:
        roll(page, ".run-list", 120)
        until(lambda: page.locator(".run-list").evaluate("e => e.scrollTop") > 50_000, what="scrolled")
        page.keyboard.press("/")
        page.keyboard.type("run-4242", delay=30)
        expect(page.locator(".run-name")).to_have_count(11)
        page.get_by_label("Filter by name").fill("")
        expect(page.locator(".run-name")).not_to_have_count(11)
        for column, first in (("Name", ["run-0", "run-1", "run-10", "run-100"]), ("Launched", ["run-99999"])):
            page.get_by_role("columnheader", name=column).get_by_role("button").click()
            for at, name in enumerate(first):  # among all of them, not only those that are loaded
                expect(page.locator(".run-name").nth(at)).to_have_text(name)
        page.get_by_role("columnheader", name="Launched").get_by_role("button").click()
        expect(page.locator(".run-name").first).to_have_text("run-0")

    assert_smooth(f"{RUNS} runs at {screen[0]} × {screen[1]}", page, show, use)


def test_a_million_lines_scroll_smoothly(muster: Installation, page: Page) -> None:
    muster.client().resume_queue("local")
    run = muster.launch(
        ["sh", "-c", "seq -f 'step %.0f of a million, and some words to fill the line' 1000000"],
        name="million",
        priority="critical",
    )
    run.wait(120)

    def show() -> None:
        page.goto(f"/runs/{run.id}?tab=logs")
        expect(page.get_by_text("1,000,000 lines")).to_be_visible()

    def use() -> None:
        roll(page, ".log", 120)
        page.get_by_role("button", name="To the end").click()
        expect(page.get_by_text("step 1000000 of a million")).to_be_visible()
        page.get_by_label("Search the log").fill("step 654321 of")
        expect(page.locator(".log-line.marked")).to_contain_text("step 654321 of a million")

    assert_smooth("a million lines", page, show, use)
