"""Which nodes have room for a pod, and what the others lack: pure, from the API's objects to one sentence.

It knows what most waits come from: requests, taints, cordons, node selectors and required node affinity. The
scheduler knows more (volumes, spreading, affinity between pods); where its rules are the reason, the
sentence says that there is room, and the scheduler's own words stand before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from muster.domain.errors import BadQuantity
from muster.domain.resources import format_cpus, parse_quantity, readable_bytes
from muster.engine.kubernetes.pod import group_of

NAMED = 3  #: nodes that are named, the rest is counted
PLACES = "pods"  #: how many pods a node takes is a resource like others
NOT_CHOSEN = "not among those it asks for"
_BYTES = {"memory": "memory", "ephemeral-storage": "disk"}
_STATES = {
    "node.kubernetes.io/unschedulable": "cordoned",
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "not reachable",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk",
    "node.kubernetes.io/pid-pressure": "short of process ids",
    "node.kubernetes.io/network-unavailable": "without network",
}

Object = Mapping[str, Any]
Amounts = Mapping[str, Decimal]  #: resource, such as nvidia.com/gpu → how much


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()
    total: Amounts = field(default_factory=dict)
    free: Amounts = field(default_factory=dict)

    def short_of(self, wanted: Amounts) -> list[str]:
        return [what for what, amount in wanted.items() if amount > self.free.get(what, 0)]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a pod asks of a node."""

    amounts: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: Sequence[Object] = ()  #: of its node affinity; one of them must hold
    tolerations: Sequence[Object] = ()
    in_group: bool = False  #: it is placed together with others, or not at all


def explain(nodes: Sequence[Node], wanted: Wanted) -> str:
    """Why there is no place, such as `It needs 2 GPUs on one node; node-a has 1 free, node-b 1 free.`"""
    if not nodes:
        return "The cluster has no nodes."
    closed = {node.name: why for node in nodes if (why := _closed(node, wanted))}
    open_nodes = [node for node in nodes if node.name not in closed]
    if not open_nodes:
        return f"No node is open to it: {_listed([f'{name} is {why}' for name, why in closed.items()])}."
    roomy = sorted(node.name for node in open_nodes if not node.short_of(wanted.amounts))
    if roomy:
        verb = "has" if len(roomy) == 1 else "have"
        if wanted.in_group:
            return f"{_listed(roomy)} {verb} room for one member; all must fit at once."
        return f"{_listed(roomy)} {verb} room for it now."
    # A closed node that could take it otherwise is worth a word: somebody may open it.
    could = [
        f"{node.name} (room, but {why})"
        for node in nodes
        if (why := closed.get(node.name, NOT_CHOSEN)) != NOT_CHOSEN and not node.short_of(wanted.amounts)
    ]
    aside = f"; not open to it: {_listed(could)}" if could else ""
    return f"{_shortage(open_nodes, wanted.amounts)}{aside}."


def _shortage(nodes: Sequence[Node], wanted: Amounts) -> str:
    lacking = Counter(what for node in nodes for what in node.short_of(wanted))
    short = [what for what, _ in lacking.most_common()]
    needs = "It needs " + " and ".join(amount(what, wanted[what]) for what in short) + " on one node"
    never = [what for what in short if all(wanted[what] > node.total.get(what, 0) for node in nodes)]
    if never:
        most = [amount(what, max(node.total.get(what, Decimal(0)) for node in nodes)) for what in never]
        return f"{needs}; the biggest that is open to it has {' and '.join(most)} in all"
    ordered = sorted(nodes, key=lambda node: _distance(node, wanted))
    if len(short) == 1:
        [what] = short
        told = [f"{node.name} {'has ' if node is ordered[0] else ''}{_left(node, what)}" for node in ordered]
        free = sum(
            (node.free.get(what, Decimal(0)) for node in nodes if node.free.get(what, 0) > 0), Decimal(0)
        )
        apart = len(nodes) > NAMED and free >= wanted[what]
        all_in_all = f"; {_bare(what, free)} free in all, but not on one node" if apart else ""
        return f"{needs}; {_listed(told)}{all_in_all}"
    told = []
    for node in ordered:
        lefts = [_left(node, what, named=True) for what in node.short_of(wanted)]
        told.append(f"{node.name} {'has ' if node is ordered[0] else ''}{' and '.join(lefts)}")
    return f"{needs}; {_listed(told)}"


def _distance(node: Node, wanted: Amounts) -> tuple[int, float, str]:
    """How far from taking it: the best first."""
    short = node.short_of(wanted)
    missing = sum(float((wanted[what] - node.free.get(what, 0)) / wanted[what]) for what in short)
    return len(short), missing, node.name


def _listed(items: Sequence[str]) -> str:
    more = len(items) - NAMED
    named = ", ".join(items[:NAMED])
    return f"{named} and {more} more" if more > 0 else named


