"""Jobs in the web app: found, looked at, renamed, given aliases, launched and deleted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from accessibility import check_accessible
from browser.hands import SCREENSHOTS
from installation import Installation
from muster.client.sdk import launch
from muster.wire.jobs import JobRequest

INPUTS = {
    "schema": {
        "type": "object",
        "properties": {"lr": {"type": "number", "default": 0.1, "maximum": 1}, "seed": {"type": "integer"}},
        "required": ["seed"],
    },
    "arguments": ["lr"],
}


@pytest.fixture
def entity(muster: Installation) -> str:
    return muster.client().get_me().default_entity


@pytest.fixture(scope="module")
def code(muster: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code") / "digits"
    folder.mkdir()
    (folder / "train.py").write_text("print('trained')\n")
    return folder


def make(muster: Installation, name: str, **more: Any) -> None:
    command = ["train.py", "--epochs", "3"]
    request = JobRequest(name=name, project="shelf", image=f"acme/{name}:1", command=command, **more)
    muster.client().create_job(request)


def test_no_jobs_yet_teaches_how_to_make_one(muster: Installation, page: Page, entity: str) -> None:
    page.goto(f"/{entity}/nothing-here/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(page.get_by_text("muster launch . -- train.py")).to_be_visible()


def test_jobs_are_listed_by_project_and_found_by_name(muster: Installation, page: Page, entity: str) -> None:
    for name in ("alpha", "beta"):
        make(muster, name)
    page.goto("/jobs")
    table = page.get_by_role("table", name="Jobs")
    expect(table.get_by_role("link", name="alpha")).to_be_visible()
    table.get_by_role("link", name=f"{entity}/shelf").first.click()
    expect(page).to_have_url(re.compile(f"/{entity}/shelf/jobs$"))
    page.keyboard.press("/")
    page.keyboard.type("alph")
    expect(table.get_by_role("row")).to_have_count(2)
    page.get_by_label("Filter by name").fill("nobody")
    expect(page.get_by_role("heading", name="No job matches")).to_be_visible()


def test_a_job_shows_its_versions_inputs_and_runs(
    muster: Installation, page: Page, entity: str, code: Path
) -> None:
    run = launch(code, command="train.py --epochs 3", project="seen", name="first", client=muster.client())
    run.wait(60)
    (code / "more.py").write_text("")
    launch(code, command="train.py", project="seen", name="second", client=muster.client()).wait(60)
    page.goto(f"/runs/{run.id}")
    page.get_by_role("link", name="job-digits:v0").click()
    expect(page).to_have_url(re.compile(rf"/{entity}/seen/jobs/job-digits\?version=v0$"))
    versions = page.get_by_role("table", name="Versions of the job")
    expect(versions.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("complementary")).to_contain_text("--epochs 3")
    versions.get_by_role("link", name="Show job-digits:v1").click()
    expect(page.get_by_role("complementary")).not_to_contain_text("--epochs 3")
    runs = page.get_by_role("table", name="Newest runs of the job")
    expect(runs.get_by_role("link", name="first")).to_be_visible()
    expect(runs).to_contain_text("Succeeded")
    page.get_by_role("link", name="All its runs").click()
    expect(page.locator(".run-name")).to_have_text(["second", "first"])


def test_declared_inputs_are_shown_with_their_rules(muster: Installation, page: Page, entity: str) -> None:
    make(muster, "declared", inputs=INPUTS)
    page.goto(f"/{entity}/shelf/jobs/declared")
    table = page.get_by_role("table", name="Inputs of the job")
    expect(table.get_by_role("row").filter(has_text="lr")).to_contain_text("≤ 1")
    expect(table.get_by_role("row").filter(has_text="seed")).to_contain_text("required")


def test_a_job_is_renamed_named_launched_and_deleted(
    muster: Installation, page: Page, entity: str, code: Path
) -> None:
    run = launch(code, command="train.py", project="cycle", name="only", client=muster.client())
    run.wait(60)
    page.goto(f"/{entity}/cycle/jobs/job-digits")
    page.get_by_role("button", name="Rename").click()
    dialog = page.locator(".dialog, .launch-drawer")  # a toast is a dialog, too
    dialog.get_by_label("New name").fill("no name")
    dialog.get_by_role("button", name="Rename").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not a valid job name")
    dialog.get_by_label("New name").fill("trainer")
    dialog.get_by_label("New name").press("Enter")
    expect(page.get_by_role("heading", name="trainer", exact=True)).to_be_visible()

    page.get_by_role("button", name="Add an alias: v0").click()
    dialog.get_by_label("Alias").fill("best")
    dialog.get_by_role("button", name="Add an alias").click()
    expect(page.get_by_role("button", name="Remove the alias best")).to_be_visible()
    page.get_by_role("button", name="Launch trainer:v0").click()
    expect(dialog.get_by_label("Version")).to_have_value("v0")
    dialog.get_by_label("Version").select_option("best")
    dialog.get_by_label("Arguments").fill("--again")
    dialog.get_by_role("button", name="Launch", exact=True).click()
    expect(page.locator(".run-title .state")).to_have_text("Succeeded", timeout=60_000)
    made = muster.client().get_run(page.url.rsplit("/", 1)[1])
    assert made.command == ["train.py", "--again"]

    page.goto(f"/{entity}/cycle/jobs/trainer")
    page.get_by_role("button", name="Remove the alias best").click()
    expect(page.get_by_role("button", name="Remove the alias best")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    alert = page.get_by_role("alertdialog")
    expect(alert).to_contain_text("Lost for good")
    expect(alert).to_contain_text("its runs")
    alert.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    assert muster.client().get_run(run.id).id == run.id
    page.goto(f"/{entity}/cycle/jobs/trainer")
    expect(page.get_by_role("alert")).to_contain_text("There is no job 'trainer'")


def test_keys_lead_to_jobs_and_the_palette_finds_them(muster: Installation, page: Page, entity: str) -> None:
    make(muster, "needle-job")
    page.goto("/queues")
    expect(page.get_by_role("table", name="Queues")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("needle-job")
    expect(page.get_by_role("option", name="needle-job")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/{entity}/shelf/jobs/needle-job$"))


def test_launch_leads_to_the_queues(muster: Installation, page: Page) -> None:
    page.goto("/launch")
    expect(page).to_have_url(re.compile("/queues$"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_jobs_are_accessible_and_fit_every_screen(
    muster: Installation, page: Page, entity: str, scheme: Any
) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    make(muster, "shown", inputs=INPUTS, config={"seed": 1})
    muster.client().set_job_alias("shown", "best", "v0", project="shelf")
    for path, name, seen in (
        ("/jobs", "jobs", "shown"),
        (f"/{entity}/shelf/jobs/shown", "job", "acme/shown:1"),
    ):
        page.goto(path)
        expect(page.get_by_text(seen).first).to_be_visible()
        check_accessible(page)
        for width, height in ((380, 800), (1280, 800), (3840, 2160)):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{width}.png")
            wide = page.locator(".page").evaluate("e => e.scrollWidth > e.clientWidth + 1")
            assert not wide, f"something is cut off at {width} px"
