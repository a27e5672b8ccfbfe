"""The connection is lost and comes back: what is on the screen catches up, nothing is missed or doubled."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, Page, Route, expect

from installation import Installation, until

LINES = 40
CAUGHT_UP = 60_000  #: ms; a deadline


def rows(page: Page, name: str) -> list[str]:
    """The states of the runs with this name, as the list shows them."""
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
    return row.locator(".cell.state").all_inner_texts()


def test_a_killed_server_costs_neither_a_line_nor_a_run(
    muster: Installation, tab: BrowserContext, page: Page
) -> None:
    counts = muster.launch(
        ["sh", "-c", f"for i in $(seq {LINES}); do echo line $i; sleep 0.4; done"], name="counts"
    )
    log, other = page, tab.new_page()
    log.set_viewport_size({"width": 1280, "height": 1200})
    log.goto(f"/runs/{counts.id}?tab=logs")
    other.goto("/runs")
    expect(log.get_by_role("log")).to_contain_text("line 2")
    for one in (log, other):
        expect(one.get_by_text("Live", exact=True)).to_be_visible()
    muster.kill_server()
    expect(other.get_by_text("Reconnecting…")).to_be_visible()
    muster.start()
    muster.launch(["sh", "-c", "exit 3"], name="after-the-kill")
    expect(log.locator(".run-title .state")).to_have_text("Succeeded", timeout=CAUGHT_UP)
    expect(log.get_by_text(f"{LINES} lines")).to_be_visible()
    assert log.locator(".log-text").all_inner_texts() == [f"line {n}" for n in range(1, LINES + 1)]
    until(lambda: rows(other, "after-the-kill") == ["Failed"], what="the new run, once")
    until(lambda: rows(other, "counts") == ["Succeeded"], what="the run that went on, once")
    assert other.get_by_role("alert").count() == 0


def test_what_happened_while_offline_is_there_afterwards_once(
    muster: Installation, tab: BrowserContext, page: Page
) -> None:
    waits = muster.launch(["sleep", "300"], name="before-offline")
    page.goto("/runs")
    until(lambda: rows(page, "before-offline") == ["Running"], what="running")
    tab.set_offline(True)
    waits.stop()
    muster.launch(["true"], name="while-offline").wait(60)
    until(lambda: waits.state == "stopped", what="stopped")
    tab.set_offline(False)
    until(lambda: rows(page, "while-offline") == ["Succeeded"], what="new")
    until(lambda: rows(page, "before-offline") == ["Stopped"], what="changed")


def test_after_a_gap_everything_is_read_again(muster: Installation, tab: BrowserContext, page: Page) -> None:
    """The cursor of another database is what a restored backup looks like: the server answers `resync`."""
    run = muster.launch(["sleep", "300"], name="in-the-gap")
    page.goto("/runs")
    until(lambda: rows(page, "in-the-gap") == ["Running"], what="running")
    asked: list[str] = []

    def mislead(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_(headers={**route.request.headers, "last-event-id": "99999999"})

    page.route("**/api/v1/events*", mislead)
    tab.set_offline(True)
    run.stop()
    until(lambda: run.state == "stopped", what="stopped")
    tab.set_offline(False)
    until(lambda: rows(page, "in-the-gap") == ["Stopped"], what="read again", seconds=60)
    assert asked


def test_two_tabs_show_the_same(muster: Installation, tab: BrowserContext, page: Page) -> None:
    other = tab.new_page()
    run = muster.launch(["sleep", "300"], name="in-two-tabs")
    page.goto(f"/runs/{run.id}")
    other.goto("/runs?q=in-two-tabs")
    until(lambda: rows(other, "in-two-tabs") == ["Running"], what="running")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    until(lambda: rows(other, "in-two-tabs") == ["Stopped"], what="stopped in the other tab")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/runs$"))
    until(lambda: rows(other, "in-two-tabs") == [], what="gone in the other tab")
