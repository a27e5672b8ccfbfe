"""What a launch may set of the pods that Muster writes, where the queue's owner lets it.

It goes into the queue's config, at the launch, so that what is previewed, kept and submitted is one tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.domain.errors import BadInput, BadOverride
from muster.domain.path import Location, at, with_value
from muster.domain.policy import Allowed
from muster.domain.resources import Resources, format_cpus
from muster.domain.template import as_literal_tree, find_macros
from muster.domain.volume import Volume
from muster.engine.kubernetes import config as layouts

#: values of a launch that are resources of each node, where the queue has no variable of that name
RESOURCES = ("cpus", "memory", "gpus")
GPU = "nvidia.com/gpu"
_WORDS = {Allowed.RESOURCES: "resources", Allowed.WORKDIR: "a working directory", Allowed.VOLUMES: "volumes"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a launch would have of its pods."""

    image: str | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)  #: of each node, as `accepted` gives them
    workdir: str | None = None
    volumes: tuple[Volume, ...] = ()

    @property
    def needs(self) -> list[Allowed]:
        """What the owner must allow. An image is also taken where the template leaves room for it."""
        given = {
            Allowed.RESOURCES: bool(self.resources),
            Allowed.WORKDIR: self.workdir is not None,
            Allowed.VOLUMES: bool(self.volumes),
        }
        return [what for what, is_given in given.items() if is_given]


def accepted(given: Mapping[str, Any]) -> dict[str, Any]:
    """Some of cpus, memory and gpus, as they are kept."""
    parsed = Resources.parse(given, where="the launch")
    amounts = {"cpus": format_cpus(parsed.millicpus), "memory": str(given.get("memory")).strip()}
    return {name: amounts.get(name, parsed.gpus) for name in RESOURCES if name in given}


def apply(
    config: Mapping[str, Any], asked: Request, *, allow: Collection[Allowed], queue: str
) -> tuple[Mapping[str, Any], tuple[Location, ...]]:
    """The config, which is of a pod template, with what is asked for in it; and where that is."""
    for what in asked.needs:
        if what not in allow:
            raise _not_allowed(what, allow, queue)
    pod = (*layouts.read(config).workload, "template", "spec")
    tree: Any = config
    places = []
    for place, value in _changes(config, pod, asked, allow):
        tree = with_value(tree, place, as_literal_tree(value))
        places.append(place)
    return tree, tuple(places)


def refuse(asked: Request, *, queue: str) -> None:
    """Of a queue whose pods Muster does not write."""
    for what in asked.needs:
        raise _not_allowed(what, (), queue)


def _not_allowed(what: Allowed, allow: Collection[Allowed], queue: str) -> BadOverride:
    known = f"It allows: {', '.join(sorted(allow))}." if allow else "It allows nothing of the kind."
    return BadOverride(
        f'Queue "{queue}" does not let a launch set {_WORDS[what]}.',
        hint=f"{known} Its owner may add `{what}` to `allow`, if its config is a pod template.",
        facts={"queue": queue, "allow": what.value},
    )


def _changes(
    config: Mapping[str, Any], pod: Location, asked: Request, allow: Collection[Allowed]
) -> Iterator[tuple[Location, Any]]:
    """What is written, and where."""
    place = (*pod, "containers", 0)
    main = at(config, place)
    own = main.get("image")
    if asked.image and own and Allowed.IMAGE in allow and "image_uri" not in find_macros(own):
        yield (*place, "image"), asked.image
    for key, amount in _amounts(asked.resources, main):
        for part in _parts(main, key):
            yield (*place, "resources", part, key), amount
    if asked.workdir is not None:
        yield (*place, "workingDir"), _checked_workdir(asked.workdir)
    names: dict[str, str] = {}
    first = _length(at(config, pod), "volumes")
    for volume in asked.volumes:
        if volume.claim not in names:
            name = names[volume.claim] = f"muster-claim-{len(names)}"
            body = {"name": name, "persistentVolumeClaim": {"claimName": volume.claim}}
            yield (*pod, "volumes", first + len(names) - 1), body
    _check_paths(main, asked.volumes)
    for number, volume in enumerate(asked.volumes, _length(main, "volumeMounts")):
        mount: dict[str, Any] = {"name": names[volume.claim], "mountPath": volume.path}
        if volume.read_only:
            mount["readOnly"] = True
        yield (*place, "volumeMounts", number), mount


def _length(node: Mapping[str, Any], key: str) -> int:
    return len(node.get(key) or ())


def _check_paths(main: Mapping[str, Any], volumes: tuple[Volume, ...]) -> None:
    taken = {str(mount.get("mountPath")).rstrip("/") for mount in main.get("volumeMounts") or ()}
    for volume in volumes:
        if volume.path in taken:
            raise BadInput(
                f"Something else is mounted at {volume.path} already.", hint="Choose another path."
            )
        taken.add(volume.path)


def _amounts(given: Mapping[str, Any], main: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a container calls them."""
    kinds = [key for part in ("limits", "requests") for key in at(main, ("resources", part)) or ()]
    gpu = next((key for key in kinds if key.endswith("/gpu")), GPU)
    names = {"cpus": "cpu", "memory": "memory", "gpus": gpu}
    for name, amount in given.items():
        yield names[name], amount


def _parts(main: Mapping[str, Any], key: str) -> list[str]:
    """Where the template has this already; else it becomes a limit, and so a request of the same size."""
    there = [part for part in ("limits", "requests") if key in (at(main, ("resources", part)) or ())]
    return there or ["limits"]


def _checked_workdir(path: str) -> str:
    if not path or len(path) > 1024 or not path.isprintable() or ".." in path.split("/"):
        raise BadInput(
            f"{path[:200]!r} cannot be a working directory.",
            hint="Use an absolute path, or one below the launched code.",
        )
    return path
