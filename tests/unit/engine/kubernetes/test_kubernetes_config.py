"""What a queue for a cluster may be."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import job
from muster.domain.errors import BadInput
from muster.engine.kubernetes.config import check

SERVICE: dict[str, Any] = {"kind": "Service", "apiVersion": "v1"}
POD: dict[str, Any] = {"spec": {"containers": [{}]}}


@pytest.mark.parametrize(
    ("config", "workload"),
    [
        (job(), ()),
        ({"kubernetes": job()}, ("kubernetes",)),
        ({"kind": "List", "items": [SERVICE, job()]}, ("items", 1)),
        ({"kubernetes": {"kind": "List", "items": [job(), SERVICE]}}, ("kubernetes", "items", 0)),
        ({"kind": "Dance", "apiVersion": "dance.example/v1"}, ()),
        ({"kind": "List", "items": [{"kind": "Deployment", "apiVersion": "apps/v1"}, job()]}, ("items", 1)),
        ({"kind": "Job", "template": POD}, ()),
        ({"kubernetes": {"template": POD}}, ("kubernetes",)),
        ({"kind": "List", "items": [{"apiVersion": "batch/v1", "template": POD}, SERVICE]}, ("items", 0)),
    ],
)
def test_the_workload_is_found(config: dict[str, Any], workload: tuple[object, ...]) -> None:
    assert check(config).workload == workload


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "neither a kind nor a spec; it has nothing"),
        ({"image": "x"}, "neither a kind nor a spec; it has 'image'"),
        ({"kubernetes": [1]}, "not a Kubernetes object"),
        ({"kubernetes": {}, "docker": {}}, "neither a kind nor a spec"),
        ({"kind": "Job", "template": {}}, "has no `spec` with `containers`"),
        ({"kind": "Job", "template": {"deep": POD}}, "has no `spec` with `containers`"),
        ({"kind": "Job", "template": 3}, "has no `spec` with `containers`"),
        ({"kind": "TFJob", "template": POD}, "is a TFJob, which Muster cannot write itself"),
        ({"apiVersion": "acme.dev/v1", "kind": "Job", "template": POD}, "cannot write itself"),
        ({"kind": "Job", "template": POD, "nodes": 2}, "nodes"),
        ({"kind": "Job", "template": POD, "metadata": []}, "as its metadata"),
        ({"template": {"spec": {"containers": [{}], "restartPolicy": "OnFailure"}}}, "restartPolicy: OnFail"),
        ({"template": {"spec": {"containers": []}}}, "no container"),
        ({"kind": 3, "spec": {}}, "has 3 as its kind"),
        ({"apiVersion": "", "spec": {}}, "as its apiVersion"),
        ({"apiVersion": "x/v1", "spec": {}}, "no kind"),
        ({"kind": "Dance", "spec": {}}, "Dance without an apiVersion"),
        ({"kind": "CronJob", "apiVersion": "batch/v1"}, "does not run and end"),
        (SERVICE, "A Service does not run and end"),
        ({"metadata": "x", **job()}, "as its metadata"),
        ({"kind": "List"}, "no items"),
        ({"kind": "List", "items": []}, "no items"),
        ({"kind": "List", "items": [SERVICE]}, "here it is none"),
        ({"kind": "List", "items": [job(), {"kind": "Pod", **job()}]}, "here it is Job, Pod"),
        ({"kind": "List", "items": [job(), "x"]}, "Object 2 of the config is 'x'"),
        (job({}, {}), "Container 1 of a pod template has no image"),
        ({"spec": {"a": "b"}}, "The Job has no pods"),
        ({"kind": "Pod", "spec": {}}, "The Pod has no pods"),
        ({"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {}}}, "The PyTorchJob has no pods"),
        ({"spec": {"template": {"spec": {"containers": []}}}}, "no container"),
        ({"spec": {"template": {"spec": {"containers": ["x"]}}}}, "not a list of mappings"),
        (job(pod={"initContainers": {"a": 1}}), "initContainers of a pod template is not a list"),
        (job(pod={"volumes": "x"}), "volumes of a pod template is not a list"),
        (job({"env": {"A": "b"}}), "env of a pod template is not a list"),
        (job({"resources": {"limits": {"cpu": "many"}}}), "'many' is not a quantity of cpu"),
        (job({"resources": {"limits": {"nvidia.com/gpu": "500m"}}}), "whole number of GPUs"),
    ],
)
def test_what_cannot_be_a_run_is_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        check(config)
