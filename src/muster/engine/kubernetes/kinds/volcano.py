"""A Volcano Job: its scheduler places all members of a training at once, or none.

In training mode it is one task, `worker`. The plugins give each member a name (`svc`) and a number (`env`).
"""

from __future__ import annotations

import copy
from typing import Any

from muster.engine.kubernetes.course import OPEN, Course, Object, Status, status_of
from muster.engine.kubernetes.gang import Gang, Meeting, value
from muster.engine.kubernetes.kinds.kind import (
    EXPIRES,
    NATIVE,
    NEVER,
    NOT,
    Feature,
    Form,
    Kind,
    Numbers,
    Rules,
)
from muster.engine.kubernetes.names import MAX
from muster.engine.kubernetes.write import Writer

_TASK = "worker"
#: Without these, members could not look each other up before all are ready, and whatever measures or shows
#: a training from outside would be locked out.
_SERVICE = ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]
#: One that fails or is taken away ends them all, whether an agent is there to see it or not.
_ENDS_ALL = {"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}

_COURSES = {
    "Completed": Course.SUCCEEDED,
    "Failed": Course.FAILED,
    "Terminated": Course.FAILED,
    "Aborted": Course.STOPPED,
}


def _read(item: Object) -> Status:
    """Completing, Terminating, Aborting, Restarting are on the way somewhere."""
    state = status_of(item).get("state") or {}
    phase = str(state.get("phase") or "")
    message = str(state.get("message") or "")
    course = _COURSES.get(phase)
    if course is None:
        return OPEN
    return Status(course=course, reason=str(state.get("reason") or phase), message=message)


def _write(writer: Writer, item: dict[str, Any], gang: Gang) -> Meeting:
    template = item.pop("template")
    spec = item["spec"] = {"schedulerName": "volcano"}
    task: dict[str, Any] = {"name": _TASK}
    for node, key in ((spec, "minAvailable"), (task, "replicas")):
        writer.put(node, key, gang.nodes, gang.source)
    task["template"] = template
    spec |= {
        "maxRetry": 1,
        "plugins": {"env": [], "svc": list(_SERVICE)},
        "policies": [copy.deepcopy(_ENDS_ALL)],
        "tasks": [task],
    }
    if template["spec"].get("hostNetwork") is True:  # else the node's resolver, which knows no Services
        writer.fill(template["spec"], {"dnsPolicy": "ClusterFirstWithHostNet"})
    address = f"{gang.name}-{_TASK}-0.{gang.name}" if gang.nodes > 1 else "127.0.0.1"
    return Meeting(gang=gang, env={"MASTER_ADDR": value(address)})


def _longest_name(nodes: int) -> int:
    """`<name>-worker-<index>` is the host name of a member."""
    return MAX - len(f"-{_TASK}-{nodes - 1}")


VOLCANO = Kind(
    name="Job",
    group="batch.volcano.sh",
    version="v1alpha1",
    plural="jobs",
    read=_read,
    rules=Rules(spec=EXPIRES, pod=NEVER),
    form=Form(longest_name=_longest_name, write=_write),
    numbers=Numbers(label="volcano.sh/task-index"),
    features={
        Feature.GANG_PLACEMENT: NATIVE,
        Feature.GANG_RESTART: NATIVE,
        Feature.MEMBER_RESTART: NATIVE,
        Feature.SUSPEND: NOT,
        Feature.DEADLINE: NOT,
        Feature.CLEAN_UP: NATIVE,
        Feature.RANKS: NATIVE,
    },
    traps=(
        "`maxRetry: N` restarts N - 1 times, and 0 means 3: write 1 for none, 2 for one.",
        "Without `policies` a pod that failed leaves the Job running until all pods have ended.",
        "`RestartJob` deletes the pods that failed: what they printed is in Muster's log, and nowhere else.",
        "The `pytorch` plugin does nothing unless a task is called as its `--master` says.",
        "The `svc` plugin shuts pods off from all but each other, unless `--disable-network-policy=true`.",
        "An aborted Job counts as stopped, and is not resumed.",
    ),
)
