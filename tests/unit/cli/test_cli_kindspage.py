from __future__ import annotations

from pathlib import Path

from muster.cli import kindspage

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "kinds.md"


def test_the_page_about_kinds_is_current() -> None:
    assert PAGE.read_text("utf-8") == kindspage.page(), (
        "Run: python -m muster.cli.kindspage docs/reference/kinds.md"
    )
