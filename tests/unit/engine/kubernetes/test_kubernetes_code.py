"""Code in a pod without an image build: what is added, and where the program starts."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import IMAGE, expanded, job, work
from muster.domain.errors import BadInput
from muster.domain.policy import Security
from muster.domain.provenance import Origins, uniform
from muster.domain.resources import Resources
from muster.domain.training import Training
from muster.engine.kubernetes.code import script
from muster.engine.kubernetes.pods import find
from muster.engine.kubernetes.render import render, trace
from muster.engine.kubernetes.restricted import violations

LIMITS = {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 1}


def pod_of(config: Any, *command: str, **more: Any) -> Any:
    made: Any = render(work(config, *command, has_code=True, **more)).manifest
    workload = made["items"][0] if made["kind"] == "List" else made
    return workload["spec"]["template"]["spec"]


def test_an_init_container_of_the_runs_image_brings_the_code_into_the_working_directory() -> None:
    pod = pod_of(job({"imagePullPolicy": "Always", "resources": {"limits": LIMITS}}), "train.py")
    (init,), (main,) = pod["initContainers"], pod["containers"]
    secret = "muster-r123456789-2"
    assert (main["workingDir"], main["command"]) == ("/muster/code", ["python", "train.py"])
    assert {"name": "muster-code", "emptyDir": {}} in pod["volumes"]
    assert {"name": "muster-code", "mountPath": "/muster/code"} in main["volumeMounts"]
    assert init["name"] == "muster-code"
    assert (init["image"], init["imagePullPolicy"]) == (IMAGE, "Always")
    assert [expanded(word) for word in init["command"]] == ["sh", "-c", script(), "sh", "/muster/code"]
    assert init["volumeMounts"] == [{"name": "muster-code", "mountPath": "/muster/code"}]
    assert init["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert init["resources"] == {"limits": {"cpu": 2, "memory": "1Gi"}}
    assert init["securityContext"] == main["securityContext"]
    assert init["env"] == [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for key in ("MUSTER_CODE_URL", "MUSTER_CODE_KEY")
    ]
    assert not any(item["name"].startswith("MUSTER_CODE") for item in main["env"])


def test_the_code_goes_to_every_kind_of_pod_behind_the_owners_own_preparations() -> None:
    task = {
        "template": {"spec": {"containers": [{}, {"image": "x"}], "initContainers": [{"image": "first"}]}}
    }
    config = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "spec": {"tasks": [task, {**task, "replicas": 2}]},
    }
    made: Any = render(work(config, "train.py", has_code=True)).manifest
    for task in made["spec"]["tasks"]:
        pod: Any = task["template"]["spec"]
        assert [one["name"] for one in pod["initContainers"]] == ["init0", "muster-code"]
        assert pod["containers"][0]["workingDir"] == "/muster/code"
        assert "workingDir" not in pod["containers"][1]


@pytest.mark.parametrize(
    ("own", "folder", "start"),
    [
        (None, "/muster/code", "/muster/code"),
        ("", "/muster/code", "/muster/code"),
        ("/home/me", "/home/me", "/home/me"),
        ("${WORK}", "${WORK}", "${WORK}"),
        ("sub/folder", "/muster/code", "/muster/code/sub/folder"),
    ],
)
def test_the_program_starts_in_the_code_or_below_it(own: str | None, folder: str, start: str) -> None:
    pod = pod_of(job({} if own is None else {"workingDir": own}), "a")
    assert pod["initContainers"][0]["command"][-1] == folder
    assert pod["containers"][0]["workingDir"] == start


def test_the_files_are_those_of_the_user_who_runs_the_program() -> None:
    pod = pod_of(job({"securityContext": {"runAsUser": 7, "privileged": True}}), "a")
    context = pod["initContainers"][0]["securityContext"]
    assert (context["runAsUser"], context["allowPrivilegeEscalation"]) == (7, False)
    assert "privileged" not in context


def test_bringing_code_takes_nothing_more_of_the_cluster() -> None:
    config = job({"resources": {"limits": LIMITS}}, {"image": "x", "resources": {"limits": {"cpu": 1}}})
    rendered = render(work(config, "a", has_code=True))
    assert rendered.resources == Resources(millicpus=3000, memory=2**30, gpus=1)


BAD: list[tuple[dict[str, Any], str]] = [
    (job({"workingDir": "/"}), "starts its program in /, where the code cannot be put"),
    (
        job({"workingDir": "/data", "volumeMounts": [{"name": "x", "mountPath": "/data/"}]}),
        "starts its program in /data",
    ),
    (
        {"kind": "TrainJob", "apiVersion": "trainer.kubeflow.org/v1alpha1", "spec": {"trainer": {}}},
        "The TrainJob of queue 'gpu' has no pods of its own",
    ),
]


@pytest.mark.parametrize(("config", "told"), BAD)
def test_where_code_cannot_be_brought_it_is_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        render(work(config, "a", has_code=True))


@pytest.mark.parametrize("config", [job(), {"template": {"spec": {"containers": [{}]}}}])
def test_it_passes_the_restricted_standard(config: dict[str, Any]) -> None:
    training = Training(nodes=2) if "template" in config else None
    given = work(config, "train.py", has_code=True, security=Security.RESTRICTED, training=training)
    made: Any = render(given).manifest
    (pod,) = find(made["items"][0] if made["kind"] == "List" else made)
    assert [one["name"] for one in pod.init_containers] == ["muster-code"]
    assert list(violations(pod)) == []


def test_a_preview_knows_where_all_of_it_came_from() -> None:
    given = work(job({"workingDir": "/w"}), "train.py", has_code=True)
    rendered, tree = trace(given, Origins(config=uniform(given.config, "queue v1")))
    assert rendered == render(given)
    assert uniform(tree, "x") == uniform(rendered.manifest, "x")
    pod = tree["spec"]["template"]["spec"]
    assert pod["containers"][0]["workingDir"] == "queue v1"
    assert pod["initContainers"][0]["command"][0] == "injected"
