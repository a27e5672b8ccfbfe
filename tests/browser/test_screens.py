"""Every screen, every drawer and dialog: accessible in both colour schemes, and a picture of each is kept.

The pictures go to `.web/screenshots`, for people to look at. Queues and agents have theirs in
`test_queue_screens`, jobs, launches and settings in the tests of those.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from accessibility import check_accessible
from browser.hands import launch_drawer, picture, unfold
from installation import Installation, until
from muster.domain.observation import ReplicaState
from muster.wire.agents import (
    AgentRequest,
    PollRequest,
    ReplicaFact,
    ReportBatch,
    ReportModel,
    UsageBatch,
    UsageSample,
)
from muster.wire.clusters import ClusterNodeModel, ClusterReport, VolumeClaimModel
from muster.wire.groups import GridRequest
from muster.wire.queues import QueueRequest
from muster.wire.runs import LaunchRequest, ResourcesModel

Scheme = Literal["light", "dark"]
UNBOUNDED = ResourcesModel(millicpus=2**59, memory=2**59, gpus=2**30)
VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "spec": {
        "minAvailable": 2,
        "tasks": [
            {"name": name, "replicas": 1, "template": {"spec": {"containers": [{"name": name}]}}}
            for name in ("master", "worker")
        ],
    },
}
TRAINING = {"kind": "Job", "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}}


@pytest.fixture(scope="module")
def world(muster: Installation) -> Mapping[str, str]:
    """Runs in every state, and a cluster that an agent tells of. Name → id."""
    client = muster.client()
    fails = "for i in $(seq 40); do echo step $i; done; python3 -c \"raise ValueError('lr is nan')\""
    runs = {
        "nan": muster.launch(["sh", "-c", fails], name="nan", config={"lr": 9}),
        "fine": muster.launch(["sh", "-c", "echo fine"], name="fine", config={"lr": 1}),
        "pair": muster.launch(
            ["sh", "-c", "while :; do echo rank $NODE_RANK; sleep 1; done"],
            name="pair",
            training={"nodes": 2, "launcher": "plain"},
            values={"gpus": 2, "cpus": 0.1},
        ),
    }
    until(lambda: runs["pair"].state == "running", what="running")
    runs["nan"].wait(60)
    runs["fine"].wait(60)
    runs["waits"] = muster.launch(["true"], name="waits-for-gpus", values={"gpus": 4})
    grid = LaunchRequest(command=["true"], project="sweeps", name="sweep")
    client.launch_grid(GridRequest(launch=grid, grid={"lr": [0.1, 0.2, 0.3]}))
    tell_of_a_cluster(muster)
    return {name: run.id for name, run in runs.items()}


def tell_of_a_cluster(muster: Installation) -> None:
    """As an agent on Kubernetes does; one that runs nothing, so that no cluster is needed here."""
    client = muster.client()
    for name, config, allow in (("training", TRAINING, ["resources", "volumes"]), ("volcano", VOLCANO, [])):
        client.create_queue(
            QueueRequest.model_validate(
                {"name": name, "resource": "kubernetes", "config": config, "allow": allow}
            )
        )
    agent = client.register_agent(
        AgentRequest(
            name="on-the-cluster",
            incarnation="incarnation-1",
            engine="kubernetes",
            host="10.0.0.1:6443",
            locality="kubernetes/cluster-1/ml",
            version="1",
            max_jobs=100,
            total=UNBOUNDED,
            queues=["training", "volcano"],
        )
    )
    size = ResourcesModel(millicpus=32_000, memory=2**37, gpus=8)
    free = ResourcesModel(millicpus=8_000, memory=2**36, gpus=3)
    client.send_cluster(
        agent.id,
        ClusterReport(
            incarnation="incarnation-1",
            namespace="ml",
            nodes=[
                ClusterNodeModel(name="gpu-a", gpu="Tesla-T4", total=size, free=free, pods=9),
                ClusterNodeModel(name="gpu-b", closed="cordoned", total=size, free=size),
            ],
            claims=[
                VolumeClaimModel(
                    namespace="ml", name="tutorial", size=2**30, modes=["ReadWriteMany"], bound=True
                ),
                VolumeClaimModel(namespace="elsewhere", name="not-ours"),
            ],
        ),
    )


def _nothing(page: Page) -> None:
    pass


def _press(*names: str) -> Callable[[Page], None]:
    def press(page: Page) -> None:
        for name in names:
            page.get_by_role("button", name=name, exact=True).first.click()

    return press


def _keys(*keys: str) -> Callable[[Page], None]:
    def press(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)

    return press


def _select_two(page: Page) -> None:
    boxes = page.get_by_role("checkbox")
    boxes.nth(1).check()
    boxes.nth(2).check()
    expect(page.get_by_role("toolbar", name="2 selected")).to_be_visible()


#: name → address, text that is there when it is whole, what to do before it is looked at
SCREENS: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "runs": ("/runs", "waits-for-gpus", _nothing),
    "runs-selected": ("/runs?project=default", "waits-for-gpus", _select_two),
    "runs-no-match": ("/runs?q=no-such-run", "No run matches", _nothing),
    "run-failed": ("/runs/{nan}", "ValueError: lr is nan", _nothing),
    "run-waits": ("/runs/{waits}", "It is number 1 in queue", _nothing),
    "run-running": ("/runs/{pair}", "It is running on", _nothing),
    "run-replicas": ("/runs/{pair}?tab=replicas", "GPU-fake-0", _nothing),
    "run-logs": ("/runs/{nan}?tab=logs", "step 1", _nothing),
    "run-logs-all": ("/runs/{pair}?tab=logs", "rank 1", _nothing),
    "run-resources": ("/runs/{pair}?tab=resources", "Memory", _nothing),
    "run-events": ("/runs/{pair}?tab=events", "Taken by agent", _nothing),
    "run-manifest": ("/runs/{pair}?tab=manifest", "injected", _nothing),
    "run-stop": ("/runs/{pair}", "It is running on", _press("Stop")),
    "run-delete": ("/runs/{nan}", "ValueError: lr is nan", _press("Delete")),
    "run-clone": ("/runs/{nan}", "ValueError: lr is nan", _press("Clone")),
    "run-gone": ("/runs/zzzzzzzzzz", "zzzzzzzzzz", _nothing),
    "compare": ("/compare?runs={nan},{fine}", "Outcome", _nothing),
    "compare-nothing": ("/compare", "Nothing to compare", _nothing),
    "cluster": ("/cluster", "cordoned", _nothing),
    "palette": ("/runs", "waits-for-gpus", _keys("Control+k")),
    "shortcuts": ("/runs", "waits-for-gpus", _keys("?")),
    "not-found": ("/no/such/page/here", "Runs", _nothing),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_accessible(
    muster: Installation, page: Page, world: Mapping[str, str], name: str, scheme: Scheme
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    address, shows, prepare = SCREENS[name]
    page.goto(address.format(**world))
    expect(page.locator("#root").get_by_text(shows).first).to_be_visible()
    prepare(page)
    check_accessible(page)
    picture(page, name, scheme)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_is_accessible_and_says_what_is_wrong(
    muster: Installation, page: Page, scheme: Scheme
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.context.set_extra_http_headers({"Authorization": "Bearer nobody"})
    page.goto("/runs")
    expect(page.get_by_role("heading", name="Sign in to Muster")).to_be_visible()
    check_accessible(page)
    picture(page, "sign-in", scheme)
    page.context.set_extra_http_headers({})
    page.get_by_label("API key").fill("x" * 48)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    check_accessible(page)
    page.get_by_label("API key").fill(muster.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("empty"))
    try:
        installation.start()
        yield installation
    finally:
        installation.destroy()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_page_is_accessible(empty: Installation, chromium: Browser, scheme: Scheme) -> None:
    context = chromium.new_context(base_url=empty.url, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    for name, path, shows in (
        ("first-run", "/", "Run the example"),
        ("jobs-none", "/jobs", "No jobs yet"),
        ("cluster-machine", "/cluster", "Machines"),
    ):
        page.goto(path)
        expect(page.locator("#root").get_by_text(shows).first).to_be_visible()
        check_accessible(page)
        picture(page, name, scheme)
    context.close()


def test_the_cluster_shows_what_is_free_by_node(muster: Installation, page: Page, world: object) -> None:
    page.goto("/cluster")
    machines = page.get_by_role("table", name="Nodes of Machines").locator("tbody tr")
    expect(machines).to_have_count(1)
    expect(machines).to_contain_text("0 of 4")
    nodes = page.get_by_role("table", name="Nodes of 10.0.0.1:6443")
    expect(nodes.get_by_role("row").filter(has_text="gpu-a")).to_contain_text("3 of 8")
    expect(nodes.get_by_role("row").filter(has_text="gpu-b")).to_contain_text("cordoned")
    expect(page.get_by_role("table", name="Volume claims")).to_contain_text("tutorial")


def test_the_use_of_gpus_is_drawn_for_each_replica(muster: Installation, page: Page, world: object) -> None:
    """As an agent tells it that can ask its GPUs; there are none here."""
    client = muster.client()
    client.create_queue(QueueRequest(name="measured", config={}))
    size = ResourcesModel(millicpus=8_000, memory=2**33, gpus=2)
    me = AgentRequest(
        name="measures",
        incarnation="incarnation-2",
        engine="process",
        host="gpu-host",
        locality="gpu-host",
        version="1",
        max_jobs=2,
        total=size,
        queues=["measured"],
    )
    agent = client.register_agent(me)
    run = muster.launch(["train"], queue="measured", name="hot", training={"nodes": 2, "launcher": "plain"})
    asked = PollRequest(incarnation=me.incarnation, slots=1, free=size, wait=20)
    (claim,) = client.poll_work(agent.id, asked).claims
    seen = [
        ReportModel(
            run_id=run.id,
            attempt=claim.attempt,
            epoch=claim.epoch,
            seq=rank + 1,
            fact=ReplicaFact(rank=rank, state=ReplicaState.RUNNING, node="gpu-host"),
        )
        for rank in range(2)
    ]
    client.send_reports(agent.id, ReportBatch(incarnation=me.incarnation, reports=seen))
    now = time.time()
    samples = [
        UsageSample(
            run_id=run.id,
            attempt=claim.attempt,
            rank=rank,
            at=now + 10 * n,
            gpu=0.3 * n + 0.1 * rank,
            gpu_memory=n * 2**30,
        )
        for rank in range(2)
        for n in range(3)
    ]
    client.send_usage(agent.id, UsageBatch(incarnation=me.incarnation, samples=samples))
    page.goto(f"/runs/{run.id}?tab=resources")
    charts = page.locator(".charts")
    expect(charts).to_contain_text("GPU (%)")
    expect(charts).to_contain_text("GPU memory")
    gpu = page.get_by_role("figure", name="GPU (%)")
    expect(gpu).to_contain_text("Rank 060")
    expect(gpu).to_contain_text("Rank 170")
    check_accessible(page)
    picture(page, "run-gpus", "light")
    run.stop()


def test_a_launch_is_offered_the_claims_of_its_namespace(
    muster: Installation, page: Page, world: object
) -> None:
    entity = muster.client().get_me().default_entity
    page.goto(f"/runs?launch=queue:{entity}/training")
    form = launch_drawer(page)
    unfold(form, "Resources and volumes")
    expect(form).to_contain_text("1 claim of the queue's namespace to choose from")
    assert form.locator("datalist option").evaluate_all("all => all.map((one) => one.value)") == ["tutorial"]


def test_the_resource_config_is_edited_and_becomes_overrides(
    muster: Installation, page: Page, world: object, tmp_path: Path
) -> None:
    entity = muster.client().get_me().default_entity
    page.goto(f"/runs?launch=queue:{entity}/volcano")
    form = launch_drawer(page)
    form.get_by_role("radio", name="Image").check()
    form.get_by_role("textbox", name="Image").fill("acme/train:main")
    unfold(form, "Resource config")
    editor = form.get_by_role("textbox", name="Resource config")
    expect(editor).to_contain_text("minAvailable: 2")
    check_accessible(page)
    editor.get_by_text("replicas: 1").last.click()
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.type("3")
    expect(form.get_by_text("Changed: spec.tasks[name=worker].replicas.")).to_be_visible()
    form.get_by_role("tab", name="Command line").click()
    expect(form).to_contain_text("--override 'spec.tasks[name=worker].replicas=3'")
    editor.get_by_text("minAvailable: 2").click()
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.keyboard.type("4")
    expect(form.get_by_text("Changed: spec.minAvailable, ")).to_be_visible()
    editor.get_by_text("kind: Job").click()
    page.keyboard.press("End")
    page.keyboard.type("s")
    page.keyboard.press("Control+Enter")  # at once: what was just written is not passed over
    expect(form.locator(".resource-config .field-error")).to_contain_text("still being read")
    expect(form.get_by_text("Changed: kind, spec.minAvailable, ")).to_be_visible()
    form.get_by_role("button", name="Launch", exact=True).click()
    expect(form.locator(".field-error").first).to_contain_text("kind")
    assert muster.client().list_runs(queue="volcano").items == []
