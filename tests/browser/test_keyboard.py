"""Without a mouse: every step of a day by keys, and one always sees where one is."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from browser.hands import hold, launch_drawer, state
from installation import Installation, until

#: Where the focus is, and whether it can be seen there: by an outline, a ring, or another border.
FOCUS = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body) return null;
  const look = getComputedStyle(at);
  const seen = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0;
  return { tag: at.tagName, name: at.getAttribute("aria-label") ?? at.textContent?.trim() ?? "",
    visible: seen || look.boxShadow !== "none" || look.borderColor !== "rgba(0, 0, 0, 0)",
    inView: at.getBoundingClientRect().width > 0 };
}"""


def tab_through(page: Page, times: int) -> list[str]:
    """Presses Tab; every stop is on something, and shows it."""
    names: list[str] = []
    for _ in range(times):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUS)
        assert at is not None, f"the focus is lost after {names}"
        assert at["visible"], at
        assert at["inView"], at
        names.append(at["name"] or at["tag"])
    return names


def holds_focus(overlay: Locator) -> bool:
    """At its ends are unseen stops from which the focus goes round, a moment later."""
    return bool(overlay.evaluate("e => e.contains(document.activeElement)"))


def test_a_day_by_keys_alone(muster: Installation, page: Page) -> None:
    for name in ("one", "two", "three"):
        muster.launch(["sh", "-c", f"echo I am {name}"], name=f"keys-{name}", project="keys").wait(60)
    page.goto("/agents")
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()

    # the palette leads to the runs
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Command palette")).to_be_focused()
    page.keyboard.type("runs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("keys-")
    expect(page).to_have_url(re.compile("q=keys-"))  # another list has no line that was walked to
    expect(page.locator(".run-name")).to_have_count(3)
    page.keyboard.press("Escape")

    # j and k walk, Enter opens
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    expect(page.locator(".run-line.current")).to_contain_text("keys-two")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="keys-two")).to_be_visible()

    # the tabs by number, and by arrows
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="Logs")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("log")).to_contain_text("I am two")
    page.get_by_role("tab", name="Logs").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")

    # a launch
    page.keyboard.press("Tab")
    page.keyboard.press("l")
    expect(launch_drawer(page).get_by_role("textbox", name="Command")).to_be_focused()
    page.keyboard.type("echo by keys")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(r"/runs/[a-z0-9]{10}$"))
    expect(state(page)).to_have_text("Succeeded")
    expect(launch_drawer(page)).to_have_count(0)  # while it goes, keys are still its own
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()


def test_the_palette_goes_where_the_typed_words_lead(muster: Installation, page: Page) -> None:
    """Enter comes before the server has said what matches: it waits, and takes nothing of before."""
    for name in ("apple", "banana"):
        muster.launch(["true"], name=f"fruit-{name}", project="palette").wait(60)
    answer = hold(page, "/runs?limit=8&text=fruit-a")
    page.goto("/agents")
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("fruit-")
    first = page.get_by_role("option").first
    expect(first).to_contain_text("fruit-banana")  # the newest
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    expect(page.get_by_role("listbox")).to_have_attribute("aria-busy", "true")
    expect(page).to_have_url(re.compile("/agents$"))
    answer()
    expect(page.get_by_role("heading", name="fruit-apple")).to_be_visible()
    expect(page.get_by_role("listbox")).to_have_count(0)

    # and what was picked among the entries of before is not taken for what matches
    page.goto("/agents")
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("fruit-")
    expect(first).to_contain_text("fruit-banana")
    page.keyboard.type("a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    answer()
    expect(first).to_contain_text("fruit-apple")
    expect(page).to_have_url(re.compile("/agents$"))


def test_the_focus_is_seen_and_never_lost(muster: Installation, page: Page) -> None:
    muster.launch(["true"], name="focus").wait(60)
    for path, stops in (("/runs", 20), ("/queues/local", 16), ("/cluster", 10), ("/settings", 20)):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        first = tab_through(page, stops)
        assert first[0] == "Skip to content"
        assert len(set(first)) > 6, first


def test_the_first_stop_skips_to_the_content(muster: Installation, page: Page) -> None:
    page.goto("/queues")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()


def test_a_dialog_keeps_the_focus_and_gives_it_back(muster: Installation, page: Page) -> None:
    run = muster.launch(["sleep", "600"], name="asked")
    page.goto(f"/runs/{run.id}")
    stop = page.get_by_role("button", name="Stop")
    stop.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        until(lambda: holds_focus(dialog), what="the focus is in the dialog")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(stop).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    run.stop()


def test_the_launch_drawer_keeps_the_focus_and_gives_it_back(muster: Installation, page: Page) -> None:
    page.goto("/queues")
    launch = page.get_by_role("button", name="Launch", exact=True)
    launch.focus()
    page.keyboard.press("Enter")
    drawer = launch_drawer(page)
    expect(drawer.get_by_role("textbox", name="Command")).to_be_focused()
    for _ in range(25):
        page.keyboard.press("Tab")
        until(lambda: holds_focus(drawer), what="the focus is in the drawer")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(launch).to_be_focused()
