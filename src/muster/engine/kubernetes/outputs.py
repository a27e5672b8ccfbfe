"""A folder for what a program wants to keep, in MUSTER_OUTPUT_DIR, as on every engine.

It goes with the pod, unless the owner mounts something lasting there, or names another folder.
"""

from __future__ import annotations

from typing import Any

from muster.domain.provenance import INJECTED
from muster.engine.kubernetes.gang import value
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.program import env_of, set_env
from muster.engine.kubernetes.write import Writer

VARIABLE = "MUSTER_OUTPUT_DIR"
FOLDER = "/muster/output"
_VOLUME = "muster-output"


def offer(writer: Writer, pod: PodTemplate) -> None:
    """To every container: what one writes, another may send away."""
    without = [container for container in pod.containers if VARIABLE not in env_of(container)]
    for container in without:
        set_env(writer, container, {VARIABLE: (value(FOLDER), INJECTED)})
    bare = [container for container in without if not _is_mounted(container)]
    for container in bare:
        writer.append(container, "volumeMounts", {"name": _VOLUME, "mountPath": FOLDER})
    if bare and not any(volume.get("name") == _VOLUME for volume in pod.spec.get("volumes") or ()):
        writer.append(pod.spec, "volumes", {"name": _VOLUME, "emptyDir": {}})


def _is_mounted(container: dict[str, Any]) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(str(mount.get("mountPath")).rstrip("/") == FOLDER for mount in mounts)
