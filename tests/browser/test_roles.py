"""Three people, one team: each sees the same runs, and may do as much as the role says. What the app does not
offer, the server refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.hands import confirm, state
from installation import Installation, until
from muster.domain.access import Role
from muster.wire.accounts import RoleRequest, UserRequest


@dataclass(frozen=True)
class Person:
    key: str
    muster: Installation

    def asks(self, method: str, path: str, body: object = None) -> int:
        answer = httpx.request(
            method,
            f"{self.muster.url}/api/v1{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.key}"},
        )
        return answer.status_code


@pytest.fixture(scope="module")
def team(muster: Installation) -> dict[str, Person]:
    client = muster.client()
    owner = client.get_me().default_entity
    people = {}
    for role in Role:
        name = f"{role.value}-one"
        people[role.value] = Person(client.create_user(UserRequest(name=name)).key, muster)
        client.set_member(owner, name, RoleRequest(role=role))
    return people


@pytest.fixture
def page_of(chromium: Browser, muster: Installation, team: dict[str, Person]) -> Iterator[object]:
    """Signs a person in, with the key, as one does from another machine."""
    contexts = []

    def sign_in(role: str) -> Page:
        context = chromium.new_context(base_url=muster.url, viewport={"width": 1280, "height": 800})
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        # On the machine of `muster up` its own account is signed in without a key: another is, with one.
        context.set_extra_http_headers({"Authorization": f"Bearer {team[role].key}"})
        page.goto("/runs")
        expect(page.get_by_role("button", name=f"Account of {role}-one")).to_be_visible()
        return page

    yield sign_in
    for context in contexts:
        context.close()


def test_each_role_is_offered_what_it_may_and_refused_the_rest(
    muster: Installation, team: dict[str, Person], page_of: object
) -> None:
    assert callable(page_of)
    client = muster.client()
    owner = client.get_me().default_entity
    run = muster.launch(["sleep", "600"], name="shared")
    until(lambda: run.state == "running", what="running")
    one = {"command": ["true"], "queue": "local", "entity": owner}
    new_queue = {"name": "mine", "config": {}, "entity": owner}

    # the viewer looks, at all of it, live
    viewer: Page = page_of("viewer")
    viewer.goto(f"/runs/{run.id}")
    expect(state(viewer)).to_have_text("Running")
    for name in ("Stop", "Rerun", "Clone", "Delete"):
        expect(viewer.get_by_role("button", name=name, exact=True)).to_have_count(0)
    viewer.goto("/runs?q=shared")
    viewer.get_by_role("checkbox", name="shared").check()
    bar = viewer.get_by_role("toolbar", name="1 selected")
    expect(bar.get_by_role("button", name="Compare")).to_be_visible()
    for name in ("Stop", "Rerun", "Delete"):
        expect(bar.get_by_role("button", name=name)).to_have_count(0)
    viewer.goto(f"/queues/local?entity={owner}")
    expect(viewer.get_by_role("heading", name="local")).to_be_visible()
    for name in ("Edit config", "Pause"):
        expect(viewer.get_by_role("button", name=name)).to_have_count(0)
    assert team["viewer"].asks("POST", f"/runs/{run.id}/stop") == 403
    assert team["viewer"].asks("POST", f"/runs/{run.id}/rerun", {}) == 403
    assert team["viewer"].asks("POST", "/launches", one) == 403
    assert team["viewer"].asks("POST", f"/queues/local/pause?entity={owner}") == 403

    # the member launches and stops, and leaves queues and agents alone
    member: Page = page_of("member")
    member.goto(f"/queues/local?entity={owner}")
    expect(member.get_by_role("heading", name="local")).to_be_visible()
    for name in ("Edit config", "Pause"):
        expect(member.get_by_role("button", name=name)).to_have_count(0)
    agent = client.list_agents().items[0].name
    member.goto(f"/agents/{agent}?entity={owner}")
    expect(member.get_by_role("heading", name=agent)).to_be_visible()
    expect(member.get_by_role("button", name="Pause")).to_have_count(0)
    assert team["member"].asks("POST", "/queues", new_queue) == 403
    assert team["member"].asks("POST", f"/agents/{agent}/pause?entity={owner}") == 403
    viewer.goto(f"/runs/{run.id}")
    member.goto(f"/runs/{run.id}")
    confirm(member, "Stop")
    expect(state(member)).to_have_text("Stopped")
    expect(state(viewer)).to_have_text("Stopped")  # without a touch

    # the admin does all of it
    admin: Page = page_of("admin")
    admin.goto(f"/queues/local?entity={owner}")
    admin.get_by_role("button", name="Pause").click()
    expect(state(admin)).to_have_text("Paused")
    admin.get_by_role("button", name="Resume").click()
    expect(state(admin)).to_have_text("Open")
    expect(admin.get_by_role("button", name="Edit config")).to_be_visible()
    assert team["admin"].asks("POST", "/queues", new_queue) == 201
    admin.goto("/settings")
    expect(admin.get_by_label(f"Add to {owner}")).to_be_visible()
    viewer.goto("/settings")
    expect(viewer.get_by_role("table", name="API keys")).to_be_visible()
    expect(viewer.get_by_label(f"Add to {owner}")).to_have_count(0)


def test_who_belongs_to_nobody_is_led_to_a_first_queue(muster: Installation, chromium: Browser) -> None:
    key = muster.client().create_user(UserRequest(name="newcomer")).key
    context = chromium.new_context(base_url=muster.url)
    context.set_default_timeout(20_000)
    context.set_extra_http_headers({"Authorization": f"Bearer {key}"})
    page = context.new_page()
    page.goto("/runs")
    page.get_by_role("link", name="Create a queue").click()
    form = page.get_by_role("dialog", name="Create queue")
    form.get_by_label("Name", exact=True).fill("own")
    form.get_by_role("button", name="Parse configuration").click()
    form.get_by_label("Default of cpus").fill("1")
    form.get_by_label("Default of memory").fill("0")
    form.get_by_label("Default of gpus").fill("0")
    form.get_by_role("button", name="Create queue").click()
    expect(page.get_by_role("heading", name="own")).to_be_visible()
    page.goto("/runs")
    expect(page.locator(".first-steps")).to_contain_text("muster agent --queue own")
    expect(page.get_by_role("button", name="Run the example")).to_have_count(0)
    context.close()
