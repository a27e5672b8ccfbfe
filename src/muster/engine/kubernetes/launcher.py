"""The launcher in a pod: carried there in a ConfigMap, so that an image needs nothing but `sh`."""

from __future__ import annotations

from typing import Any

from muster.domain.errors import BadCommand
from muster.domain.training import Training
from muster.engine.kubernetes import pods
from muster.engine.kubernetes.gang import Gang, Meeting, field_of_pod, value
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.program import Program
from muster.engine.kubernetes.write import Writer
from muster.engine.launcher import launcher_env, launcher_text
from muster.engine.port import Work

FOLDER, ERRORS = "/muster/bin", "/muster/error"
SCRIPT = "launcher.sh"
MASTER_PORT = "29500"
_SCRIPT_VOLUME, _ERROR_VOLUME = "muster-launcher", "muster-error"
_TERMINATION_LOG = "/dev/termination-log"


def program(work: Work, training: Training, main: dict[str, Any], meeting: Meeting) -> Program:
    """How the launch's command is started by it."""
    if not work.command:
        raise BadCommand(
            "A training needs a command: its processes are started by Muster's launcher, "
            "which does not know what an image runs by itself.",
            hint="Put it behind `--`: muster launch -d IMAGE --nodes 2 -- train.py",
        )
    gpus = pods.asked_by(main).gpus
    told = launcher_env(training, command=work.command, gpus_per_node=gpus)
    return Program(
        prefix=("sh", f"{FOLDER}/{SCRIPT}"),
        shape={name: value(text) for name, text in told.items()},
        env={
            **meeting.env,
            "POD_IP": field_of_pod("status.podIP"),
            "MUSTER_ERROR_DIR": value(ERRORS),
            "MUSTER_TERMINATION_LOG": value(main.get("terminationMessagePath") or _TERMINATION_LOG),
        },
        defaults={"MASTER_PORT": value(MASTER_PORT)},
    )


def config_map(gang: Gang) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _name(gang)},
        "immutable": True,
        "data": {SCRIPT: launcher_text()},
    }


def mount(writer: Writer, pod: PodTemplate, main: dict[str, Any], gang: Gang) -> None:
    """Where the program's container finds it, and a place for the root cause of a failure."""
    writer.append(pod.spec, "volumes", {"name": _SCRIPT_VOLUME, "configMap": {"name": _name(gang)}})
    writer.append(pod.spec, "volumes", {"name": _ERROR_VOLUME, "emptyDir": {}})
    script = {"name": _SCRIPT_VOLUME, "mountPath": FOLDER, "readOnly": True}
    writer.append(main, "volumeMounts", script)
    writer.append(main, "volumeMounts", {"name": _ERROR_VOLUME, "mountPath": ERRORS})


def _name(gang: Gang) -> str:
    return gang.helper_name("launcher")
