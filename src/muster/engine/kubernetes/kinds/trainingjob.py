"""A PyTorchTrainingJob: of TensorStack's platform, or of `muster operator` on any other cluster.

In training mode it is one role, `worker`, and its own torchrun stays off: the launcher is ours everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.engine.kubernetes.course import OPEN, Course, Object, Status, by_conditions, status_of
from muster.engine.kubernetes.gang import Gang, Meeting, field_of_pod, value
from muster.engine.kubernetes.kinds.kind import (
    MUSTER,
    NATIVE,
    NEVER,
    NO_RETRY,
    Feature,
    Form,
    Kind,
    Numbers,
    Rules,
)
from muster.engine.kubernetes.names import MAX
from muster.engine.kubernetes.write import Writer

_ROLE = "worker"
_INDEX = "tensorstack.dev/replica-index"  #: a label of pods
_RANK = f"metadata.labels['{_INDEX}']"
_WORDS = by_conditions({"Failed": Course.FAILED, "Completed": Course.SUCCEEDED})
_COURSES = {"Succeeded": Course.SUCCEEDED, "Failed": Course.FAILED}


def _read(item: Object) -> Status:
    """The phase decides, a condition has the words."""
    phase = str(status_of(item).get("phase") or "")
    if phase == "Paused":
        return replace(OPEN, waits="It is paused; `runMode.pause.enabled: false` goes on with it.")
    course = _COURSES.get(phase)
    if course is None:
        return OPEN
    words = _WORDS(item)
    return replace(words, course=course) if words.course is course else Status(course=course, reason=phase)


def _write(writer: Writer, item: dict[str, Any], gang: Gang) -> Meeting:
    template = item.pop("template")
    role: dict[str, Any] = {"type": _ROLE}
    writer.put(role, "replicas", gang.nodes, gang.source)
    role |= {**NEVER, "template": template}
    item["spec"] = {
        "torchrunConfig": {"enabled": False},
        # Not `Unfinished`: when the first is done, the others may still be writing their last words.
        "runPolicy": {"cleanUpPolicy": "None"},
        "replicaSpecs": [role],
    }
    # MASTER_ADDR comes from the controller. The platform's own numbers its pods by their names alone.
    return Meeting(gang=gang, env={"NODE_RANK": field_of_pod(_RANK), "MUSTER_RANK_BY_NAME": value("1")})


def _longest_name(nodes: int) -> int:
    """`<name>-<five characters>-worker-<index>` is the name of a pod."""
    return MAX - len(f"-abcde-{_ROLE}-{nodes - 1}")


TRAININGJOB = Kind(
    name="PyTorchTrainingJob",
    group="batch.tensorstack.dev",
    version="v1beta1",
    plural="pytorchtrainingjobs",
    read=_read,
    rules=Rules(policy=NO_RETRY, around=NEVER),
    form=Form(longest_name=_longest_name, write=_write),
    # The platform's own controller has no such label that is documented.
    numbers=Numbers(label=_INDEX, name_label="tensorstack.dev/owner-name"),
    main="python",
    features={
        Feature.GANG_PLACEMENT: NATIVE,
        Feature.GANG_RESTART: MUSTER,
        Feature.MEMBER_RESTART: NATIVE,
        Feature.SUSPEND: NATIVE,
        Feature.DEADLINE: NATIVE,
        Feature.CLEAN_UP: MUSTER,
        Feature.RANKS: NATIVE,
    },
    traps=(
        "It has succeeded when its first replica has; a run has when all have.",
        "With `torchrunConfig.enabled` the `command` of a container is ignored, and `args` is the script.",
        "The program's container is the one called `python`, else the first.",
        "Gangs are placed as a whole only where `scheduler` names a scheduler that can.",
    ),
)
