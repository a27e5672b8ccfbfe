"""A Kubeflow PyTorchJob: in training mode a Master and the Workers, numbered by the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.engine.kubernetes.course import DEADLINE, Course, Object, Status, by_conditions
from muster.engine.kubernetes.gang import Gang, Meeting
from muster.engine.kubernetes.kinds.kind import (
    EXPIRES,
    MUSTER,
    NATIVE,
    NEVER,
    NO_RETRY,
    NOT,
    Feature,
    Form,
    Kind,
    Numbers,
    Rules,
)
from muster.engine.kubernetes.names import MAX
from muster.engine.kubernetes.write import Writer

GROUP = "kubeflow.org"
_ENDS = by_conditions({"Succeeded": Course.SUCCEEDED, "Failed": Course.FAILED})


def _read(item: Object) -> Status:
    status = _ENDS(item)
    if "active longer than specified deadline" in status.message:  # it has no reason of its own for that
        return replace(status, reason=DEADLINE)
    return status


def _write(writer: Writer, item: dict[str, Any], gang: Gang) -> Meeting:
    template = item.pop("template")
    roles: dict[str, Any] = {"Master": {"replicas": 1, **NEVER, "template": template}}
    if gang.nodes > 1:
        workers = roles["Worker"] = {}
        writer.put(workers, "replicas", gang.nodes - 1, gang.source)
        workers |= {**NEVER, "template": writer.copied(template)}
    # Not `Running`: when the master is done, the others may still be writing their last words.
    item["spec"] = {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": roles}
    return Meeting(gang=gang, env={})  # MASTER_ADDR and PET_NODE_RANK come from the operator


def _longest_name(nodes: int) -> int:
    """`<name>-worker-<index>` is the name of a pod, and of its Service."""
    return MAX - max(len(f"-worker-{nodes - 1}"), len("-master-0"))


RULES = Rules(policy={**NO_RETRY, **EXPIRES}, around=NEVER)
FEATURES = {
    Feature.GANG_PLACEMENT: NOT,
    Feature.GANG_RESTART: MUSTER,
    Feature.MEMBER_RESTART: NATIVE,
    Feature.SUSPEND: NATIVE,
    Feature.DEADLINE: NATIVE,
    Feature.CLEAN_UP: NATIVE,
    Feature.RANKS: NATIVE,
}


def kubeflow(name: str) -> Kind:
    """Another kind of the same operator, which runs as its owner wrote it."""
    return Kind(
        name=name,
        group=GROUP,
        plural=f"{name.lower()}s",
        read=_read,
        suspend=("spec", "runPolicy", "suspend"),
        rules=RULES,
        numbers=Numbers(label="training.kubeflow.org/replica-index"),
        has_pods=False,
        features=FEATURES,
    )


PYTORCHJOB = replace(
    kubeflow("PyTorchJob"),
    rules=replace(RULES, container="pytorch"),
    form=Form(longest_name=_longest_name, write=_write),
    leader=("spec", "pytorchReplicaSpecs", "Master"),
    has_pods=True,
    traps=(
        "It has succeeded when its Master has, whatever the Workers do; a run has when all have.",
        "With `nprocPerNode: N`, WORLD_SIZE counts processes, while RANK counts pods.",
        "`backoffLimit` counts restarts of containers in running pods only.",
        "`cleanPodPolicy: None`, its default, leaves Workers that hang with their GPUs. Muster ends them.",
        "Workers wait for the Master in an init container whose image (alpine) every node must get.",
        "A namespace with the restricted standard refuses that init container.",
    ),
)
