"""What an agent must be allowed in a cluster. Every request the engine makes has its row here.

The role is written from these rows (`muster.engine.kubernetes.role`), the cluster is asked about them
(`muster.engine.kubernetes.review`), and a test takes each verb away in turn. A verb that no row has is a
verb that the engine does not use. Finding out which kinds there are (discovery), and asking what one may do,
is open to everybody who is signed in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.domain.errors import BadConfigFile
from muster.engine.kubernetes.kinds import KINDS
from muster.engine.kubernetes.kinds.volcano import VOLCANO


class Extra(StrEnum):
    """What is not needed to run anything, and granted only where somebody wants it."""

    METRICS = "metrics"  #: CPU and memory of pods, from the metrics API
    NODES = "nodes"  #: why a pod finds no room, and what is free where
    VOLUMES = "volumes"  #: which volume claims a launch may choose from
    KUBELET = "kubelet"  #: network, disk and more of pods, from the kubelet of each node


@dataclass(frozen=True, kw_only=True)
class KindName:
    """A kind of object as roles name it: its plural, and its API group."""

    plural: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, kw_only=True)
class Right:
    """Some verbs on one kind of object."""

    kind: KindName
    verbs: Mapping[str, str]  #: each with what cannot be done without it
    extra: Extra | None = None  #: None: no run goes well without it
    everywhere: bool = False  #: in the whole cluster, not in the namespaces that are served


JOBS = KindName(plural="jobs", group="batch")
_PODS = KindName(plural="pods")

#: On the objects that runs are.
WORKLOAD: Mapping[str, str] = {
    "create": "no run can be started",
    "get": "a run whose object is there already cannot be gone on with",
    "list": "runs cannot be seen",
    "watch": "runs cannot be seen changing",
    "patch": "runs cannot be released once all is ready, nor taken over from another agent",
    "delete": "runs can neither be stopped nor cleaned up",
}
#: On the objects that a queue's template has beside its workload.
COMPANION: Mapping[str, str] = {
    "create": "what goes with a run cannot be made",
    "get": "a start that was broken off cannot be gone on with",
    "delete": "what an earlier start left cannot be replaced",
}

#: Whatever kinds are chosen.
ALWAYS: Sequence[Right] = (
    Right(
        kind=_PODS,
        verbs={
            "list": "members of runs cannot be seen",
            "watch": "members of runs cannot be seen changing",
            "delete": "pods whose workload was taken away from above them go on for ever",
        },
    ),
    Right(kind=KindName(plural="pods/log"), verbs={"get": "logs cannot be read"}),
    Right(
        kind=KindName(plural="events"),
        verbs={
            "list": "the cluster's own words about a run are not known, nor which pods it refuses",
            "watch": "the cluster's own words about a run are not known, nor which pods it refuses",
        },
    ),
    Right(  # never read: what is in them is nobody's business here
        kind=KindName(plural="secrets"),
        verbs={
            "create": "no run can be given its key",
            "delete": "a start that was broken off cannot be gone on with",
        },
    ),
    Right(kind=KindName(plural="services"), verbs=COMPANION),
    Right(kind=KindName(plural="configmaps"), verbs=COMPANION),
)

EXTRAS: Sequence[Right] = (
    Right(
        kind=KindName(plural="pods", group="metrics.k8s.io"),
        verbs={"list": "CPU and memory of runs are not known"},
        extra=Extra.METRICS,
    ),
    Right(
        kind=KindName(plural="nodes"),
        verbs={"list": "which node could take a run, and what is free there, is not known"},
        extra=Extra.NODES,
        everywhere=True,
    ),
    Right(
        kind=_PODS,
        verbs={"list": "what others use of the nodes is not known"},
        extra=Extra.NODES,
        everywhere=True,
    ),
    Right(
        kind=KindName(plural="persistentvolumeclaims"),
        verbs={"list": "launches are not offered the volume claims there are"},
        extra=Extra.VOLUMES,
    ),
    Right(
        kind=KindName(plural="nodes/proxy"),
        verbs={"get": "network and disk of runs are not known"},
        extra=Extra.KUBELET,
        everywhere=True,
    ),
)

#: Plurals of kinds that people know by their name. A kind that is not here is given by its plural.
KNOWN: Mapping[str, KindName] = {
    **{
        (kind.name if kind is not VOLCANO else f"{kind.name}.{kind.group}"): KindName(
            plural=kind.plural, group=kind.group
        )
        for kind in KINDS.values()
    },
    "RayJob": KindName(plural="rayjobs", group="ray.io"),
    "PersistentVolumeClaim": KindName(plural="persistentvolumeclaims"),
    "NetworkPolicy": KindName(plural="networkpolicies", group="networking.k8s.io"),
}


def kind_named(text: str) -> KindName:
    """From `PyTorchJob`, `PyTorchJob.kubeflow.org` or `pytorchjobs.kubeflow.org`. Plurals are not guessed."""
    if text in KNOWN:
        return KNOWN[text]
    name, _, group = text.partition(".")
    if name == name.lower() and name.isalnum():
        return KindName(plural=name, group=group)
    known = KNOWN.get(name)
    if known is not None and known.group == group:
        return known
    raise BadConfigFile(
        f"The plural of kind {text!r} is not known here.",
        hint="Name it as `kubectl api-resources` does: PLURAL.GROUP, such as pytorchjobs.kubeflow.org.",
    )


def rights(
    *,
    workloads: Sequence[KindName] = (JOBS,),
    companions: Sequence[KindName] = (),
    extras: Collection[Extra] = (),
) -> Iterator[Right]:
    """All that an agent of these kinds needs, one row a kind and place."""
    rows: dict[tuple[KindName, bool], Right] = {}
    chosen = (
        *(Right(kind=kind, verbs=WORKLOAD) for kind in workloads),
        *ALWAYS,
        *(Right(kind=kind, verbs=COMPANION) for kind in companions),
        *(right for right in EXTRAS if right.extra in extras),
    )
    for right in chosen:
        place = right.kind, right.everywhere
        known = rows.setdefault(place, right)
        more = {verb: why for verb, why in right.verbs.items() if verb not in known.verbs}
        rows[place] = replace(known, verbs={**known.verbs, **more})
    yield from rows.values()
