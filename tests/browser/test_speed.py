"""How fast the app is where people feel it: loading, holding still, telling what changed.

Time on a processor is asserted where it can be, so that a busy machine fails nothing; `-s` shows the figures.
"""

from __future__ import annotations

import gzip
import re
import statistics
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.hands import hold
from installation import Installation
from mainthread import traced
from screens import SCREENS, furnished, open_screen

pytestmark = pytest.mark.timed

FIRST_JS = 250_000  #: bytes, compressed
THROTTLE = 4
LOADS = 5
FIRST_PAINT, INTERACTIVE = 1000.0, 1500.0  #: ms of CPU, warm, on a processor a quarter as fast
JUMPS = 0.01  #: cumulative layout shift; 0.1 is what browsers call good
SEEN_IN = 0.3  #: s from the server's knowing to the screen
CHANGES = 15

_PAINTED = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  const [first] = list.getEntriesByName("first-contentful-paint");
  if (first) resolve(first.startTime);
}).observe({ type: "paint", buffered: true }))"""
_WATCH_JUMPS = """
window.jumps = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    const of = entry.sources.map(({ node }) => node?.className ?? node?.nodeName ?? "?");
    window.jumps.push({ value: entry.value, of: of.join(" ") });
  }
}).observe({ type: "layout-shift", buffered: true });
"""
_SEEN = """({ id, word }) => {
  window.seen = new Promise((resolve) => {
    const look = () => {
      const row = document.querySelector(`a[href="/runs/${id}"]`)?.closest("[role=row]");
      if (row?.textContent.includes(word)) resolve(Date.now() / 1000);
    };
    const all = { childList: true, subtree: true, characterData: true };
    new MutationObserver(look).observe(document.body, all);
    look();
  });
}"""


def test_the_first_script_is_small_as_it_is_sent(muster: Installation) -> None:
    with httpx.Client(base_url=muster.url, headers={"Accept-Encoding": "gzip"}) as client:
        page = client.get("/runs")
        assert page.headers["content-encoding"] == "gzip"
        paths = re.findall(r'(?:src|href)="(/[^"]+\.js)"', page.text)
        assert len(paths) > 1
        sent = 0
        for path in paths:
            with client.stream("GET", path) as answer:
                raw = b"".join(answer.iter_raw())
            sent += len(raw)
            if answer.headers.get("content-encoding") == "gzip":
                assert gzip.decompress(raw)
            else:
                assert len(raw) < 1000, f"{path} is sent as it is"
    print(f"first script: {sent / 1000:.0f} kB in {len(paths)} files")
    assert sent <= FIRST_JS


def test_a_warm_load_paints_and_answers_at_once_on_a_slow_processor(
    muster: Installation, chromium: Browser
) -> None:
    for n in range(30):
        muster.launch(["true"], name=f"warm-{n}", project="warm")
    context = chromium.new_context(base_url=muster.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    for _ in range(2):  # the files are kept, the code is compiled
        page.goto("/runs")
        expect(page.locator(".run-name").first).to_be_visible()
    # Chromium's own throttle spins by the clock on the wall, so that other work on the machine slows the page
    # down twice. Work is work: here it is multiplied. The best of some loads is the page's own.
    loads = [_load(page) for _ in range(LOADS)]
    context.close()
    painted, to_paint, to_answer = (min(figures) for figures in zip(*loads, strict=True))
    print(
        f"warm load: painted after {painted:.0f} ms by the clock; on a processor {THROTTLE} × slower "
        f"{to_paint:.0f} ms of work until then, {to_answer:.0f} ms until a key was answered"
    )
    assert to_paint <= FIRST_PAINT
    assert to_answer <= INTERACTIVE


def test_the_runs_are_asked_for_before_it_is_known_who_looks(muster: Installation, page: Page) -> None:
    muster.launch(["true"], name="asked-early", project="early")
    answer = hold(page, "/api/v1/me")
    with page.expect_response(lambda response: "/api/v1/runs?project=early" in response.url):
        page.goto("/runs?project=early")
    expect(page.locator(".sidebar")).to_be_visible()
    expect(page.locator(".run-name")).to_have_count(0)
    answer()
    expect(page.locator(".run-name")).to_have_text("asked-early")


def _load(page: Page) -> tuple[float, float, float]:
    """ms by the clock until it painted, of slowed work until then, and until it answered a key."""
    with traced(page) as thread:
        page.goto("/runs", wait_until="commit")
        painted: float = page.evaluate(_PAINTED)
        expect(page.locator(".run-name").first).to_be_visible()
        page.keyboard.press("j")
        expect(page.locator(".run-line.current")).to_be_visible()
    work = sum(task.cpu for task in thread.tasks)
    return painted, THROTTLE * thread.cpu_before("firstContentfulPaint"), THROTTLE * work


@pytest.fixture(scope="module")
def words(muster: Installation) -> dict[str, str]:
    return furnished(muster)


@pytest.mark.parametrize("name", SCREENS)
def test_nothing_jumps_while_a_screen_loads(
    muster: Installation, page: Page, words: dict[str, str], name: str
) -> None:
    page.add_init_script(_WATCH_JUMPS)
    open_screen(page, name, words)
    page.evaluate("() => new Promise((done) => requestIdleCallback(done, { timeout: 3000 }))")
    jumps: list[dict[str, Any]] = page.evaluate("window.jumps")
    total = sum(jump["value"] for jump in jumps)
    print(f"layout shift of {name}: {total:.4f}")
    assert total < JUMPS, jumps


def test_a_change_is_on_the_screen_at_once(muster: Installation, page: Page) -> None:
    """Changes that the server itself makes, so that its clock says when it knew."""
    client = muster.client()
    client.pause_queue("local")
    page.goto("/runs?project=prompt")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    came, changed = [], []
    for n in range(CHANGES):
        run = muster.launch(["true"], name=f"prompt-{n}", project="prompt")
        page.evaluate(_SEEN, {"id": run.id, "word": "Queued"})
        came.append(page.evaluate("window.seen") - client.get_run(run.id).created_at.timestamp())
        page.evaluate(_SEEN, {"id": run.id, "word": "Stopped"})
        run.stop()
        at = page.evaluate("window.seen")
        told = [event for event in client.list_run_events(run.id).items if event.data.get("to") == "stopped"]
        changed.append(at - told[0].at.timestamp())
    client.resume_queue("local")
    for what, took in (("a new run", came), ("a new state", changed)):
        worst = sorted(took)[int(len(took) * 0.95)]
        print(f"{what}: {statistics.median(took) * 1000:.0f} ms (median), {worst * 1000:.0f} ms (p95)")
    assert statistics.median(changed) <= SEEN_IN
    assert statistics.median(came) <= SEEN_IN
