"""What a launch changes in a queue's template, beyond its variables: only where the owner opened it.

A path that is open opens what is below it, except what is guarded (`GUARDED`): that is open only where
the owner's path names it. Values are text, numbers and trees; nothing in them is read as a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from muster.domain.errors import BadOverride
from muster.domain.path import Location, Path, at, covers, is_there, locate, parse, shown, with_value
from muster.domain.template import Tree, as_literal_tree

#: Open where the owner says nothing: how many of each there are.
COUNTS = (
    "spec.parallelism",
    "spec.completions",
    "spec.minAvailable",
    "spec.tasks[*].replicas",
    "spec.pytorchReplicaSpecs.*.replicas",
    "spec.replicaSpecs[*].replicas",
    "spec.replicatedJobs[*].replicas",
    "spec.replicatedJobs[*].template.spec.parallelism",
    "spec.replicatedJobs[*].template.spec.completions",
    "spec.trainer.numNodes",
)
_COUNT_KEYS = frozenset({"parallelism", "completions", "minAvailable", "replicas", "numNodes"})

#: Whoever may write these may leave the container, or act in the cluster as somebody else.
GUARDED = frozenset(
    {
        "securityContext",
        "hostPath",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "hostUsers",
        "hostPort",
        "shareProcessNamespace",
        "serviceAccount",
        "serviceAccountName",
        "serviceAccountToken",
        "automountServiceAccountToken",
        "mountPropagation",
    }
)
_GUARDED_PREFIXES = ("container.apparmor.security.beta.kubernetes.io", "seccomp.security.alpha.kubernetes.io")


def apply(
    tree: Tree,
    overrides: Mapping[str, Any],
    *,
    overridable: Sequence[str] | None,
    queue: str,
    root: Location = (),
) -> tuple[Tree, tuple[Location, ...]]:
    """The tree with these values in it, and where they are. Paths start at `root`; the tree is not touched.

    Every path is looked up, and checked, in the tree as the owner wrote it: one override cannot open
    the way for another.
    """
    base = at(tree, root)
    patterns = [parse(text) for text in (COUNTS if overridable is None else overridable)]
    changes: dict[Location, tuple[str, Any]] = {}
    for text, given in overrides.items():
        value = as_literal_tree(given)
        location = locate(base, parse(text), text)
        _check_open(base, location, value, patterns, text=text, overridable=overridable, queue=queue)
        _check_count(location, value, text)
        for other, (other_text, _) in changes.items():
            shorter = min(len(other), len(location))
            if other[:shorter] == location[:shorter]:
                raise BadOverride(f"{other_text} and {text} change the same thing.", hint="Give one of them.")
        changes[location] = (text, value)
    for location, (_, value) in changes.items():
        tree = with_value(tree, root + location, value)
    return tree, tuple(root + location for location in changes)


def _check_open(
    tree: Tree,
    location: Location,
    value: Any,
    patterns: Sequence[Path],
    *,
    text: str,
    overridable: Sequence[str] | None,
    queue: str,
) -> None:
    if not any(covers(pattern, tree, location) for pattern in patterns):
        raise BadOverride(
            f'Queue "{queue}" does not let a launch change {text}.',
            hint=_advice(tree, patterns, overridable),
            facts={"path": text, "queue": queue},
        )
    changed = with_value(tree, location, value)
    for guarded in _guarded(tree, location, value):
        if not any(_names(pattern, guarded, location, (tree, changed)) for pattern in patterns):
            raise BadOverride(
                f'{text} would change {shown(guarded)}, which queue "{queue}" does not open by name.',
                hint="Leave it out, or ask the queue's owner to add exactly that path to `overridable`.",
                facts={"path": text, "guarded": shown(guarded), "queue": queue},
            )


def _names(pattern: Path, guarded: Location, location: Location, trees: Iterable[Tree]) -> bool:
    """Does the pattern lead to this guarded field, or below it, by name?

    In the tree as it was and as it would be: so a `[name=…]` cannot be met by moving items about.
    """
    reach = guarded if len(guarded) > len(location) else location
    named = pattern[len(guarded) - 1 : len(guarded)] == guarded[-1:]
    return named and all(covers(pattern, tree, reach) for tree in trees)


def _advice(tree: Tree, patterns: Iterable[Path], overridable: Sequence[str] | None) -> str:
    texts = COUNTS if overridable is None else overridable
    there = [text for text, pattern in zip(texts, patterns, strict=True) if is_there(pattern, tree)]
    known = f"It opens {', '.join(there or texts)}." if texts else "It opens nothing."
    return f"{known} Use --set for its variables, or ask its owner to add the path to `overridable`."


def _guarded(tree: Tree, location: Location, value: Any) -> Iterator[Location]:
    """Every guarded field that the change writes, changes or takes away."""
    for length, step in enumerate(location, 1):
        if _is_guarded(step):
            yield location[:length]
            return
    old, new = dict(_guarded_in(at(tree, location), location)), dict(_guarded_in(value, location))
    for place in {**old, **new}:
        if place not in old or place not in new or old[place] != new[place]:
            yield place


def _guarded_in(tree: Tree, place: Location) -> Iterator[tuple[Location, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            if _is_guarded(key):
                yield (*place, key), value
            else:
                yield from _guarded_in(value, (*place, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _guarded_in(value, (*place, index))


def _is_guarded(step: object) -> bool:
    return isinstance(step, str) and (step in GUARDED or step.startswith(_GUARDED_PREFIXES))


def _check_count(location: Location, value: Any, text: str) -> None:
    if location[-1] not in _COUNT_KEYS:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise BadOverride(f"{text}={value!r} is not a count.", hint="Use a whole number, 0 or more.")
