"""A stored manifest becomes the object to submit: for every launch, and every keystroke of a preview."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from bench.harness import Bar, Plan, Row, interleave
from muster.cli import yamlfile
from muster.domain.observation import AttemptKey
from muster.domain.queue import Queue
from muster.domain.variables import Variable
from muster.engine.port import Work
from muster.service.customize import customize, origins_of
from muster.service.launch import Order
from muster.service.render import RENDERERS, TRACERS

ABOUT = (
    "Milliseconds from a stored tree of 200 lines, 10 variables and 10 macros to the object; no YAML is read."
)
LINES = 200
_RENDERED, _TRACED, _COPIED = "Muster", "Muster, with sources", "copy.deepcopy"
_TIMES = 300  #: a round

VARIABLES: Mapping[str, Mapping[str, Any]] = {
    "workers": {"type": "integer", "default": 3, "minimum": 1, "maximum": 8},
    "gpus": {"type": "integer", "default": 1, "minimum": 0, "maximum": 8},
    "cpus": {"type": "number", "default": 2.5},
    "memory": {"type": "quantity", "default": "8Gi", "minimum": "1Gi", "maximum": "64Gi"},
    "shm": {"type": "quantity", "default": "2Gi"},
    "dataset": {"type": "string", "choices": ["tiny", "full"], "default": "tiny"},
    "debug": {"type": "boolean", "default": False},
    "zone": {"type": "string", "default": "a"},
    "claim": {"type": "string", "default": "data"},
    "tag": {"type": "string", "default": "v1"},
}


def run(plan: Plan) -> list[Row]:
    queue = stored_queue()
    work = work_for(queue)
    contenders: dict[str, Callable[[], object]] = {
        _RENDERED: lambda: rendered(queue, work),
        _TRACED: lambda: traced(queue, work),
        _COPIED: lambda: copy.deepcopy(queue.config),
    }
    measures = {
        name: lambda call=call: median_of(call, plan.count(_TIMES)) for name, call in contenders.items()
    }
    contest = interleave(plan, "render", "ms", measures)
    lines = yamlfile.dump(queue.config).count("\n")
    return [
        contest.alone(
            "values checked and bound, macros filled, safe defaults added",
            _RENDERED,
            bar=Bar(sense="≤", limit=1),
            note=f"{lines} lines, {len(VARIABLES)} variables",
        ),
        contest.alone("the same, with where each value came from", _TRACED, note="what a preview does"),
        contest.ratio("Muster ÷ copy.deepcopy of the tree", _RENDERED, _COPIED),
    ]


def rendered(queue: Queue, work: Work) -> object:
    """What a launch does with its queue's template."""
    made = customize(queue, _variables(queue), _order(queue, work))
    return RENDERERS[queue.engine](_with_config(work, made.config))


def traced(queue: Queue, work: Work) -> object:
    order = _order(queue, work)
    made = customize(queue, _variables(queue), order)
    return TRACERS[queue.engine](_with_config(work, made.config), origins_of(queue, made, order))


def _order(queue: Queue, work: Work) -> Order:
    return Order(queue=queue.name, command=work.command, image=work.image, values={"gpus": 2})


def _variables(queue: Queue) -> list[Variable]:
    return [Variable.parse(name, data) for name, data in queue.variables.items()]


def _with_config(work: Work, config: Mapping[str, Any]) -> Work:
    return Work(**{**work.__dict__, "config": config})


def median_of(call: Callable[[], object], times: int) -> float:
    """Milliseconds; the first one, which may load this and that, is not counted."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - began) / 1e6)
    return statistics.median(taken)


def work_for(queue: Queue) -> Work:
    return Work(
        key=AttemptKey(run_id="r123456789", attempt=1),
        run_name="swift-heron-42",
        project="vision",
        entity="lab",
        queue=queue.name,
        author="ann",
        config={},
        command=("train.py", "--epochs", "3"),
        env={"SEED": "7"},
        inputs={"lr": 0.01},
        image="acme/train:main",
    )


def stored_queue() -> Queue:
    """A Volcano Job with a master, workers and what teams put around them."""
    config: dict[str, Any] = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "train-${run_id}-${attempt}",
            "namespace": "training",
            "labels": {"entity": "${entity_name}", "project": "${project_name}", "queue": "${queue_name}"},
            "annotations": {
                "who": "${author} launched ${run_name}",
                "bucket": "s3://${TEAM_BUCKET}/{{zone}}",
            },
        },
        "spec": {
            "minAvailable": "{{workers}}",
            "schedulerName": "volcano",
            "plugins": {"pytorch": ["--master=master", "--worker=worker", "--port=23456"]},
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [_task("master", 1), _task("worker", "{{workers}}")],
        },
    }
    env = config["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["env"]
    while (missing := LINES - yamlfile.dump(config).count("\n")) > 0:
        env.append({"name": f"SETTING_{len(env)}", "value": "x"} if missing > 1 else {"name": "LAST"})
    return Queue(
        id="q123456789",
        entity="lab",
        name="gpu",
        engine="kubernetes",
        version=3,
        config=config,
        variables=VARIABLES,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_by="ann",
    )


def _task(name: str, replicas: object) -> dict[str, Any]:
    container = {
        "name": name,
        "image": "${image_uri}",
        "imagePullPolicy": "IfNotPresent",
        "workingDir": "/home",
        "env": [
            {"name": "DATASET", "value": "/data/{{dataset}}/{{tag}}"},
            {"name": "DEBUG", "value": "{{debug}}"},
            {"name": "RUN", "value": "${run_name}"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "resources": {
            "requests": {"cpu": "{{cpus}}", "memory": "{{memory}}"},
            "limits": {"memory": "{{memory}}", "nvidia.com/gpu": "{{gpus}}"},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/data", "readOnly": True},
            {"name": "cache", "mountPath": "/cache"},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a mount point in a container
        ],
    }
    return {
        "name": name,
        "replicas": replicas,
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "template": {
            "metadata": {"labels": {"role": name, "run": "${run_id}"}},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"zone": "{{zone}}"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "initContainers": [
                    {"name": "fetch", "image": "${image_uri}", "command": ["sh", "-c", "fetch {{dataset}}"]}
                ],
                "containers": [container],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "{{claim}}"}},
                    {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "{{shm}}"}},
                ],
            },
        },
    }
