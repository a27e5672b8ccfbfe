"""Queues and agents in the browser: made, parsed, tried out, changed, paused; and the line in its order."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from installation import Installation, until
from muster.domain.errors import MusterError
from muster.wire.queues import QueueRequest

CONFIG = """\
resources:
  gpus: "{{gpus}}"
env:
  DATASET: "{{dataset}}"
"""
BROKEN = "env:\n  A: one\n  A: two\n"


def drawer(page: Page) -> Locator:
    return page.get_by_role("dialog", name=re.compile("Create queue|Edit "))


def write(page: Page, text: str) -> None:
    """Into the editor, in place of what is there."""
    editor = page.get_by_role("textbox", name="Configuration as YAML or JSON")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def test_a_queue_is_written_parsed_tried_out_made_changed_and_paused(
    muster: Installation, page: Page
) -> None:
    page.goto("/queues")
    page.get_by_role("button", name="Create queue").click()
    form = drawer(page)
    form.get_by_label("Name", exact=True).fill("lab")
    write(page, CONFIG)
    expect(form.get_by_role("status").filter(has_text="Not declared yet: gpus, dataset")).to_be_visible()
    form.get_by_role("button", name="Parse configuration").click()
    expect(form.get_by_label("Type of gpus")).to_have_value("integer")
    expect(form.get_by_label("Type of dataset")).to_have_value("string")
    form.get_by_label("Default of gpus").fill("1")
    form.get_by_label("Max of gpus").fill("2")
    form.get_by_label("Choices of dataset").fill("tiny, full")
    preview = form.get_by_role("region", name="The rendered object")
    expect(preview).to_contain_text("DATASET: tiny")
    expect(preview).to_contain_text("variable dataset")
    form.get_by_role("button", name="Create queue").click()

    expect(page.get_by_role("heading", name="lab")).to_be_visible()
    assert muster.client().get_queue("lab").variables["gpus"]["maximum"] == 2
    expect(page.locator(".run-title .state")).to_have_text("No agent online")

    page.get_by_role("button", name="Edit config").click()
    drawer(page).get_by_label("Max of gpus").fill("4")
    drawer(page).get_by_role("button", name="Save as a new version").click()
    expect(drawer(page)).to_have_count(0)
    page.get_by_role("tab", name="Versions").click()
    diff = page.get_by_role("region", name="What changed from version 1 to 2").last
    expect(diff.locator(".removed")).to_contain_text("maximum: 2")
    expect(diff.locator(".added")).to_contain_text("maximum: 4")

    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("table", name="Versions of the queue")).to_contain_text("v3")
    assert muster.client().get_queue("lab").variables["gpus"]["maximum"] == 2

    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".run-title .state")).to_have_text("Paused")
    assert muster.client().get_queue("lab").paused_at is not None
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".run-title .state")).to_have_text("No agent online")

    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Drain").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Drain").click()
    expect(page.locator(".run-title .state")).to_have_text("Draining")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("all its versions")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("/queues$"))
    with pytest.raises(MusterError):
        muster.client().get_queue("lab")


def test_a_config_is_edited_as_it_is_whatever_its_shape(muster: Installation, page: Page) -> None:
    limits = {"nvidia.com/gpu": "{{gpus}}"}
    containers = [
        {"resources": {"limits": limits}, "name": "main"},
        {"args": ["-v"], "image": "acme/beside:1"},
    ]
    config = {"template": {"spec": {"containers": containers}}}
    variables = {"gpus": {"type": "integer", "default": 1, "maximum": 2}}
    client = muster.client()
    client.create_queue(QueueRequest(name="deep", resource="kubernetes", config=config, variables=variables))
    page.goto("/queues/deep")
    page.get_by_role("button", name="Edit config").click()
    drawer(page).get_by_label("Max of gpus").fill("4")
    drawer(page).get_by_role("button", name="Save as a new version").click()
    expect(drawer(page)).to_have_count(0)
    changed = client.get_queue("deep")
    assert changed.version == 2
    assert changed.config == config


def test_the_last_preview_stays_while_the_config_cannot_be_read(muster: Installation, page: Page) -> None:
    page.goto("/queues?create=new")
    form = drawer(page)
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    write(page, "env:\n  SIZE: big {{size}}\n")
    form.get_by_role("button", name="Parse configuration").click()
    preview = form.get_by_role("complementary", name="Preview")
    expect(preview).to_contain_text("variable size")
    write(page, "env:\n  SIZE: [big {{size}}\n")
    expect(form.get_by_role("list", name="Problems")).to_be_visible()
    expect(preview).to_contain_text("As it was before")
    expect(preview).to_contain_text("variable size")
    expect(form.get_by_text("not used any more")).to_have_count(0)


def test_bad_yaml_is_told_at_its_line_and_where_the_cursor_is(muster: Installation, page: Page) -> None:
    page.goto("/queues?create=new")
    form = drawer(page)
    form.get_by_label("Name", exact=True).fill("bad")
    write(page, BROKEN)
    problems = form.get_by_role("list", name="Problems")
    expect(problems).to_contain_text("Line 3, column 3")
    expect(problems).to_contain_text("the key 'A' is there twice")
    expect(form.locator(".cm-lintRange-error")).to_have_text("A: two")
    problems.get_by_role("button", name="Line 3, column 3").click()
    expect(problems.locator(".here")).to_have_count(1)
    form.get_by_role("button", name="Create queue").click()
    expect(form.get_by_role("alert")).to_contain_text("the key 'A' is there twice")
    page.keyboard.press("Escape")
    page.get_by_role("alertdialog").get_by_role("button", name="Throw away").click()
    expect(form).to_have_count(0)


def test_keys_are_completed_from_the_schema(muster: Installation, page: Page) -> None:
    page.goto("/queues?create=new")
    write(page, "res")
    page.keyboard.press("Control+Space")
    page.get_by_role("option", name="resources").click()
    expect(page.get_by_text("resources:")).to_be_visible()
    page.keyboard.type("gp")
    expect(page.get_by_role("option", name="gpus")).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer(page)).to_be_visible()


@pytest.mark.parametrize(
    ("template", "shows"),
    [
        ("Process", "train.py"),
        ("Kubernetes Job", "kind: Job"),
        ("Kubernetes Job with GPUs", "nvidia.com/gpu"),
        ("Kubernetes Job with an NFS cache", "claimName: nfs-pvc"),
        ("Distributed training, written by Muster", "kind: Job"),
        ("Volcano Job", "batch.volcano.sh/v1alpha1"),
        ("PyTorchJob (Kubeflow)", "pytorchReplicaSpecs"),
        ("PyTorchTrainingJob (T9k)", "torchrunConfig"),
    ],
)
def test_every_template_can_be_parsed_and_rendered(
    muster: Installation, page: Page, template: str, shows: str
) -> None:
    page.goto("/queues?create=new")
    form = drawer(page)
    if template != "Process":
        form.get_by_label("Start from").click()
        page.get_by_role("option", name=template, exact=True).click()
    form.get_by_role("button", name="Parse configuration").click()
    expect(form.get_by_role("status").filter(has_text="Nothing is wrong with it")).to_be_visible()
    expect(form.get_by_role("region", name="The rendered object")).to_contain_text(shows)


def test_what_waits_is_moved_by_keys_by_menu_by_dragging_and_by_priority(
    muster: Installation, page: Page
) -> None:
    client = muster.client()
    client.create_queue(QueueRequest(name="slow", config={}))
    for name in "abcd":
        muster.launch(["true"], queue="slow", name=name)

    def line() -> list[str]:
        return [run.name for run in client.get_queue_line("slow").items]

    page.goto("/queues/slow")
    names = page.locator("ol.queue-runs .run-name")
    expect(names).to_have_text([*"abcd"])
    page.get_by_role("button", name="Move c").press("Alt+ArrowUp")
    expect(names).to_have_text([*"acbd"])
    until(lambda: line() == [*"acbd"], what="moved by keys")
    page.get_by_role("button", name="Move d").click()
    page.get_by_role("menuitem", name="To the front").click()
    expect(names).to_have_text([*"dacb"])
    until(lambda: line() == [*"dacb"], what="moved by the menu")
    rows = page.locator("ol.queue-runs li")
    rows.first.locator(".grip").drag_to(rows.last, target_position={"x": 200, "y": 34})
    expect(names).to_have_text([*"acbd"])
    until(lambda: line() == [*"acbd"], what="dragged")
    page.get_by_label("Priority of b").click()
    page.get_by_role("option", name="Critical").click()
    expect(names).to_have_text([*"bacd"])
    expect(page.get_by_text("b now has priority Critical.")).to_be_attached()


def test_the_list_of_queues_is_live(muster: Installation, page: Page) -> None:
    client = muster.client()
    page.goto("/queues")
    table = page.get_by_role("table", name="Queues")
    row = table.get_by_role("row").filter(has_text="appears")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    client.create_queue(QueueRequest(name="appears", config={}))
    expect(row).to_contain_text("No agent online")
    muster.launch(["true"], queue="appears", name="waits")
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")
    client.pause_queue("appears")
    expect(row).to_contain_text("Paused")


def test_the_usage_of_a_queue_is_drawn_from_its_runs(muster: Installation, page: Page) -> None:
    run = muster.launch(["sleep", "300"], name="used", values={"gpus": 1})
    until(lambda: run.state == "running", what="running")
    page.goto("/queues/local?tab=usage")
    expect(page.locator(".chart figcaption")).to_have_text(["Runs", "GPUs in use"])
    expect(page.locator(".chart canvas")).to_have_count(2)
    run.stop()


def test_an_agent_shows_what_it_runs_and_is_paused(muster: Installation, page: Page) -> None:
    run = muster.launch(["sleep", "300"], name="on-a-gpu", values={"gpus": 1})
    until(lambda: run.state == "running", what="running")
    [agent] = muster.client().list_agents().items
    page.goto("/agents")
    page.get_by_role("table", name="Agents").get_by_role("link", name=agent.name).first.click()
    expect(page.get_by_role("list", name="GPUs")).to_contain_text("on-a-gpu")
    expect(page.get_by_role("table", name="Last words")).to_contain_text("Running")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".run-title .link-state")).to_have_text("Paused")
    held = muster.launch(["true"], name="held-back")
    assert "paused" in held.why().summary
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".run-title .link-state")).to_have_text("Online")
    held.wait(60)
    run.stop()


def test_who_only_looks_is_offered_nothing_to_change(muster: Installation, page: Page) -> None:
    page.route("**/api/v1/me", lambda route: route.fulfill(json=viewer(route.fetch().json())))
    page.goto("/queues")
    expect(page.get_by_role("table", name="Queues")).to_contain_text("local")
    expect(page.get_by_role("button", name="Create queue")).to_have_count(0)
    page.goto("/queues/local")
    expect(page.get_by_role("heading", name="local")).to_be_visible()
    expect(page.get_by_role("button", name="Edit config")).to_have_count(0)


def viewer(me: dict[str, object]) -> dict[str, object]:
    roles = me["roles"]
    assert isinstance(roles, dict)
    return {**me, "server_admin": False, "roles": dict.fromkeys(roles, "viewer")}
