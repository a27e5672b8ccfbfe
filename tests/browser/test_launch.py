"""Launching from the drawer: what it asks, what it shows, what it refuses, and what comes of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from accessibility import check_accessible
from browser.hands import SCREENSHOTS, hold
from installation import Installation, until
from muster.client.sdk import launch
from muster.domain.policy import Allowed
from muster.wire.queues import QueueEdit, QueueRequest
from muster.wire.runs import JobRefModel

EXAMPLES = Path(__file__).parents[2] / "examples"
SAME = "name project priority command config values training env overrides nodes".split()
POD = {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "{{gpus}}"}}}]}}}


@pytest.fixture(scope="module", autouse=True)
def queues(muster: Installation) -> None:
    """The machine's own queue, with something opened; and one of a cluster that nobody serves."""
    client = muster.client()
    client.edit_queue("local", QueueEdit(overridable=["env", "stop_grace"]))
    client.create_queue(
        QueueRequest(
            name="pods",
            resource="kubernetes",
            config=POD,
            variables={"gpus": {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}},
            allow=list(Allowed),
        )
    )


@pytest.fixture(scope="module")
def job(muster: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that declares its inputs."""
    folder = tmp_path_factory.mktemp("code") / "line"
    shutil.copytree(EXAMPLES / "grid", folder)
    launch(folder, project="fits", name="first-fit", client=muster.client()).wait(120)
    return "fit-a-line"


def drawer(page: Page) -> Locator:
    return page.locator(".launch-drawer")


def open_drawer(page: Page, address: str = "/queues?launch=new") -> Locator:
    page.goto(address)
    expect(drawer(page).get_by_role("combobox", name="Queue")).to_be_visible()
    return drawer(page)


def command_field(form: Locator) -> Locator:
    return form.get_by_role("textbox", name="Command")


def unfold(form: Locator, title: str) -> None:
    part = form.locator("details").filter(has=form.page.get_by_role("heading", name=title, exact=True))
    if part.get_attribute("open") is None:
        part.locator("summary").click()


def add_row(
    form: Locator, button: str, name: str, value: str, *, kind: str = "Name", what: str = "Value"
) -> None:
    form.get_by_role("button", name=button).click()
    form.get_by_label(re.compile(rf"^{kind} \d+$")).last.fill(name)
    form.get_by_label(re.compile(rf"^{what} \d+$")).last.fill(value)


def launched(page: Page) -> str:
    """The id of the run whose page this is, once it is there."""
    expect(page).to_have_url(re.compile(r"/runs/[a-z0-9]{10}$"))
    expect(drawer(page)).to_have_count(0)
    return page.url.rsplit("/", 1)[1]


def test_launch_watch_stop_clone_with_an_override_delete(muster: Installation, page: Page) -> None:
    page.goto("/runs")
    page.get_by_role("button", name="Launch", exact=True).click()
    form = drawer(page)
    command_field(form).fill("sh -c 'echo $MUSTER_CONFIG $GREETING; sleep 300'")
    form.get_by_label("Name", exact=True).fill("from-the-drawer")
    form.get_by_label("gpus").fill("2")
    form.get_by_role("button", name="Add an input").click()
    form.get_by_label("Input 1", exact=True).fill("optim.lr")
    form.get_by_label("Value 1", exact=True).fill("0.01")
    expect(form.get_by_role("region", name="The rendered manifest")).to_contain_text("variable gpus")
    expect(form.locator(".launch-sum")).to_contain_text("2 GPU")
    form.get_by_role("button", name="Launch", exact=True).click()
    first = launched(page)
    run = muster.client().get_run(first)
    assert (run.values["gpus"], run.config) == (2, {"optim": {"lr": 0.01}})
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text('{"optim":{"lr":0.01}}')
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    state = page.locator(".run-title .state")
    expect(state).to_have_text("Stopped")

    page.get_by_role("button", name="Clone").click()
    form = drawer(page)
    expect(form).to_contain_text("Launch from-the-drawer again")
    expect(form.get_by_label("gpus")).to_have_value("2")
    expect(form.get_by_label("optim.lr")).to_have_value("0.01")
    form.get_by_label("optim.lr").fill("0.02")
    unfold(form, "Overrides")
    add_row(form, "Add an override", "env.GREETING", "hallo", kind="Path")
    expect(form.get_by_role("region", name="The rendered manifest")).to_contain_text("override")
    form.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(lambda url: first not in url and "launch=" not in url)
    second = launched(page)
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text('{"optim":{"lr":0.02}} hallo')
    again = muster.client().get_run(second)
    assert (again.rerun_of, again.overrides) == (first, {"env.GREETING": "hallo"})
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(state).to_have_text("Stopped")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/runs$"))


def test_a_value_out_of_range_is_refused_at_its_field(muster: Installation, page: Page) -> None:
    form = open_drawer(page)
    command_field(form).fill("true")
    field = form.get_by_label("gpus")
    field.fill("9")
    expect(form.get_by_text("gpus=9 is above the maximum of 4").first).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")
    form.get_by_role("button", name="Launch", exact=True).click()
    expect(field).to_be_focused()
    expect(form.locator(".launch-sum")).to_contain_text("1 field needs a look")
    assert not muster.client().list_runs(text="refused-at-its-field").items
    field.fill("0")
    expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize(
    ("fold", "label", "text", "said"),
    [
        ("Training shape", "Nodes", "0", "nodes=0 is not possible"),
        ("Training shape", "Processes per node", "gpu", "needs GPUs"),
        ("", "Project", "no name", "is not a valid project name"),
        ("Environment", "Name 1", "", "Give it a name"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(
    muster: Installation, page: Page, fold: str, label: str, text: str, said: str
) -> None:
    form = open_drawer(page)
    command_field(form).fill("true")
    if fold:
        unfold(form, fold)
    if label == "Name 1":
        add_row(form, "Add a variable", text, "value")
    else:
        form.get_by_label(label, exact=True).fill(text)
    expect(form.locator(".field-error").filter(has_text=said)).to_be_visible()


def test_a_quote_that_is_not_closed_is_noticed(muster: Installation, page: Page) -> None:
    form = open_drawer(page)
    command_field(form).fill("echo 'open")
    expect(form.locator(".field-error")).to_contain_text("A quote is opened")
    page.keyboard.press("Control+Enter")
    expect(command_field(form)).to_be_focused()
    expect(page).to_have_url(re.compile("launch=new"))


def test_an_empty_form_asks_for_what_it_needs(muster: Installation, page: Page) -> None:
    form = open_drawer(page)
    form.get_by_role("button", name="Launch", exact=True).click()
    expect(form.get_by_text("Say what to run.")).to_be_visible()
    expect(command_field(form)).to_be_focused()


def test_keys_alone_launch_something(muster: Installation, page: Page) -> None:
    page.goto("/agents")
    expect(page.get_by_role("heading", name="Agents")).to_be_visible()
    page.keyboard.press("l")
    expect(command_field(drawer(page))).to_be_focused()
    page.keyboard.type("echo by keys alone")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("by-keys")
    page.keyboard.press("Control+Enter")
    run_id = launched(page)
    run = muster.client().get_run(run_id)
    assert (run.name, run.command) == ("by-keys", ["echo", "by", "keys", "alone"])


def test_escape_and_the_way_back_close_it(muster: Installation, page: Page) -> None:
    page.goto("/runs?state=failed")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.keyboard.press("l")
    expect(drawer(page)).to_be_visible()
    expect(page).to_have_url(re.compile(r"state=failed&launch=new"))
    page.keyboard.press("Escape")
    expect(drawer(page)).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/runs\?state=failed$"))
    page.keyboard.press("l")
    expect(drawer(page)).to_be_visible()
    page.go_back()
    expect(drawer(page)).to_have_count(0)


def typed_in_a_shell(muster: Installation, text: str) -> Any:
    """The run that this command line launches."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    before = {run.id for run in muster.client().list_runs().items}
    done = subprocess.run(
        ["bash", "-c", text], env={**muster.env, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    [made] = [run for run in muster.client().list_runs().items if run.id not in before]
    return made


HARD = {
    "plain": "adam",
    "number": "3",
    "quote": "it's",
    "list": "[1, 2]",
    "text": '"12"',
    "nested.flag": "true",
}


def test_the_shown_command_and_program_launch_the_same(muster: Installation, page: Page) -> None:
    form = open_drawer(page)
    command_field(form).fill("echo 'a  b' $HOME \"it's\"")
    form.get_by_label("Name", exact=True).fill("typed")
    form.get_by_label("Project").fill("typing")
    form.get_by_label("Priority").select_option("high")
    form.get_by_label("cpus").fill("0.5")
    for name, value in HARD.items():
        add_row(form, "Add an input", name, value, kind="Input")
    unfold(form, "Training shape")
    form.get_by_label("Nodes", exact=True).fill("2")
    form.get_by_label("Launcher").select_option("plain")
    unfold(form, "Overrides")
    form.get_by_role("button", name="Add an override").click()
    form.get_by_label("Path 1", exact=True).fill("stop_grace")
    form.get_by_role("group").filter(has=page.get_by_role("heading", name="Overrides")).get_by_label(
        "Value 1"
    ).fill("5")
    unfold(form, "Environment")
    form.get_by_role("button", name="Add a variable").click()
    form.get_by_label("Name 1", exact=True).fill("TAG")
    form.get_by_role("group").filter(has=page.get_by_role("heading", name="Environment")).get_by_label(
        "Value 1"
    ).fill("$x 'y'")
    form.get_by_role("tab", name="Command line").click()
    command = form.get_by_role("region", name="The command").text_content() or ""
    form.get_by_role("tab", name="Python").click()
    program = form.get_by_role("region", name="The program").text_content() or ""
    form.get_by_role("button", name="Launch", exact=True).click()
    clicked = muster.client().get_run(launched(page))
    assert clicked.config["nested"] == {"flag": True}
    assert (clicked.config["number"], clicked.config["text"]) == (3, "12")
    assert clicked.command == ["echo", "a  b", "$HOME", "it's"]

    quoted = "'" + program.replace("'", "'\\''") + "'"
    for typed in (typed_in_a_shell(muster, command), typed_in_a_shell(muster, f"python -c {quoted}")):
        for key in SAME:
            assert getattr(typed, key) == getattr(clicked, key), key


def test_the_command_of_a_clone_is_a_rerun(muster: Installation, page: Page) -> None:
    run = muster.launch(["echo", "hello"], name="to-clone", config={"lr": 1}, env={"A": "1"})
    run.wait(60)
    form = open_drawer(page, f"/runs/{run.id}?launch=run:{run.id}")
    form.get_by_label("Arguments").fill("hallo")
    form.get_by_label("lr", exact=True).fill("2")
    form.get_by_role("tab", name="Command line").click()
    text = form.locator("pre").text_content() or ""
    assert text.startswith(f"muster run rerun {run.id}")
    made = typed_in_a_shell(muster, text)
    assert (made.command, made.config, made.env) == (["echo", "hallo"], {"lr": 2}, {"A": "1"})


def test_a_job_is_launched_with_a_form_of_its_inputs(muster: Installation, page: Page, job: str) -> None:
    form = open_drawer(page, "/runs?launch=new")
    form.get_by_role("radio", name="Job").check(force=True)
    form.get_by_role("combobox", name="Job").fill(f"fits/{job}")
    expect(form.get_by_label("Entrypoint")).to_have_value("fit.py")
    expect(form.get_by_label("optimizer.name")).to_have_value("")
    rate = form.get_by_label("optimizer.lr")
    rate.fill("99")
    expect(form.locator(".field-error")).to_contain_text("optimizer.lr=99 is above the maximum of 10")
    rate.fill("0.2")
    form.get_by_label("optimizer.name").select_option(label="momentum")
    expect(form.get_by_role("button", name="Add an input")).to_have_count(0)
    form.get_by_role("tab", name="Command line").click()
    expect(form.locator("pre")).to_contain_text(f"-j {job}:latest")
    command = form.locator("pre").text_content() or ""
    form.get_by_role("button", name="Launch", exact=True).click()
    run = muster.client().get_run(launched(page))
    assert run.job == JobRefModel(name=job, version=0)
    assert run.config["optimizer"] == {"name": "momentum", "lr": 0.2}
    expect(page.locator(".run-title .state")).to_have_text("Succeeded", timeout=60_000)
    assert typed_in_a_shell(muster, command).config == run.config


def test_what_is_typed_before_the_job_has_loaded_stays(muster: Installation, page: Page, job: str) -> None:
    answer = hold(page, f"/jobs/{job}/versions/latest")
    entity = muster.client().get_me().default_entity
    form = open_drawer(page, f"/runs?launch=job:{entity}/fits/{job}:latest")
    arguments = form.get_by_label("Arguments")
    arguments.fill("--quick")
    add_row(form, "Add an input", "optimizer.lr", "0.4", kind="Input")
    unfold(form, "Training shape")
    form.get_by_label("Nodes", exact=True).fill("2")
    answer()
    expect(form.get_by_label("Entrypoint")).to_have_value("fit.py")
    expect(arguments).to_have_value("--quick")
    expect(form.get_by_label("optimizer.lr")).to_have_value("0.4")  # declared: it has a field of its own
    expect(form.get_by_label("Input 1", exact=True)).to_have_count(0)
    expect(form.get_by_label("Nodes", exact=True)).to_have_value("2")


def test_a_clusters_queue_opens_its_pods(muster: Installation, page: Page) -> None:
    form = open_drawer(page, "/queues?launch=queue:" + muster.client().get_me().default_entity + "/pods")
    expect(form.get_by_role("combobox", name="Queue")).to_have_value("pods")
    form.get_by_role("radio", name="Image").check(force=True)
    form.get_by_role("textbox", name="Image").fill("acme/train:main")
    unfold(form, "Resources and volumes")
    form.get_by_label("Memory", exact=True).fill("16Gi")
    form.get_by_label("Memory requested").fill("32Gi")
    expect(form.locator(".field-error")).to_contain_text("A request is above its limit: 32")
    form.get_by_label("Memory requested").fill("4Gi")
    expect(form.locator(".field-error")).to_have_count(0)
    form.get_by_label("Working directory").fill("/data")
    add_row(form, "Add a volume", "datasets", "/proc", kind="Claim", what="Path")
    expect(form.locator(".field-error")).to_contain_text("nothing can be mounted in /proc")
    form.get_by_label("Path 1", exact=True).fill("/data:ro")
    manifest = form.get_by_role("region", name="The rendered manifest")
    expect(manifest).to_contain_text("claimName: datasets")
    expect(manifest).to_contain_text(re.compile(r'limits:.*memory: "16Gi".*requests:'))
    expect(manifest).to_contain_text(re.compile(r'requests:\s+memory: "4Gi"'))
    expect(manifest).to_contain_text('image: "acme/train:main"')
    form.get_by_role("tab", name="Command line").click()
    command = form.locator("pre").text_content() or ""
    form.get_by_role("button", name="Launch", exact=True).click()
    clicked = muster.client().get_run(launched(page))
    typed = typed_in_a_shell(muster, command)
    assert (typed.image, typed.volumes, typed.workdir) == (clicked.image, ["datasets:/data:ro"], "/data")
    assert typed.values == clicked.values
    for run in (clicked, typed):
        muster.client().stop_run(run.id)


def test_hostile_names_stay_text_in_the_form(muster: Installation, page: Page) -> None:
    bad = "<img src=x onerror=document.title='pwned'>"
    run = muster.launch(["echo", bad], name="hostile-form", config={bad: bad})
    run.wait(60)
    form = open_drawer(page, f"/runs?launch=run:{run.id}")
    expect(form.get_by_label(bad)).to_have_value(f'"{bad}"')
    for tab in ("Command line", "Python", "Preview"):
        form.get_by_role("tab", name=tab).click()
    assert page.locator("img").count() == 0
    assert "pwned" not in page.title()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_drawer_is_accessible_and_fits_every_screen(
    muster: Installation, page: Page, job: str, scheme: Any
) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    entity = muster.client().get_me().default_entity
    form = open_drawer(page, f"/runs?launch=job:{entity}/fits/{job}:latest")
    expect(form.get_by_label("Entrypoint")).to_have_value("fit.py")
    form.get_by_label("optimizer.lr").fill("99")
    unfold(form, "Training shape")
    unfold(form, "Overrides")
    form.get_by_role("button", name="Add an override").click()
    expect(form.locator(".field-error")).to_be_visible()
    until(lambda: page.evaluate("document.getAnimations().length === 0"), what="at rest")
    check_accessible(page)
    for width, height in ((380, 800), (1280, 860), (3840, 2160)):
        page.set_viewport_size({"width": width, "height": height})
        page.screenshot(path=SCREENSHOTS / f"launch-{scheme}-{width}.png")
        wide = page.locator(".launch-drawer").evaluate("e => e.scrollWidth > e.clientWidth + 1")
        assert not wide, f"something is cut off at {width} px"
    for tab in ("Command line", "Python"):
        form.get_by_label("optimizer.lr").fill("0.3")
        form.get_by_role("tab", name=tab).click()
        check_accessible(page)
