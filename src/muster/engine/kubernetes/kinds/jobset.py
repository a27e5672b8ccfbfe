"""A JobSet: in training mode one Indexed Job, `node`, whose members JobSet itself gives their names."""

from __future__ import annotations

import copy
from typing import Any

from muster.engine.kubernetes.course import Course, by_conditions
from muster.engine.kubernetes.gang import Gang, Meeting, field_of_pod, value
from muster.engine.kubernetes.kinds.job import FAILS_BY_DISRUPTION, INDEX, RANK
from muster.engine.kubernetes.kinds.kind import (
    EXPIRES,
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

_JOB = "node"


def _write(writer: Writer, item: dict[str, Any], gang: Gang) -> Meeting:
    template = item.pop("template")
    job: dict[str, Any] = {
        "completionMode": "Indexed",
        "podFailurePolicy": copy.deepcopy(FAILS_BY_DISRUPTION),
    }
    for key in ("completions", "parallelism"):
        writer.put(job, key, gang.nodes, gang.source)
    job["template"] = template
    item["spec"] = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [{"name": _JOB, "replicas": 1, "template": {"spec": job}}],
    }
    if template["spec"].get("hostNetwork") is True:  # else the node's resolver, which knows no Services
        writer.fill(template["spec"], {"dnsPolicy": "ClusterFirstWithHostNet"})
    address = f"{gang.name}-{_JOB}-0-0.{gang.name}" if gang.nodes > 1 else "127.0.0.1"
    return Meeting(gang=gang, env={"NODE_RANK": field_of_pod(RANK), "MASTER_ADDR": value(address)})


def _longest_name(nodes: int) -> int:
    """`<name>-node-0-<index>` is the host name of a member; its pod has five characters more."""
    return MAX - len(f"-{_JOB}-0-{nodes - 1}-abcde")


JOBSET = Kind(
    name="JobSet",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    plural="jobsets",
    read=by_conditions({"Completed": Course.SUCCEEDED, "Failed": Course.FAILED}),
    suspend=("spec", "suspend"),
    rules=Rules(spec=EXPIRES, around=NO_RETRY, pod=NEVER),
    form=Form(longest_name=_longest_name, write=_write),
    numbers=Numbers(label=INDEX, job_label="jobset.sigs.k8s.io/job-index"),
    features={
        Feature.GANG_PLACEMENT: NOT,
        Feature.GANG_RESTART: NATIVE,
        Feature.MEMBER_RESTART: NATIVE,
        Feature.SUSPEND: NATIVE,
        Feature.DEADLINE: NATIVE,
        Feature.CLEAN_UP: NATIVE,
        Feature.RANKS: NATIVE,
    },
    traps=(
        "A restart deletes the pods that failed: what they printed is in Muster's log, and nowhere else.",
        "A deadline is set on the Jobs inside of it, not on the JobSet.",
    ),
)
