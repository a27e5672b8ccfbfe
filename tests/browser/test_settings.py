"""Keys, teams and members in the web app; and what a viewer may not do."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from accessibility import check_accessible
from browser.hands import SCREENSHOTS
from installation import Installation
from muster.domain.access import Role
from muster.wire.accounts import RoleRequest, UserRequest


def answers_to(muster: Installation, key: str) -> int:
    answer = httpx.get(f"{muster.url}/api/v1/runs", headers={"Authorization": f"Bearer {key}"})
    return answer.status_code


def test_a_key_is_made_shown_once_and_revoked(muster: Installation, page: Page) -> None:
    page.goto("/runs")
    page.get_by_role("button", name="Account of").click()
    expect(page.get_by_role("menuitem", name="API reference")).to_be_visible()
    page.get_by_role("menuitem", name="Settings").click()
    page.get_by_label("Label").fill("my laptop")
    page.get_by_role("button", name="Make a key").click()
    key = page.locator(".made code").inner_text()
    assert answers_to(muster, key) == 200
    page.reload()
    expect(page.get_by_role("table", name="API keys")).to_contain_text("my laptop")
    expect(page.get_by_text(key)).to_have_count(0)
    page.get_by_role("button", name="Revoke my laptop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("button", name="Revoke my laptop")).to_have_count(0)
    assert answers_to(muster, key) == 401


def test_a_team_gets_members_and_their_roles_change(muster: Installation, page: Page) -> None:
    page.goto("/settings")
    page.get_by_label("New user").fill("eve")
    page.get_by_role("button", name="Add the user").click()
    expect(page.locator(".made")).to_contain_text("The first key of eve")
    page.get_by_label("New team").fill("no name")
    page.get_by_role("button", name="Make the team").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a valid")
    page.get_by_label("New team").fill("vision")
    page.get_by_role("button", name="Make the team").click()
    team = page.locator(".team").filter(has=page.get_by_role("heading", name="vision"))
    team.get_by_label("Add to vision").fill("eve")
    team.get_by_role("button", name="Add").click()
    expect(team.get_by_label("Role of eve")).to_have_value("member")
    team.get_by_label("Role of eve").select_option("viewer")
    page.reload()
    expect(team.get_by_label("Role of eve")).to_have_value("viewer")
    assert muster.client().get_entity("vision").members["eve"] == "viewer"
    team.get_by_role("button", name="Remove eve from vision").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(team.get_by_label("Role of eve")).to_have_count(0)


def test_a_viewer_looks_and_is_told_how_to_launch(muster: Installation, page: Page) -> None:
    client = muster.client()
    owner = client.get_me().default_entity
    key = client.create_user(UserRequest(name="vera")).key
    client.set_member(owner, "vera", RoleRequest(role=Role.VIEWER))
    run = muster.launch(["sleep", "300"], name="not-hers")
    page.context.set_extra_http_headers({"Authorization": f"Bearer {key}"})
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("heading", name="not-hers")).to_be_visible()
    for name in ("Stop", "Rerun", "Clone"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.keyboard.press("l")
    expect(page.locator(".launch-drawer")).to_contain_text("You may look, not launch")
    run.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_settings_are_accessible_and_fit_every_screen(muster: Installation, page: Page, scheme: Any) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto("/settings")
    expect(page.get_by_role("table", name="API keys")).to_be_visible()
    check_accessible(page)
    for width, height in ((380, 800), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=SCREENSHOTS / f"settings-{scheme}-{width}.png")
        assert not page.locator(".page").evaluate("e => e.scrollWidth > e.clientWidth + 1")
