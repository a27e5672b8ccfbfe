"""A training as a `batch/v1` Job: of several nodes an Indexed one, with a headless Service for their names.

One member that fails, or is evicted, ends them all: the gang is tried again as a new attempt, by Muster.
"""

from __future__ import annotations

import copy
from typing import Any

from muster.engine.kubernetes.course import Course, by_conditions
from muster.engine.kubernetes.gang import Gang, Meeting, field_of_pod, value
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

INDEX = "batch.kubernetes.io/job-completion-index"  #: a label of pods, and an annotation
RANK = f"metadata.annotations['{INDEX}']"
#: So its own status says that a disruption ended it, when the pod that told it has long gone.
FAILS_BY_DISRUPTION = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def _write(writer: Writer, item: dict[str, Any], gang: Gang) -> Meeting:
    template = item.pop("template")
    item["spec"] = {"podFailurePolicy": copy.deepcopy(FAILS_BY_DISRUPTION)}
    if gang.nodes == 1:
        item["spec"]["template"] = template
        return Meeting(gang=gang, env={"NODE_RANK": value("0"), "MASTER_ADDR": value("127.0.0.1")})
    item["spec"]["completionMode"] = "Indexed"
    for key in ("completions", "parallelism"):
        writer.put(item["spec"], key, gang.nodes, gang.source)
    item["spec"]["template"] = template
    service = gang.helper_name("nodes")
    writer.put(template["spec"], "subdomain", service)
    if template["spec"].get("hostNetwork") is True:  # else the node's resolver, which knows no Services
        writer.fill(template["spec"], {"dnsPolicy": "ClusterFirstWithHostNet"})
    return Meeting(
        gang=gang,
        env={"NODE_RANK": field_of_pod(RANK), "MASTER_ADDR": value(f"{gang.name}-0.{service}")},
        companions=[_service(service, gang)],
    )


def _service(name: str, gang: Gang) -> dict[str, Any]:
    """Gives every member a name from the moment it has an address, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": gang.name},
        },
    }


def _longest_name(nodes: int) -> int:
    """`<name>-<index>` is the host name of a member."""
    return MAX - len(f"-{nodes - 1}") if nodes > 1 else MAX


JOB = Kind(
    name="Job",
    group="batch",
    plural="jobs",
    # The verdict as soon as it is clear: some pods may still be ending then.
    read=by_conditions(
        {
            "Complete": Course.SUCCEEDED,
            "SuccessCriteriaMet": Course.SUCCEEDED,
            "Failed": Course.FAILED,
            "FailureTarget": Course.FAILED,
        }
    ),
    suspend=("spec", "suspend"),
    rules=Rules(spec=EXPIRES, around=NO_RETRY, pod=NEVER),
    form=Form(longest_name=_longest_name, write=_write),
    numbers=Numbers(label=INDEX),
    features={
        Feature.GANG_PLACEMENT: NOT,
        Feature.GANG_RESTART: MUSTER,
        Feature.MEMBER_RESTART: NATIVE,
        Feature.SUSPEND: NATIVE,
        Feature.DEADLINE: NATIVE,
        Feature.CLEAN_UP: NATIVE,
        Feature.RANKS: NATIVE,
    },
    traps=(
        "Only an Indexed Job numbers its pods; of others Muster numbers them in the order they were made.",
        "`activeDeadlineSeconds` begins anew when a suspended Job is released.",
    ),
)
