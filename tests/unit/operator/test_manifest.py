"""What a cluster needs for the operator, as objects to apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.cli.main import main
from muster.operator import manifest
from muster.operator.spec import read_spec
from unit.operator.world import spec_of

VERSION = manifest.crd()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]["properties"]


def fields(node: dict[str, Any], at: str = "") -> set[str]:
    """Every field of a schema, as a path."""
    found = set()
    for name, child in node.get("properties", {}).items():
        found |= {f"{at}{name}"} | fields(child, f"{at}{name}.")
    if "items" in node:
        found |= fields(node["items"], at)
    return found


def test_all_documented_fields_are_in_the_schema() -> None:
    wanted = """
    replicaSpecs.type replicaSpecs.replicas replicaSpecs.restartPolicy replicaSpecs.scalingWeight
    replicaSpecs.template torchrunConfig.enabled torchrunConfig.maxRestarts torchrunConfig.procPerNode
    torchrunConfig.rdzvBackend torchrunConfig.extraOptions runPolicy.activeDeadlineSeconds
    runPolicy.backoffLimit runPolicy.cleanUpPolicy runMode.debug.enabled runMode.debug.replicaSpecs.command
    runMode.pause.enabled runMode.pause.resumeSpecs.skipInitContainer runMode.pause.resumeSpecs.command
    runMode.pause.resumeSpecs.args scheduler.t9kScheduler.queue scheduler.t9kScheduler.priority
    elastic.enabled elastic.minReplicas elastic.maxReplicas elastic.expectedReplicas tensorboardSpec
    """
    assert set(wanted.split()) <= fields(SCHEMA["spec"])
    status = "phase conditions.reason tasks.restartCount tasks.replicas.containers.exitCode backoffCount"
    counts = (
        f"aggregate.{phase}" for phase in "creating pending running succeeded failed unknown deleted".split()
    )
    assert {*status.split(), *counts} <= fields(SCHEMA["status"])


@pytest.mark.parametrize(
    "field",
    [
        {"runMode": {"debug": {"enabled": True}}},
        {"elastic": {"enabled": True}},
        {"tensorboardSpec": {"image": "t"}},
        {"scheduler": {"t9kScheduler": {"queue": "q"}}},
    ],
)
def test_the_schema_refuses_in_the_same_words_as_the_operator(field: dict[str, Any]) -> None:
    rules = {rule["message"] for rule in SCHEMA["spec"]["x-kubernetes-validations"]}
    assert set(read_spec({**spec_of(), **field}).refusals) <= rules


def test_the_defaults_of_the_schema_are_those_of_the_operator() -> None:
    spec = read_spec({**spec_of(worker=1), "torchrunConfig": {"enabled": True}})
    torchrun, policy = (
        SCHEMA["spec"]["properties"]["torchrunConfig"],
        SCHEMA["spec"]["properties"]["runPolicy"],
    )
    defaults = {name: field.get("default") for name, field in torchrun["properties"].items()}
    assert spec.torchrun is not None
    assert defaults["maxRestarts"] == spec.torchrun.max_restarts
    assert defaults["procPerNode"] == spec.torchrun.processes
    assert defaults["rdzvBackend"] == spec.torchrun.backend
    assert policy["properties"]["backoffLimit"]["default"] == spec.backoff_limit
    assert policy["properties"]["cleanUpPolicy"]["default"] == spec.clean_up


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["operator", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def kinds(listed: Any) -> list[str]:
    return [item["kind"] for item in listed["items"]]


def test_a_namespaced_operator_has_no_rights_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "role", "--namespace", "ml", "--home", "ops")
    assert kinds(made) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    (rule,) = made["items"][1]["rules"]
    assert (rule["verbs"], rule["resourceNames"]) == (["get"], ["pytorchtrainingjobs.batch.tensorstack.dev"])
    assert made["items"][3]["metadata"]["namespace"] == "ml"
    assert made["items"][4]["subjects"] == [
        {"kind": "ServiceAccount", "name": "muster-operator", "namespace": "ops"}
    ]


def test_the_manifest_has_all_that_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "manifest", "--image", "muster:1")
    assert kinds(made) == [
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
    ]
    pod = made["items"][-1]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "muster-operator"
    assert pod["containers"][0]["command"] == ["muster", "operator", "run"]


def test_no_right_reaches_a_secret_or_changes_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "role")
    rules = [rule for item in made["items"] for rule in item.get("rules", ())]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert "*" not in {part for right in granted for part in right}
    assert not {resource for resource, _ in granted} & {"secrets", "configmaps", "nodes", "pods/exec"}
    on_jobs = {verb for resource, verb in granted if resource == "pytorchtrainingjobs"}
    assert on_jobs == {"list", "watch"}


def test_the_definition_is_printed_as_it_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operator", "crd"]) == 0
    assert capsys.readouterr().out == manifest.crd_text()
