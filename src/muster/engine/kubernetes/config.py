"""A queue's config for a cluster: one object or several, one of which is the workload.

Accepted as people have them: an object of any kind; a sole key `kubernetes:` around it; no `kind`, which
means a `batch/v1` Job; several objects as a `v1` List, of which the one that runs and ends is the
workload, and the others are created with it. In the place of the workload may stand a kind and a pod
template, `{kind: Job, template: …}`: then Muster writes the object itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.domain.errors import BadTemplate, UnknownKey
from muster.domain.path import Location, at
from muster.engine.kubernetes import pods
from muster.engine.kubernetes.kinds import KINDS, UNKNOWN, Kind, unknown
from muster.engine.kubernetes.kinds.kind import Form

WRAPPER = "kubernetes"
_TEMPLATE_KEYS = ("apiVersion", "kind", "metadata", "template")

#: Kinds that are created beside a workload and start nothing that ends.
COMPANIONS = frozenset(
    """
    ClusterRole ClusterRoleBinding ConfigMap DaemonSet Deployment Endpoints EndpointSlice Gateway HTTPRoute
    Ingress LimitRange NetworkPolicy PersistentVolume PersistentVolumeClaim PodDisruptionBudget PodGroup
    PriorityClass ReplicaSet ResourceClaim ResourceClaimTemplate ResourceQuota Role RoleBinding Route Secret
    Service ServiceAccount ServiceMonitor PodMonitor StatefulSet StorageClass
    """.split()
)
#: What `apiVersion` means where the owner left it out. Of kinds with one name, the first in the table.
API_VERSIONS: Mapping[str, str] = {
    **{kind.name: kind.api_version for kind in reversed([*KINDS.values()])},
    **dict.fromkeys(("ConfigMap", "PersistentVolumeClaim", "Secret", "Service"), "v1"),
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the objects of a config are."""

    objects: tuple[Location, ...]
    workload: Location
    form: Form | None = None  #: what Muster is to write in the workload's place; None: it is written


def read(config: Mapping[str, Any]) -> Layout:
    """Find the objects, and refuse what cannot be a run."""
    root: Location = ()
    top: Any = config
    if len(config) == 1 and WRAPPER in config:
        root, top = (WRAPPER,), config[WRAPPER]
    if not isinstance(top, Mapping):
        raise BadTemplate(
            f"The config is {top!r}, not a Kubernetes object.", hint="Write it as YAML mappings."
        )
    if top.get("kind") != "List":
        _check_object(top, "The config")
        if kind_of(top) in COMPANIONS or kind_of(top) == "CronJob":
            raise BadTemplate(
                f"A {kind_of(top)} does not run and end, so it cannot be a run by itself.",
                hint="Use a Job, or add one to the config.",
            )
        return Layout(objects=(root,), workload=root, form=_form_of(top))
    items = top.get("items")
    if not isinstance(items, list) or not items:
        raise BadTemplate("The List has no items.", hint="Put at least one object into it.")
    runs = []
    for place, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise BadTemplate(f"Object {place + 1} of the config is {item!r}, not a mapping.")
        _check_object(item, f"Object {place + 1} of the config")
        if kind_of(item) not in COMPANIONS:
            runs.append(place)
    if len(runs) != 1:
        kinds = ", ".join(kind_of(items[place]) for place in runs) or "none"
        raise BadTemplate(
            f"One object of a config must be the workload, the one that runs and ends; here it is {kinds}.",
            hint="Keep one Job (or Volcano Job, PyTorchJob …); Services, ConfigMaps and the like go with it.",
        )
    objects = tuple((*root, "items", place) for place in range(len(items)))
    workload = items[runs[0]]
    return Layout(objects=objects, workload=objects[runs[0]], form=_form_of(workload))


def check(config: Mapping[str, Any]) -> Layout:
    """What a new queue's config must keep: as `read`, and with pods that can start."""
    layout = read(config)
    workload = at(config, layout.workload)
    unknown.check(workload)
    if known_kind(workload).has_pods and not pods.find(workload):
        raise BadTemplate(
            f"The {kind_of(workload)} has no pods: nowhere in it is a `spec` with `containers`.",
            hint="Write at least `containers: [{}]` where its pods are described.",
        )
    for place in layout.objects:
        for pod in pods.find(at(config, place)):
            pods.check(pod)
            pods.resources_of(pod)
    return layout


