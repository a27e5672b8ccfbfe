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
RESOURCES = ("cpus", "memory", "gpus", "cpus_request", "memory_request")
_REQUEST = "_request"  #: ends the names of requests that are lower than their limits
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
    """Some of RESOURCES, as they are kept."""
    sizes = {name: value for name, value in given.items() if not name.endswith(_REQUEST)}
    requests = {
        name.removesuffix(_REQUEST): value for name, value in given.items() if name.endswith(_REQUEST)
    }
    kept = _kept(sizes) | {f"{name}{_REQUEST}": amount for name, amount in _kept(requests).items()}
    for name in requests.keys() & sizes.keys():
        limit = Resources.parse({name: sizes[name]})
        if short := Resources.parse({name: requests[name]}).short_of(limit, word="at most"):
            raise BadInput(
                f"A request is above its limit: {short[0]}.",
                hint="A request is what is kept free for each node. Lower it, or raise the limit.",
                facts={"field": f"values.{name}{_REQUEST}"},
            )
    return kept


def _kept(given: Mapping[str, Any]) -> dict[str, Any]:
    parsed = Resources.parse(given, where="the launch")
    amounts = {
        "cpus": format_cpus(parsed.millicpus),
        "memory": str(given.get("memory")).strip(),
        "gpus": parsed.gpus,
    }
    return {name: amounts[name] for name in given}


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
    for key, part, amount in _amounts(asked.resources, main):
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


def _amounts(given: Mapping[str, Any], main: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """What a container calls them, in which part of its resources, and how much."""
    kinds = [key for part in ("limits", "requests") for key in at(main, ("resources", part)) or ()]
    gpu = next((key for key in kinds if key.endswith("/gpu")), GPU)
    names = {"cpus": "cpu", "memory": "memory", "gpus": gpu}
    for name, amount in given.items():
        key = names[name.removesuffix(_REQUEST)]
        if name.endswith(_REQUEST):
            yield key, "requests", amount
        elif f"{name}{_REQUEST}" in given:
            yield key, "limits", amount
        else:
            for part in _parts(main, key):
                yield key, part, amount


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
