from __future__ import annotations

from pathlib import Path

from muster.cli import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_reference_is_current() -> None:
    assert PAGE.read_text("utf-8") == reference.page(), (
        "Run: python -m muster.cli.reference docs/reference/cli.md"
    )
