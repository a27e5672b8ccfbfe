"""The pods an object makes: where their templates are, how many there will be, what they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.domain.errors import BadQuantity, BadTemplate
from muster.domain.resources import Resources, parse_quantity


@dataclass(frozen=True, kw_only=True)
class PodTemplate:
    """A mapping with `spec.containers`, wherever it stands: so every kind is understood, known or not."""

    node: dict[str, Any]  #: has `spec`, and room for `metadata`
    around: dict[str, Any]  #: the mapping it is the `template` of; the object itself where it is a Pod
    count: int  #: how many pods are made from it at a time
    members: int  #: and how many in all: a Job may complete more than it has at a time

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.node["spec"]
        return spec

    @property
    def inner(self) -> int:
        """How many of them the innermost mapping that makes them has: of a JobSet, the pods of one Job."""
        return _copies(self.around)[1]

    @property
    def containers(self) -> list[dict[str, Any]]:
        containers: list[dict[str, Any]] = self.spec["containers"]
        return containers

    @property
    def init_containers(self) -> list[dict[str, Any]]:
        return [item for item in self.spec.get("initContainers") or () if isinstance(item, dict)]


def find(item: Any) -> list[PodTemplate]:
    return list(_find(item, item, 1, 1))


def _find(node: Any, around: Any, count: int, members: int) -> Iterator[PodTemplate]:
    if isinstance(node, dict):
        spec = node.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield PodTemplate(node=node, around=around, count=count, members=members)
            return
        for key, child in node.items():
            if not isinstance(child, dict | list):
                continue
            at_a_time, in_all = _copies(node) if key == "template" else (1, 1)
            yield from _find(child, node, count * at_a_time, members * in_all)
    elif isinstance(node, list):
        for child in node:
            if isinstance(child, dict | list):
                yield from _find(child, around, count, members)


def _copies(node: Mapping[str, Any]) -> tuple[int, int]:
    """How often the `template` of this mapping is used, at a time and in all: replicas, or a Job's pods."""
    replicas = _count(node.get("replicas"), 1)
    parallel = _count(node.get("parallelism"), 1)
    completions = _count(node.get("completions"), parallel)
    return replicas * min(parallel, completions), replicas * completions


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def check(pod: PodTemplate) -> None:
    """Refuse pods that no cluster takes."""
    for field in ("containers", "initContainers", "volumes"):
        _check_list(pod.spec, field)
    for container in (*pod.containers, *pod.init_containers):
        for field in ("env", "ports", "volumeMounts"):
            _check_list(container, field)
    if not pod.containers:
        raise BadTemplate("A pod template has no container.", hint="Write at least `containers: [{}]`.")
    for index, container in enumerate(pod.containers[1:], 1):
        if not container.get("image"):
            raise BadTemplate(
                f"Container {index} of a pod template has no image.",
                hint="Only container 0 gets the run's image by itself; write ${image_uri} for the others.",
            )


def _check_list(node: Mapping[str, Any], field: str) -> None:
    items = node.get(field) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadTemplate(
            f"{field} of a pod template is not a list of mappings.", hint="Start each with `-`."
        )


def main_of(pod: PodTemplate, name: str) -> dict[str, Any]:
    """The container that runs the program: the one of this name, else the first."""
    return next((one for one in pod.containers if name and one.get("name") == name), pod.containers[0])


def resources_of(pod: PodTemplate) -> Resources:
    """Of one pod: its containers together, or the biggest init container where that is more."""
    total = Resources()
    for container in pod.containers:
        total += asked_by(container)
    for container in pod.init_containers:
        total = _at_least(total, asked_by(container))
    return total


def asked_by_node(asked: object) -> Resources:
    """What `{cpu, memory, nvidia.com/gpu}` or `{requests, limits}` amounts to."""
    return asked_by({"resources": asked})


def asked_by(container: Mapping[str, Any]) -> Resources:
    """Of one container."""
    given = container.get("resources")
    if not isinstance(given, Mapping):
        return Resources()
    limits, requests = given.get("limits"), given.get("requests")
    # A request goes before a limit, as in the scheduler's own sums; what is not asked for is zero.
    asked = {
        **(limits if isinstance(limits, Mapping) else {}),
        **(requests if isinstance(requests, Mapping) else {}),
    }
    if not asked:
        return Resources()
    gpus = [_amount(value, key) for key, value in asked.items() if str(key).endswith("/gpu")]
    for amount in gpus:
        if amount != int(amount) or amount < 0:
            raise BadQuantity(amount, what="whole number of GPUs")
    return Resources(
        millicpus=int(_amount(asked.get("cpu"), "cpu") * 1000),
        memory=int(_amount(asked.get("memory"), "memory")),
        gpus=int(sum(gpus)),
    )


def _amount(value: object, key: str) -> Any:
    if value is None or (isinstance(value, str) and "${" in value):  # a macro that only the agent knows
        return 0
    return parse_quantity(value, what=f"quantity of {key}")


def _at_least(one: Resources, other: Resources) -> Resources:
    return Resources(
        millicpus=max(one.millicpus, other.millicpus),
        memory=max(one.memory, other.memory),
        gpus=max(one.gpus, other.gpus),
    )
