"""What axe finds wrong with a page: the rules of WCAG 2.2 A and AA, and good practice."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

SCRIPT = Path(__file__).parents[1] / "web" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} at ${target.join(" ")}: ${failureSummary}`));
}"""


def violations(page: Page) -> list[str]:
    """One text for each element that breaks a rule."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(SCRIPT.read_text())  # not as a script of the page, whose policy refuses it
    found: list[str] = page.evaluate(_RUN)
    return found
