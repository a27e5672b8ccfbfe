"""Objects that Muster writes itself, from a kind and a pod template, in the shape of a training."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters import IMAGE, work
from muster.domain.errors import BadCommand, BadQuantity, BadTemplate, BadTraining, MusterError
from muster.domain.policy import Security
from muster.domain.provenance import Origins, pointers, uniform
from muster.domain.resources import Resources
from muster.domain.training import Training
from muster.engine.kubernetes.pods import find
from muster.engine.kubernetes.render import render, trace
from muster.engine.kubernetes.restricted import violations
from muster.engine.launcher import launcher_text

GPUS = {"resources": {"limits": {"nvidia.com/gpu": 4, "memory": "32Gi", "cpu": 8}}}


def template(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    return {"kind": "Job", "template": {"spec": {"containers": list(containers) or [{}], **pod}}}


def items(config: Any, *command: str, **more: Any) -> list[Any]:
    made: Any = render(work(config, *command, **more)).manifest
    return list(made["items"]) if made["kind"] == "List" else [made]


def env_of(container: Any) -> dict[str, Any]:
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def test_two_nodes_become_an_indexed_job_with_a_service_and_the_launcher() -> None:
    made = items(template(GPUS), "train.py", "--x", training=Training(nodes=2, procs_per_node="gpu"))
    job, service, script = made
    own = "muster-r123456789-2"
    assert [item["kind"] for item in made] == ["Job", "Service", "ConfigMap"]
    assert (job["apiVersion"], job["metadata"]["name"]) == ("batch/v1", own)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert {key: value for key, value in spec.items() if key != "template"} == {
        "podFailurePolicy": {
            "rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]
        },
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": 86400,
    }
    assert (pod["restartPolicy"], pod["subdomain"]) == ("Never", f"{own}-nodes")
    assert service["metadata"]["name"] == f"{own}-nodes"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": own},
    }
    assert script["metadata"]["name"] == f"{own}-launcher"
    assert (script["data"], script["immutable"]) == ({"launcher.sh": launcher_text()}, True)
    assert all(item["metadata"]["labels"]["muster.dev/attempt"] == "2" for item in made)
    (main,) = pod["containers"]
    assert main["command"] == ["sh", "/muster/bin/launcher.sh", "train.py", "--x"]
    assert main["image"] == IMAGE
    assert main["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert main["volumeMounts"] == [
        {"name": "muster-shm", "mountPath": "/dev/shm"},
        {"name": "muster-output", "mountPath": "/muster/output"},
        {"name": "muster-launcher", "mountPath": "/muster/bin", "readOnly": True},
        {"name": "muster-error", "mountPath": "/muster/error"},
    ]
    assert pod["volumes"] == [
        {"name": "muster-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "32Gi"}},
        {"name": "muster-output", "emptyDir": {}},
        {"name": "muster-launcher", "configMap": {"name": f"{own}-launcher"}},
        {"name": "muster-error", "emptyDir": {}},
    ]
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    told = env_of(main)
    assert {name: value for name, value in told.items() if not name.startswith("MUSTER_")} == {
        "NNODES": "2",
        "NPROC_PER_NODE": "4",
        "NODE_RANK": {"fieldRef": {"fieldPath": index}},
        "MASTER_ADDR": f"{own}-0.{own}-nodes",
        "MASTER_PORT": "29500",
        "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
    }
    assert (told["MUSTER_LAUNCHER"], told["MUSTER_RDZV_TIMEOUT"]) == ("torchrun", "600")
    assert told["MUSTER_ERROR_DIR"] == "/muster/error"
    assert told["MUSTER_TERMINATION_LOG"] == "/dev/termination-log"


def test_members_and_what_they_ask_for_are_counted() -> None:
    rendered = render(work(template(GPUS), "a", training=Training(nodes=3)))
    assert rendered.replicas == 3
    assert rendered.resources == Resources(millicpus=8000, memory=32 * 2**30, gpus=4) * 3


def test_one_node_becomes_a_plain_job() -> None:
    job, script = items(template(), "train.py", training=Training(procs_per_node=2))
    told = env_of(job["spec"]["template"]["spec"]["containers"][0])
    assert script["kind"] == "ConfigMap"
    assert not {"completionMode", "completions", "parallelism"} & set(job["spec"])
    assert "subdomain" not in job["spec"]["template"]["spec"]
    assert (told["NODE_RANK"], told["MASTER_ADDR"], told["NPROC_PER_NODE"]) == ("0", "127.0.0.1", "2")


def test_without_a_training_the_image_runs_as_it_is() -> None:
    (job,) = items(template())
    (with_command,) = items(template(), "train.py")
    main = job["spec"]["template"]["spec"]["containers"][0]
    assert job["spec"]["podFailurePolicy"]
    assert "command" not in main
    assert "NNODES" not in env_of(main)
    other = with_command["spec"]["template"]["spec"]["containers"][0]
    assert other["command"] == ["python", "train.py"]


def test_what_the_owner_wrote_of_the_object_stands() -> None:
    config = {
        "kubernetes": {
            "metadata": {"name": "t-${run_name}", "namespace": "lab", "labels": {"kueue": "q"}},
            **template(
                {
                    "name": "main",
                    "command": ["nice", "-n", "5"],
                    "terminationMessagePolicy": "File",
                    "terminationMessagePath": "/t",
                    "env": [{"name": "MASTER_PORT", "value": "1234"}, {"name": "NNODES", "value": "9"}],
                },
                {"image": "sidecar"},
                nodeSelector={"gpu": "a100"},
                hostNetwork=True,
            ),
        }
    }
    job, service, script = items(config, "a", training=Training(nodes=2), env={"NODE_RANK": "7"})
    pod = job["spec"]["template"]["spec"]
    main, sidecar = pod["containers"]
    told = env_of(main)
    assert job["metadata"]["name"] == "t-my-run"
    assert job["metadata"]["labels"]["kueue"] == "q"
    assert {item["metadata"]["namespace"] for item in (job, service, script)} == {"lab"}
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": "t-my-run"}
    assert (pod["nodeSelector"], pod["dnsPolicy"]) == ({"gpu": "a100"}, "ClusterFirstWithHostNet")
    assert (main["command"], main["args"]) == (
        ["nice", "-n", "5"],
        ["sh", "/muster/bin/launcher.sh", "a"],
    )
    assert (main["terminationMessagePolicy"], told["MUSTER_TERMINATION_LOG"]) == ("File", "/t")
    assert told["MASTER_ADDR"] == "t-my-run-0.muster-r123456789-2-nodes"
    assert (told["MASTER_PORT"], told["NNODES"]) == ("1234", "2")
    assert "fieldRef" in told["NODE_RANK"]
    assert "NNODES" not in env_of(sidecar)


def test_other_objects_go_with_what_muster_writes() -> None:
    claim = {"kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteMany"]}}
    made = items({"kind": "List", "items": [claim, template()]}, "a", training=Training(nodes=2))
    assert [item["kind"] for item in made] == ["PersistentVolumeClaim", "Job", "Service", "ConfigMap"]
    assert len({(item["kind"], item["metadata"]["name"]) for item in made}) == 4


@pytest.mark.parametrize(
    ("limits", "shm", "size"),
    [
        ({"memory": "8Gi"}, None, "8Gi"),
        ({"memory": "8Gi"}, "2Gi", "2Gi"),
        ({"memory": "8Gi"}, "8Gi", "8Gi"),
        ({"memory": "${MEMORY}"}, "2Gi", "2Gi"),
        ({}, "2Gi", "2Gi"),
        ({}, None, None),
    ],
)
def test_shared_memory_stays_within_the_memory_of_the_node(
    limits: dict[str, Any], shm: str | None, size: str | None
) -> None:
    (job, *_) = items(template({"resources": {"limits": limits}}), "a", training=Training(shm=shm))
    volume = job["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]
    assert volume == {"medium": "Memory", **({"sizeLimit": size} if size else {})}


def test_gpus_that_are_only_requested_become_limits() -> None:
    (job, *_) = items(template({"resources": {"requests": {"amd.com/gpu": 2, "cpu": 1}}}))
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"amd.com/gpu": 2, "cpu": 1}, "limits": {"amd.com/gpu": 2}}


BAD: list[tuple[dict[str, Any], dict[str, Any], type[MusterError], str]] = [
    (template(), {"training": Training(nodes=2)}, BadCommand, "A training needs a command"),
    (template(), {"training": Training(procs_per_node="gpu"), "command": ("a",)}, BadTraining, "needs GPUs"),
    (
        template({"resources": {"limits": {"memory": "1Gi"}}}),
        {"training": Training(shm="2Gi"), "command": ("a",)},
        BadTraining,
        "more than the memory",
    ),
    (template(), {"training": Training(shm="0"), "command": ("a",)}, BadTraining, "shm=0 is not possible"),
    (template(), {"training": Training(shm="much"), "command": ("a",)}, BadQuantity, "shared memory"),
    (template(restartPolicy="Always"), {}, BadTemplate, "restartPolicy: Always"),
    (template(hostNetwork=True), {"security": Security.RESTRICTED}, BadTemplate, "hostNetwork: true"),
]


@pytest.mark.parametrize(("config", "more", "kind", "told"), BAD)
def test_what_cannot_be_is_refused(
    config: dict[str, Any], more: dict[str, Any], kind: type[MusterError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        items(config, *more.pop("command", ()), **more)


@pytest.mark.parametrize("nodes", [1, 2])
def test_everything_written_here_passes_the_restricted_standard(nodes: int) -> None:
    training = Training(nodes=nodes, procs_per_node=2, shm="1Gi")
    (job, *_) = items(template(), "train.py", training=training, security=Security.RESTRICTED)
    (pod,) = find(job)
    assert list(violations(pod)) == []


@given(
    st.text(st.sampled_from("abc-0"), min_size=1, max_size=70).filter(lambda text: text.strip("-")),
    st.integers(1, 4096),
)
def test_the_host_name_of_the_last_member_is_legal_whatever_the_owner_calls_it(name: str, nodes: int) -> None:
    config = {"metadata": {"name": f"{name}${{run_id}}"}, **template()}
    (job, *_) = items(config, "a", training=Training(nodes=nodes))
    made = job["metadata"]["name"]
    last = f"{made}-{nodes - 1}" if nodes > 1 else made
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", last)


@given(st.integers(1, 3), st.lists(st.sampled_from(["$(A)", "${run_id}", "x", ""]), max_size=3))
def test_a_preview_renders_the_same_and_knows_the_source_of_every_leaf(nodes: int, words: list[str]) -> None:
    config = template({**GPUS, "image": "${image_uri}"}, {"image": "side"})
    given = work(config, "train.py", *words, training=Training(nodes=nodes), env={"A": "b"})
    rendered, tree = trace(given, Origins(config=uniform(config, "queue v1")))
    assert rendered == render(given)
    assert uniform(tree, "x") == uniform(rendered.manifest, "x")
    sources = pointers(tree)
    base = "/items/0/spec/template/spec/containers/0"
    assert sources[f"{base}/resources/limits/cpu"] == "queue v1"
    assert (sources[f"{base}/command/1"], sources[f"{base}/command/2"]) == ("injected", "launch")
    assert sources["/items/0/spec/backoffLimit"] == "injected"
    assert (sources["/items/0/kind"], sources["/items/1/kind"]) == ("queue v1", "injected")
