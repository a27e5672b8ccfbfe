"""Code in a pod without building an image: an init container of the run's own image brings it.

It goes into the working directory, as on the process engine: the container's own, which it then covers, or
a folder of Muster's.
"""

from __future__ import annotations

import copy
from importlib import resources
from typing import Any

from muster.domain.errors import BadInput
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.program import literal, secret
from muster.engine.kubernetes.write import Writer
from muster.engine.port import Work

FOLDER = "/muster/code"
#: Keys of the attempt's Secret that the init container alone refers to; `submit` puts them there.
SECRETS = ("MUSTER_CODE_URL", "MUSTER_CODE_KEY")
_NAME = "muster-code"
_SAME_USER = ("runAsUser", "runAsGroup", "runAsNonRoot")  #: whose files they are to be


def script() -> str:
    """What the init container runs."""
    return resources.files("muster.engine.kubernetes").joinpath("fetch.sh").read_text("utf-8")


def bring(work: Work, writer: Writer, pod: PodTemplate, main: dict[str, Any]) -> None:
    """Its image must be known by now, and the init container is yet to be made safe."""
    folder = _place(work, writer, main)
    mount = {"name": _NAME, "mountPath": folder}
    writer.append(pod.spec, "volumes", {"name": _NAME, "emptyDir": {}})
    writer.append(main, "volumeMounts", mount)
    same: dict[str, Any] = {key: main[key] for key in ("image", "imagePullPolicy") if key in main}
    container: dict[str, Any] = {
        "name": _NAME,
        **same,
        "command": ["sh", "-c", literal(script()), "sh", folder],
        "env": [{"name": key, **secret(work, key)} for key in SECRETS],
        "volumeMounts": [dict(mount)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **_like(main),
    }
    writer.append(pod.spec, "initContainers", container)


def _place(work: Work, writer: Writer, main: dict[str, Any]) -> str:
    """The folder for the code; the program starts there, or below."""
    start = main.get("workingDir") or ""
    if str(start).startswith(("/", "${")):
        folder = str(start)
    else:
        folder = FOLDER
        writer.put(main, "workingDir", f"{FOLDER}/{start}".rstrip("/"))
    taken = {str(mount.get("mountPath")).rstrip("/") for mount in main.get("volumeMounts") or ()}
    if folder.rstrip("/") in ("", *taken):
        raise BadInput(
            f"Queue {work.queue!r} starts its program in {folder}, where the code cannot be put.",
            hint="Launch an image without code, or ask the queue's owner for another workingDir.",
        )
    return folder


def _like(main: dict[str, Any]) -> dict[str, Any]:
    """The same user; and the same share of the node, so that a quota or a class of service stands, but no
    device, which only the program needs."""
    found: dict[str, Any] = {}
    context = main.get("securityContext")
    user = {key: context[key] for key in _SAME_USER if key in context} if isinstance(context, dict) else {}
    if user:
        found["securityContext"] = user
    asked = main.get("resources")
    if isinstance(asked, dict):
        found["resources"] = {
            part: {key: amount for key, amount in amounts.items() if "/" not in str(key)}
            for part, amounts in copy.deepcopy(asked).items()
            if part in ("limits", "requests") and isinstance(amounts, dict)
        }
    return found
