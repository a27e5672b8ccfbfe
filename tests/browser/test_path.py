"""The whole way in one go: from an empty drawer to a queue, a run, its logs, its end, and a changed rerun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.hands import (
    agent_for,
    confirm,
    launch_drawer,
    launched,
    queue_drawer,
    state,
    unfold,
    write_config,
)
from installation import Installation
from muster.domain.errors import MusterError

CONFIG = """\
resources:
  gpus: "{{gpus}}"
  cpus: 0.1
env:
  GREETING: hello
"""
COMMAND = "sh -c 'while :; do echo $GREETING from rank $NODE_RANK with $MUSTER_CONFIG; sleep 1; done'"


def test_a_queue_is_made_and_a_run_lives_and_lives_again_on_it(
    muster: Installation, page: Page, tmp_path: Path
) -> None:
    # create a queue, parse its configuration
    page.goto("/launch")
    expect(page).to_have_url(re.compile("/queues$"))
    page.get_by_role("button", name="Create queue").click()
    form = queue_drawer(page)
    form.get_by_label("Name", exact=True).fill("lab")
    write_config(page, CONFIG)
    form.get_by_role("button", name="Parse configuration").click()
    form.get_by_label("Type of gpus").select_option("integer")
    form.get_by_label("Default of gpus").fill("1")
    form.get_by_label("Max of gpus").fill("2")
    form.get_by_text("Rules and limits").click()
    form.get_by_label("Paths that launches may override").fill("env.GREETING")
    expect(form.get_by_role("region", name="The rendered object")).to_contain_text("variable gpus")
    form.get_by_role("button", name="Create queue").click()
    expect(state(page)).to_have_text("No agent online")
    expect(page.locator("#content")).to_contain_text("muster agent --queue lab")

    with agent_for(muster, "lab", tmp_path):
        expect(state(page)).to_have_text("Open")

        # launch two replicas
        page.get_by_role("button", name="Launch", exact=True).click()
        launch = launch_drawer(page)
        launch.get_by_role("combobox", name="Queue").select_option(label="lab · process")
        launch.get_by_role("textbox", name="Command").fill(COMMAND)
        launch.get_by_label("Name", exact=True).fill("first")
        launch.get_by_label("gpus").fill("3")
        expect(launch.get_by_text("gpus=3 is above the maximum of 2").first).to_be_visible()
        launch.get_by_label("gpus").fill("1")
        launch.get_by_role("button", name="Add an input").click()
        launch.get_by_label("Input 1", exact=True).fill("lr")
        launch.get_by_label("Value 1", exact=True).fill("0.1")
        unfold(launch, "Training shape")
        launch.get_by_label("Nodes", exact=True).fill("2")
        launch.get_by_label("Launcher").select_option("plain")
        launch.get_by_role("button", name="Launch", exact=True).click()
        first = launched(page)

        # watch replicas and logs
        expect(state(page)).to_have_text("Running")
        page.get_by_role("tab", name="Replicas").click()
        expect(page.get_by_role("table", name="Replicas of the run").locator("tbody tr")).to_have_count(2)
        page.get_by_role("link", name="Rank 1: Running. Open its log").click()
        log = page.get_by_role("log")
        expect(log).to_contain_text('hello from rank 1 with {"lr":0.1}')
        expect(log).not_to_contain_text("rank 0")
        page.get_by_role("combobox", name="Replica").click()
        page.get_by_role("option", name="All replicas").click()
        expect(log).to_contain_text("hello from rank 0")

        # stop
        confirm(page, "Stop")
        expect(state(page)).to_have_text("Stopped")

        # rerun with overrides
        page.get_by_role("button", name="Clone").click()
        expect(launch.get_by_label("lr", exact=True)).to_have_value("0.1")
        launch.get_by_label("lr", exact=True).fill("0.2")
        unfold(launch, "Overrides")
        launch.get_by_role("button", name="Add an override").click()
        launch.get_by_label(re.compile(r"^Path \d+$")).fill("env.GREETING")
        launch.get_by_label(re.compile(r"^Value \d+$")).last.fill("hallo")
        expect(launch.get_by_role("region", name="The rendered manifest")).to_contain_text("override")
        launch.get_by_role("button", name="Launch", exact=True).click()
        second = launched(page)
        assert second != first
        expect(page.get_by_role("link", name=first)).to_be_visible()
        page.get_by_role("tab", name="Logs").click()
        expect(log).to_contain_text('hallo from rank 1 with {"lr":0.2}')

        # delete
        confirm(page, "Stop")
        expect(state(page)).to_have_text("Stopped")
        confirm(page, "Delete")
        expect(page).to_have_url(re.compile("/runs$"))
        with pytest.raises(MusterError):
            muster.client().get_run(second)
        assert muster.client().get_run(first).state == "stopped"
