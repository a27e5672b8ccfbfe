"""Nothing that a run says becomes part of the page, and nothing of the page goes elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from installation import Installation
from muster.wire.queues import QueueRequest
from screens import SCREENS, furnished, open_screen

MARKUP = (
    '<img src=x onerror="window.pwned=1"></script><script>window.pwned=1</script>'
    "<svg onload='window.pwned=1'>"
)
LINK = "javascript:window.pwned=1//"
BIDI = "\u202egnp.exe\u2066 \u200f"
ESCAPES = (
    f"\x1b]8;;{LINK}\x1b\\click\x1b]8;;\x1b\\ \x1b]0;pwned\x07"
    "\x1b[2J\x1b[999;999H\x1b[31;1mred\x9b\x1b[0m\x00nul"
)
LONG = "x" * 300_000
LINES = (MARKUP, ESCAPES, BIDI, LINK, LONG, "the last line")
TABS = ("overview", "replicas", "logs", "resources", "events", "manifest")
_FOUND = """() => ({
  pwned: window.pwned ?? null,
  elements: document.querySelectorAll("img, iframe, object, embed, script:not([src]), style, base").length,
  links: [...document.links].map((link) => link.href).filter((href) => !href.startsWith(location.origin)),
  wide: document.documentElement.scrollWidth - innerWidth,
})"""
CLEAN: dict[str, object] = {"pwned": None, "elements": 0, "links": [], "wide": 0}


@pytest.fixture(scope="module")
def words(muster: Installation) -> dict[str, str]:
    return furnished(muster)


@pytest.fixture(scope="module")
def hostile(muster: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with all of it in its command, inputs, environment, output and last words. Its id."""
    said: Path = tmp_path_factory.mktemp("hostile") / "said"
    said.write_text("\n".join(LINES) + "\n")
    queue = QueueRequest(
        name="hostile",
        config={"env": {"NOTE": MARKUP, "CHOICE": "{{choice}}"}},
        variables={"choice": {"type": "string", "default": MARKUP, "description": MARKUP + BIDI}},
    )
    muster.client().create_queue(queue)
    script = f'cat {said}; cat {said} | head -3 >&2; echo "ValueError: $1" >&2; exit 3'
    run = muster.launch(
        ["sh", "-c", script, "sh", MARKUP + BIDI],
        name="hostile",
        config={MARKUP: MARKUP, "link": LINK, "bidi": BIDI},
        env={"HTML": MARKUP},
    )
    run.wait(60)
    muster.launch(["true", MARKUP], queue="hostile", name="waits-hostile")
    return run.id


@pytest.mark.parametrize("part", TABS)
def test_what_a_run_says_stays_text(muster: Installation, page: Page, hostile: str, part: str) -> None:
    page.goto(f"/runs/{hostile}?tab={part}")
    expect(page.locator(".run-title")).to_be_visible()
    if part == "logs":
        log = page.locator(".log-text")
        expect(log.first).to_have_text(MARKUP)
        expect(log.nth(1)).to_have_text("click rednul")
        page.get_by_role("button", name="To the end").click()
        expect(page.get_by_role("log")).to_contain_text("ValueError: <img")
    elif part == "overview":
        expect(page.get_by_role("region", name="Why it failed")).to_contain_text("onerror")
    elif part == "manifest":
        expect(page.get_by_role("region", name="The rendered manifest")).to_contain_text("onerror")
    assert page.evaluate(_FOUND) == CLEAN
    assert "pwned" not in page.title()


@pytest.mark.parametrize("part", ["line", "config", "versions"])
def test_what_a_queue_says_stays_text(muster: Installation, page: Page, hostile: str, part: str) -> None:
    page.goto(f"/queues/hostile?tab={part}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if part == "config":
        expect(page.get_by_text("onerror").first).to_be_visible()
    assert page.evaluate(_FOUND) == CLEAN


def test_a_launch_form_shows_a_hostile_queue_as_text(muster: Installation, page: Page, hostile: str) -> None:
    entity = muster.client().get_me().default_entity
    page.goto(f"/runs?launch=queue:{entity}/hostile")
    expect(page.get_by_label("choice")).to_have_attribute("placeholder", MARKUP)
    expect(page.locator(".launch-drawer")).to_contain_text("onerror")
    assert page.evaluate("window.pwned ?? null") is None
    assert page.locator("img").count() == 0


def test_an_address_and_a_search_stay_text(muster: Installation, page: Page) -> None:
    page.goto(f"/runs?q={MARKUP}&project={MARKUP}&user={LINK}")
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()
    assert page.evaluate(_FOUND) == CLEAN
    page.goto(f"/runs/{MARKUP.replace('/', '%2F')}")
    expect(page.get_by_role("alert").or_(page.get_by_role("heading", level=2)).first).to_be_visible()
    assert page.evaluate(_FOUND) == CLEAN


@pytest.mark.parametrize("name", SCREENS)
def test_no_request_of_a_screen_leaves_the_server(
    muster: Installation, page: Page, words: dict[str, str], name: str
) -> None:
    asked: set[str] = set()

    def note(request: Request) -> None:
        found = re.match(r"\w+:(//[^/]+)?", request.url)
        asked.add(found[0] if found else request.url)

    page.on("request", note)
    open_screen(page, name, words)
    page.evaluate("() => new Promise((done) => requestIdleCallback(done, { timeout: 2000 }))")
    assert asked == {muster.url}


def test_the_policy_is_strict_and_the_page_has_nothing_inline(muster: Installation, page: Page) -> None:
    answer = page.goto("/runs")
    assert answer is not None
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    text = answer.text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", text)


def test_the_browser_refuses_an_inline_script(muster: Installation, chromium_page: Page) -> None:
    """The policy holds even where something would get through."""
    chromium_page.goto(f"{muster.url}/runs")
    refused = chromium_page.evaluate(
        """() => new Promise((resolve) => {
          document.addEventListener("securitypolicyviolation", (e) => resolve(e.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.pwned = 1";
          document.body.append(script);
        })"""
    )
    assert refused == "script-src-elem"
    assert chromium_page.evaluate("window.pwned ?? null") is None


def test_answers_of_the_api_cannot_be_taken_for_pages(muster: Installation, page: Page, hostile: str) -> None:
    for path in (
        f"/api/v1/runs/{hostile}",
        f"/api/v1/runs/{hostile}/logs",
        f"/api/v1/runs/{hostile}/manifest",
    ):
        answer = page.request.get(path)
        kind = answer.headers["content-type"]
        assert "html" not in kind
        assert "json" in kind or answer.headers["x-content-type-options"] == "nosniff"
        if "json" in kind:
            json.loads(answer.body())
