"""What axe finds wrong with a page: nothing, or the test fails and says what."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_AXE = Path(__file__).parent.parent / "web/node_modules/axe-core/axe.min.js"
#: WCAG 2.2 AA and all before it, and what axe's authors hold to be good practice
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_SETTLE = """() => Promise.all(
  document.getAnimations()
    .filter((one) => one.effect?.getComputedTiming().endTime !== Infinity)
    .map((one) => one.finished.catch(() => null)),
).then(() => null)"""
_LOOK = """async (tags) => {
  const found = await axe.run(document, { runOnly: { type: "tag", values: tags } });
  return found.violations.map(({ id, help, nodes }) => ({
    id, help, nodes: nodes.slice(0, 5).map((node) => ({ html: node.html, why: node.failureSummary })),
  }));
}"""


@cache
def _source() -> str:
    return _AXE.read_text("utf-8")


def check_accessible(page: Page) -> None:
    """Look once nothing moves any more: what fades in has not its colours yet."""
    page.evaluate(_SETTLE)
    page.evaluate(_source())
    violations: list[dict[str, Any]] = page.evaluate(_LOOK, _RULES)
    assert not violations, "\n".join(map(_told, violations))


def _told(one: dict[str, Any]) -> str:
    nodes = "\n".join(f"  {node['html']}\n  {node['why']}" for node in one["nodes"])
    return f"{one['id']}: {one['help']}\n{nodes}"