def workload_kind(config: Mapping[str, Any]) -> tuple[str, str]:
    """Its `apiVersion`, and its `kind`."""
    workload = at(config, read(config).workload)
    kind = kind_of(workload)
    return str(workload.get("apiVersion") or API_VERSIONS[kind]), kind


def kind_of(item: Mapping[str, Any]) -> str:
    return str(item.get("kind", "Job"))


def group_of(item: Mapping[str, Any]) -> str:
    """`batch` of `batch/v1`; nothing for the core group."""
    version = item.get("apiVersion") or API_VERSIONS.get(kind_of(item), "")
    group, slash, _ = str(version).partition("/")
    return group if slash else ""


def is_template(config: Mapping[str, Any]) -> bool:
    """Does Muster write the workload of this config? To be asked also before its variables are bound."""
    top = config[WRAPPER] if len(config) == 1 and WRAPPER in config else config
    if not isinstance(top, Mapping):
        return False
    items = top.get("items") if top.get("kind") == "List" else [top]
    return isinstance(items, list) and any(isinstance(item, Mapping) and is_to_write(item) for item in items)


def is_to_write(item: Mapping[str, Any]) -> bool:
    """Does this name a kind and a pod template, for Muster to write the object?"""
    return "template" in item and "spec" not in item


def known_kind(item: Mapping[str, Any]) -> Kind:
    return KINDS.get((group_of(item), kind_of(item)), UNKNOWN)


def _form_of(item: Mapping[str, Any]) -> Form | None:
    return known_kind(item).form if is_to_write(item) else None


def _check_template(item: Mapping[str, Any], where: str) -> None:
    if known_kind(item).form is None:
        known = ", ".join(f"{kind.name} ({kind.api_version})" for kind in KINDS.values() if kind.form)
        raise BadTemplate(
            f"{where} has a pod template without a `spec` around it, and is a {kind_of(item)}, "
            "which Muster cannot write itself.",
            hint=f"It writes: {known}. Of other kinds, write the whole object.",
        )
    for key in item:
        if key not in _TEMPLATE_KEYS:
            raise UnknownKey(str(key), where=where, known=_TEMPLATE_KEYS)
    found = pods.find(item)
    if not found or found[0].node is not item["template"]:
        raise BadTemplate(
            f"The template of {_lower(where)} has no `spec` with `containers`.",
            hint="Write at least `template: {spec: {containers: [{}]}}`.",
        )
    policy = found[0].spec.get("restartPolicy", "Never")
    if policy != "Never":
        raise BadTemplate(
            f"The template of {_lower(where)} has restartPolicy: {policy}.",
            hint="Leave it out: a member that fails ends the attempt, and Muster makes the next one.",
        )


def _lower(where: str) -> str:
    return where[0].lower() + where[1:]


def _check_object(item: Mapping[str, Any], where: str) -> None:
    kind, version = item.get("kind"), item.get("apiVersion")
    for key, value in (("kind", kind), ("apiVersion", version)):
        if key in item and (not isinstance(value, str) or not value):
            raise BadTemplate(f"{where} has {value!r} as its {key}.", hint=f"Write {key} as text.")
    metadata = item.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise BadTemplate(f"{where} has {metadata!r} as its metadata.", hint="Write it as a mapping.")
    if is_to_write(item):
        _check_template(item, where)
        return
    if kind is None and version not in (None, "batch/v1"):
        raise BadTemplate(f"{where} has the apiVersion {version} but no kind.", hint="Say its kind.")
    if kind is None and not isinstance(item.get("spec"), Mapping):
        known = ", ".join(map(repr, list(item)[:5])) or "nothing"
        raise BadTemplate(
            f"{where} has neither a kind nor a spec; it has {known}.",
            hint="Write a Kubernetes object. Without a kind it is a Job, and needs its spec.",
        )
    if kind is not None and version is None and kind not in API_VERSIONS:
        raise BadTemplate(f"{where} is a {kind} without an apiVersion.", hint="Say its apiVersion.")
