"""Every screen from a telephone to a wall, in both colour schemes.

Pictures of all are left in `.web/screenshots/SCREEN-WIDTH-SCHEME.png` for people to look at.
"""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from browser.hands import SCREENSHOTS
from installation import Installation
from screens import SCREENS, furnished, open_screen

SIZES = ((380, 760), (768, 1024), (1440, 900), (3840, 2160))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Controls that stick out of the window, are cut off by what is around them, or narrower than their words
_WRONG = """() => {
  const wrong = [];
  const name = (e) => `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 30)}`;
  const controls = "button, a[href], input:not([type=hidden]), select, textarea, [role=tab], [role=combobox]";
  for (const control of document.querySelectorAll(controls)) {
    if (!control.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const box = control.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || control.closest(".skip, .cm-editor, [inert]")) continue;
    let scrolls = false;
    for (let around = control.parentElement; around && !scrolls; around = around.parentElement) {
      const style = getComputedStyle(around);
      scrolls = /auto|scroll/.test(style.overflowX) && around.scrollWidth > around.clientWidth;
      if (scrolls || !/hidden|clip/.test(style.overflowX)) continue;
      const edge = around.getBoundingClientRect();
      if (edge.width > 2 && (box.right > edge.right + 1 || box.left < edge.left - 1))
        wrong.push(`cut off: ${name(control)}`);
    }
    if (scrolls) continue;
    if (box.right > innerWidth + 1 || box.left < -1) wrong.push(`outside: ${name(control)}`);
    const cuts = [control, ...control.querySelectorAll("*")].some(
      (e) => getComputedStyle(e).textOverflow === "ellipsis");
    if (control.tagName === "BUTTON" && !cuts && control.scrollWidth > control.clientWidth + 2)
      wrong.push(`too narrow: ${name(control)}`);
  }
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) wrong.push(`the page is ${over} px too wide`);
  const list = document.querySelector(".run-list");
  if (list && list.scrollWidth > list.clientWidth) wrong.push("the list of runs scrolls sideways");
  const content = document.querySelector(".page");
  if (content && content.scrollWidth > content.clientWidth + 1)
    wrong.push(`its content is ${content.scrollWidth - content.clientWidth} px too wide`);
  return wrong;
}"""
_SETTLED = """() => Promise.all(document.getAnimations()
  .filter((one) => one.effect?.getComputedTiming().endTime !== Infinity)
  .map((one) => one.finished.catch(() => null))).then(() => new Promise(requestAnimationFrame))"""


@pytest.fixture(scope="module")
def words(muster: Installation) -> dict[str, str]:
    return furnished(muster)


def test_the_chosen_tab_is_in_sight_on_a_telephone(
    muster: Installation, page: Page, words: dict[str, str]
) -> None:
    page.set_viewport_size({"width": 380, "height": 760})
    open_screen(page, "run-manifest", words)
    expect(page.get_by_role("tab", name="Manifest")).to_be_in_viewport(ratio=1)
    page.keyboard.press("1")
    expect(page.get_by_role("tab", name="Overview")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_every_window(
    muster: Installation, page: Page, words: dict[str, str], name: str
) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    open_screen(page, name, words)
    wrong = []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.evaluate(_SETTLED)
            page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png")
        wrong += [f"{width}: {fault}" for fault in page.evaluate(_WRONG)]
    assert not wrong