def amount(what: str, number: Decimal) -> str:
    """`2 GPUs`, `8.0 GiB of memory`, `1 place for a pod`."""
    if what in _BYTES:
        return f"{readable_bytes(int(number))} of {_BYTES[what]}"
    if what == PLACES:
        return f"{number:f} {'place for a pod' if number == 1 else 'places for pods'}"
    bare = _bare(what, number)
    noun = "CPU" if what == "cpu" else "GPU" if what.endswith("/gpu") else what
    plural = "s" if noun in ("CPU", "GPU") and bare != "1" else ""
    return f"{bare} {noun}{plural}"


def _bare(what: str, number: Decimal) -> str:
    if what in _BYTES:
        return readable_bytes(int(number))
    return format_cpus(int(number * 1000))


def _left(node: Node, what: str, *, named: bool = False) -> str:
    left = max(node.free.get(what, Decimal(0)), Decimal(0))
    return f"{amount(what, left) if named else _bare(what, left)} free"


def _closed(node: Node, wanted: Wanted) -> str:
    """Why no pod such as this goes there, however much room there is."""
    for taint in node.taints:
        if taint.get("effect") == "PreferNoSchedule" or _is_tolerated(taint, wanted.tolerations):
            continue
        key, value = taint.get("key", ""), taint.get("value", "")
        return _STATES.get(key) or f"tainted {key}{f'={value}' if value else ''}:{taint.get('effect', '')}"
    chosen = all(node.labels.get(key) == value for key, value in wanted.selector.items())
    if not chosen or (wanted.terms and not any(_holds(term, node) for term in wanted.terms)):
        return NOT_CHOSEN
    return ""


def closed_to_all(node: Node) -> str:
    """Why no common pod goes there: `cordoned`, `tainted dedicated=a:NoSchedule`. Empty: one may."""
    return _closed(node, Wanted(amounts={}))


def _is_tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(
        one.get("effect") in (None, "", taint.get("effect"))
        and (not one.get("key") or one["key"] == taint.get("key"))
        and (one.get("operator") == "Exists" or (one.get("value") or "") == (taint.get("value") or ""))
        for one in tolerations
    )


def _holds(term: Object, node: Node) -> bool:
    given = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return bool(given) and all(
        _matches(one, node.name if one["key"] == "metadata.name" else node.labels.get(one["key"]))
        for one in given
    )


def _matches(expression: Object, value: str | None) -> bool:
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                number, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return number > bound if operator == "Gt" else number < bound
        case _:
            return True  # a newer rule: the scheduler's own words say what it holds


# from the API's objects


def read_node(item: Object, used: Amounts) -> Node:
    """`used`: what the pods there ask for."""
    total = _amounts((item.get("status") or {}).get("allocatable"))
    spec = item.get("spec") or {}
    taints = list(spec.get("taints") or ())
    if spec.get("unschedulable"):
        taints.insert(0, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    return Node(
        name=item["metadata"]["name"],
        labels=item["metadata"].get("labels") or {},
        taints=taints,
        total=total,
        free={what: amount - used.get(what, 0) for what, amount in total.items()},
    )


def read_wanted(pod: Object) -> Wanted:
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return Wanted(
        amounts=requests_of(spec),
        selector=spec.get("nodeSelector") or {},
        terms=required.get("nodeSelectorTerms") or (),
        tolerations=spec.get("tolerations") or (),
        in_group=bool(group_of(pod)),
    )


def requests_of(spec: Object) -> dict[str, Decimal]:
    """As the scheduler adds them up: containers together, each init container by itself, sidecars always."""
    total: dict[str, Decimal] = {PLACES: Decimal(1)}
    for container in spec.get("containers") or ():
        add(total, _requests(container))
    sidecars: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        peak = dict(sidecars)
        add(peak, _requests(container))
        if container.get("restartPolicy") == "Always":
            sidecars = peak
        most = {what: max(peak.get(what, Decimal(0)), most.get(what, Decimal(0))) for what in {*peak, *most}}
    add(total, sidecars)
    for what, number in most.items():
        total[what] = max(total.get(what, Decimal(0)), number)
    add(total, _amounts(spec.get("overhead")))
    return {what: number for what, number in total.items() if number > 0}


def add(total: dict[str, Decimal], more: Amounts) -> None:
    for what, number in more.items():
        total[what] = total.get(what, Decimal(0)) + number


def _requests(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(given: object) -> dict[str, Decimal]:
    """What is too big to be read is left out: somebody else's pod must not spoil the sentence."""
    found = {}
    for what, value in given.items() if isinstance(given, Mapping) else ():
        with suppress(BadQuantity):
            found[str(what)] = parse_quantity(value)
    return found
