"""The list of runs and a run's own page, clicked for real."""

from __future__ import annotations

import re
import time
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Request, expect

from installation import Installation, until
from muster.wire.groups import GridRequest
from muster.wire.runs import LaunchRequest

HOSTILE = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>"


def test_a_newcomer_gets_to_a_running_job_in_two_clicks(muster: Installation, page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Run the example").click()
    expect(page.get_by_role("heading", name="hello")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("step 2 of 10")
    expect(page.get_by_role("log")).to_contain_text("done")
    expect(page.locator(".run-title .state")).to_have_text("Succeeded")
    expect(page).to_have_title(re.compile("hello"))


def test_runs_appear_and_change_by_themselves(muster: Installation, page: Page) -> None:
    page.goto("/runs")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    muster.launch(["sh", "-c", "exit 3"], name="fails-soon")
    row = page.get_by_role("row").filter(has_text="fails-soon")
    expect(row).to_contain_text("Failed")


def test_a_change_is_on_the_screen_within_a_moment(muster: Installation, page: Page) -> None:
    run = muster.launch(["sleep", "300"], name="stopped-in-time")
    until(lambda: run.state == "running", what="running")
    page.goto("/runs?q=stopped-in-time")
    row = page.get_by_role("row").filter(has_text="stopped-in-time")
    expect(row).to_contain_text("Running")
    run.stop()
    until(lambda: run.state == "stopped", what="stopped")
    began = time.monotonic()
    expect(row).to_contain_text("Stopped")
    assert time.monotonic() - began < 2.0, "0.3 s on a quiet machine"


def test_filters_are_in_the_address_and_come_back_with_it(muster: Installation, page: Page) -> None:
    muster.launch(["true"], name="alpha", project="greek").wait(60)
    muster.launch(["false"], name="beta", project="greek").wait(60)
    page.goto("/runs?project=greek")
    names = page.locator(".run-name")
    expect(names).to_have_count(2)
    page.locator(".filter-bar").get_by_role("button", name="State").click()
    page.get_by_role("menuitemcheckbox", name="Failed").click()
    page.keyboard.press("Escape")
    expect(names).to_have_text(["beta"])
    expect(page).to_have_url(re.compile(r"project=greek"))
    expect(page).to_have_url(re.compile(r"state=failed"))
    page.reload()
    expect(names).to_have_text(["beta"])
    page.get_by_role("button", name="Clear filters").click()
    expect(page).to_have_url(re.compile(r"/runs$"))


def test_text_is_filtered_as_it_is_typed_and_nothing_found_is_said(muster: Installation, page: Page) -> None:
    muster.launch(["true"], name="needle-7").wait(60)
    page.goto("/runs")
    expect(page.locator(".run-name").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("needle")
    expect(page.locator(".run-name")).to_have_text(["needle-7"])
    page.keyboard.type("-in-no-haystack")
    expect(page.get_by_role("heading", name="No run matches")).to_be_visible()


def test_the_list_is_walked_and_bulk_stopped_by_keys_alone(muster: Installation, page: Page) -> None:
    runs = [muster.launch(["sleep", "300"], name=f"bulk-{n}", project="bulk") for n in range(2)]
    page.goto("/runs?project=bulk")
    expect(page.locator(".run-name")).to_have_count(2)
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("toolbar", name="2 selected")).to_be_visible()
    page.get_by_role("button", name="Stop").press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Logs and results so far stay")
    dialog.get_by_role("button", name="Stop").press("Enter")
    for run in runs:
        until(lambda run=run: run.state == "stopped", what=run.id)  # type: ignore[misc]
    expect(page.locator(".run-line .cell.state")).to_have_text(["Stopped", "Stopped"])


def test_the_runs_of_a_grid_are_one_line_until_it_is_opened(muster: Installation, page: Page) -> None:
    launch = LaunchRequest(command=["true"], project="grids", name="sweep")
    muster.client().launch_grid(GridRequest(launch=launch, grid={"lr": [0.1, 0.2, 0.3]}))
    page.goto("/runs?project=grids")
    toggle = page.get_by_role("button", name="Show the runs of group")
    expect(toggle).to_contain_text("3 runs")
    expect(page.locator(".run-name")).to_have_count(0)
    toggle.click()
    expect(page.locator(".run-name")).to_have_count(3)


def test_a_failure_is_told_with_its_evidence_and_found_in_the_log(muster: Installation, page: Page) -> None:
    script = "for i in $(seq 500); do echo line $i; done; python3 -c \"raise ValueError('lr is nan')\""
    run = muster.launch(["sh", "-c", script], name="nan")
    run.wait(60)
    page.goto(f"/runs/{run.id}")
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("ValueError: lr is nan")
    why.get_by_role("link", name="Show it in the log").click()
    expect(page.locator(".log-line.marked")).to_contain_text("ValueError: lr is nan")
    page.get_by_role("button", name="To the start").click()
    expect(page.locator(".log-line").first).to_contain_text("line 1")
    page.get_by_role("button", name="First error").click()
    expect(page.locator(".log-line.marked")).to_contain_text("Traceback")


def test_a_line_has_an_address(muster: Installation, page: Page) -> None:
    run = muster.launch(["sh", "-c", "for i in $(seq 5000); do echo line number $i; done"], name="lines")
    run.wait(60)
    page.goto(f"/runs/{run.id}?tab=logs&line=3210")
    expect(page.locator(".log-line.marked")).to_contain_text("line number 3210")


def test_the_count_of_lines_grows_with_the_log(muster: Installation, page: Page, tmp_path: Path) -> None:
    go = tmp_path / "go"
    program = f"echo one; while [ ! -e {go} ]; do sleep 0.05; done; echo two; echo three"
    run = muster.launch(["sh", "-c", program], name="counted")
    page.goto(f"/runs/{run.id}?tab=logs")
    count = page.locator(".log-status")
    expect(count).to_have_text("1 line")
    go.touch()
    expect(count).to_have_text("3 lines")


def test_replicas_are_merged_and_each_has_its_own_log(muster: Installation, page: Page) -> None:
    run = muster.launch(["sh", "-c", "echo I am $NODE_RANK"], name="two", training={"nodes": 2})
    run.wait(60)
    page.goto(f"/runs/{run.id}?tab=replicas")
    expect(page.get_by_role("table", name="Replicas of the run").locator("tbody tr")).to_have_count(2)
    page.get_by_role("tab", name="Logs").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("I am 0")
    expect(log).to_contain_text("I am 1")
    page.get_by_role("combobox", name="Replica").click()
    page.get_by_role("option", name="Rank 1").click()
    expect(page).to_have_url(re.compile("rank=1"))
    expect(log).not_to_contain_text("I am 0")
    expect(log).to_contain_text("I am 1")


def test_hostile_names_and_output_stay_text(muster: Installation, page: Page) -> None:
    run = muster.launch(["echo", HOSTILE], name="hostile", config={HOSTILE: HOSTILE})
    run.wait(60)
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("rowheader", name=HOSTILE)).to_be_visible()
    page.get_by_role("tab", name="Logs").click()
    expect(page.locator(".log-text").first).to_have_text(HOSTILE)
    page.get_by_role("tab", name="Manifest").click()
    expect(page.get_by_role("region", name="The rendered manifest")).to_contain_text("onerror")
    assert "pwned" not in page.title()
    assert page.locator("img").count() == 0


def test_stop_rerun_and_delete_say_what_they_do(muster: Installation, page: Page) -> None:
    run = muster.launch(["sleep", "300"], name="cycle")
    page.goto(f"/runs/{run.id}")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    state = page.locator(".run-title .state")
    expect(state).to_have_text("Stopped")
    page.get_by_role("button", name="Rerun").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Rerun").click()
    expect(page.get_by_text("rerun of")).to_be_visible()
    again = page.url
    page.get_by_role("link", name=run.id).click()
    expect(state).to_have_text("Stopped")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Lost for good")
    expect(dialog).to_contain_text("Kept")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/runs$"))
    page.goto(f"/runs/{run.id}")
    expect(page.get_by_role("alert")).to_contain_text(run.id)
    page.goto(again)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")


def test_a_view_catches_up_when_the_server_comes_back(muster: Installation, page: Page) -> None:
    run = muster.launch(["sh", "-c", "sleep 6; echo survived"], name="catches-up")
    page.goto(f"/runs/{run.id}?tab=logs")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    muster.stop()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    muster.start()
    expect(page.locator(".run-title .state")).to_have_text("Succeeded", timeout=40_000)
    expect(page.get_by_role("log")).to_contain_text("survived")
    expect(page.locator(".log-line")).to_have_count(1)


def test_search_and_help_open_by_keys(muster: Installation, page: Page) -> None:
    muster.launch(["true"], name="jump-here").wait(60)
    page.goto("/queues")
    expect(page.get_by_role("table", name="Queues")).to_contain_text("local")
    page.keyboard.press("Control+k")
    page.keyboard.type("jump-here")
    expect(page.get_by_role("option", name="jump-here")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="jump-here")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")


def test_two_runs_are_compared_in_what_differs(muster: Installation, page: Page) -> None:
    runs = [muster.launch(["true"], name=f"lr-{lr}", config={"lr": lr, "seed": 1}) for lr in (1, 2)]
    for run in runs:
        run.wait(60)
    page.goto(f"/compare?runs={runs[0].id},{runs[1].id}")
    table = page.get_by_role("table", name="Runs side by side")
    expect(table.get_by_role("rowheader", name="lr", exact=True)).to_be_visible()
    expect(table.get_by_role("rowheader", name="seed")).to_have_count(0)


def test_all_requests_stay_with_the_server(muster: Installation, tab: BrowserContext, page: Page) -> None:
    asked: set[str] = set()

    def note(request: Request) -> None:
        found = re.match(r"\w+:(//[^/]+)?", request.url)
        asked.add(found[0] if found else request.url)

    page.on("request", note)
    for path in ("/runs", "/queues", "/agents"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert asked == {muster.url}
