"""The web app on Kubernetes: a queue from a template, two replicas on it, and every tab of the run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from accessibility import check_accessible
from browser.conftest import CHROMIUM, chromium
from browser.hands import confirm, launch_drawer, launched, picture, queue_drawer, state, unfold
from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from installation import MUSTER, Installation, until
from muster.server.context import WEB_DIR

__all__ = ["chromium"]  # a fixture

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (package chromium)"),
    pytest.mark.skipif(not (WEB_DIR / "index.html").exists(), reason="the web app is not built (make web)"),
]
PATIENCE = 90_000  #: ms: pods are started
AGENT = """\
name: on-the-cluster
engine: kubernetes
queues: [training]
kubernetes:
  kubeconfig: {kubeconfig}
  namespace: {namespace}
"""
COMMAND = "sh -c 'while :; do echo rank $NODE_RANK says hello; sleep 1; done'"


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path / "muster")
    installation.start()
    try:
        yield installation
    finally:
        installation.destroy()


@pytest.fixture
def page(chromium: Browser, muster: Installation) -> Iterator[Page]:
    context = chromium.new_context(base_url=muster.url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture
def agent(cluster: Cluster, namespace: str, muster: Installation, tmp_path: Path) -> list[str]:
    """The command of an agent that may do all."""
    config = tmp_path / "agent.yaml"
    config.write_text(AGENT.format(kubeconfig=cluster.kubeconfig, namespace=namespace))
    return [*MUSTER, "agent", "--config", str(config), "--data-dir", str(tmp_path / "agent")]


def test_a_training_on_kubernetes_is_made_and_watched_in_the_browser(
    cluster: Cluster, namespace: str, muster: Installation, page: Page, agent: list[str], tmp_path: Path
) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    cluster.api.post(path, json=claim).raise_for_status()
    make_queue(page)
    with (tmp_path / "agent.log").open("wb") as log:
        process = subprocess.Popen(agent, env=muster.env, stdout=log, stderr=log)
    try:
        expect(state(page)).to_have_text("Open")
        run = launch(page, name="pair", nodes="2", gpus="1")
        watch(page)
        see_the_cluster(page)
        see_why_it_waits(page)
        page.goto(f"/runs/{run}")
        confirm(page, "Stop")
        expect(state(page)).to_have_text("Stopped")
        confirm(page, "Delete")
        expect(page).to_have_url(re.compile("/runs$"))
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        until(lambda: not cluster.api.get(jobs).json()["items"], seconds=90, what="nothing is left")
    finally:
        process.terminate()
        process.wait(60)


def make_queue(page: Page) -> None:
    page.goto("/queues")
    page.get_by_role("button", name="Create queue").click()
    form = queue_drawer(page)
    form.get_by_label("Name", exact=True).fill("training")
    form.get_by_role("combobox", name="Start from").click()
    page.get_by_role("option", name="Distributed training, written by Muster").click()
    editor = page.get_by_role("textbox", name="Configuration as YAML or JSON")
    editor.get_by_text("cpu: 4").click()  # more than this cluster has
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.type("50m")
    page.keyboard.press("Escape")
    form.get_by_role("button", name="Parse configuration").click()
    form.get_by_label("Type of gpus").select_option("integer")
    form.get_by_label("Default of gpus").fill("0")
    form.get_by_label("Max of gpus").fill("8")
    form.get_by_label("Type of memory").select_option("quantity")
    form.get_by_label("Default of memory").fill("64Mi")
    form.get_by_text("Rules and limits").click()
    form.get_by_label("Default image").fill(BUSYBOX)
    form.get_by_label("volumes").check()
    expect(form.get_by_role("region", name="The rendered object")).to_contain_text("kind: Job")
    picture(page, "kubernetes-create-queue", "light")
    form.get_by_role("button", name="Create queue").click()
    expect(state(page)).to_have_text("No agent online")


def launch(page: Page, *, name: str, nodes: str, gpus: str) -> str:
    page.get_by_role("button", name="Launch", exact=True).click()
    form = launch_drawer(page)
    form.get_by_role("combobox", name="Queue").select_option(value="training")
    form.get_by_role("textbox", name="Command").fill(COMMAND)
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("gpus").fill(gpus)
    unfold(form, "Training shape")
    form.get_by_label("Nodes", exact=True).fill(nodes)
    form.get_by_label("Launcher").select_option("plain")
    unfold(form, "Resources and volumes")
    expect(form).to_contain_text("1 claim of the queue's namespace to choose from")
    expect(form.get_by_role("region", name="The rendered manifest")).to_contain_text("kind: Job")
    picture(page, f"kubernetes-launch-{name}", "light")
    form.get_by_role("button", name="Launch", exact=True).click()
    return launched(page)


def watch(page: Page) -> None:
    expect(state(page)).to_have_text("Running")
    for tab, shows in (
        ("Replicas", "Running"),
        ("Logs", "rank 1 says hello"),
        ("Events", "Scheduled"),
        ("Manifest", "completionMode: Indexed"),
        ("Resources", "Memory"),
        ("Overview", "It is running"),
    ):
        page.get_by_role("tab", name=tab).click()
        panel = page.get_by_role("tabpanel")
        expect(panel).to_contain_text(shows)
        if tab == "Replicas":
            expect(panel.get_by_role("table").locator("tbody tr")).to_have_count(2)
            expect(page.get_by_role("list", name="Replicas by node")).to_be_visible()
        if tab == "Logs":
            log = page.get_by_role("log")
            expect(log).to_contain_text("rank 0 says hello")
            page.get_by_role("combobox", name="Replica").click()
            page.get_by_role("option", name="Rank 1").click()
            expect(log).not_to_contain_text("rank 0")
        check_accessible(page)
        picture(page, f"kubernetes-{tab.lower()}", "light")


def see_the_cluster(page: Page) -> None:
    page.goto("/cluster")
    nodes = page.get_by_role("table", name=re.compile("Nodes of (?!Machines)")).locator("tbody tr")
    expect(nodes.first).to_contain_text("2 of 4")  # of its GPUs, beside the pair
    expect(page.get_by_role("table", name="Volume claims")).to_contain_text("data")
    check_accessible(page)
    picture(page, "kubernetes-cluster", "light")


def see_why_it_waits(page: Page) -> None:
    launch(page, name="too-big", nodes="1", gpus="8")
    why = page.get_by_role("region", name="Why it waits")
    expect(why).to_contain_text("Insufficient nvidia.com/gpu")
    expect(why).to_contain_text("GPU")
    expect(state(page)).to_have_text("Pending")
    picture(page, "kubernetes-waits", "light")
    confirm(page, "Stop")
    expect(state(page)).to_have_text("Stopped")
