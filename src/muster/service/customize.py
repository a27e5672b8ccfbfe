"""What a launch makes of its queue's template: variables bound, overrides applied, the image chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.domain import override
from muster.domain.errors import BadInput
from muster.domain.path import Location
from muster.domain.policy import Allowed
from muster.domain.provenance import JOB, LAUNCH, OVERRIDE, Origins, config_sources
from muster.domain.queue import Queue
from muster.domain.template import bind, find_macros
from muster.domain.variables import Variable
from muster.engine.kubernetes import allow
from muster.engine.kubernetes import config as kubernetes

if TYPE_CHECKING:
    from muster.service.launch import Order

#: engine → where the paths of overrides start in a config; others: at its top
ROOTS: Mapping[str, Callable[[Mapping[str, Any]], Location]] = {
    "kubernetes": lambda config: kubernetes.read(config).workload
}


@dataclass(frozen=True, kw_only=True)
class Customized:
    """A queue's config for one run."""

    config: Mapping[str, Any]
    values: Mapping[str, Any]  #: as accepted: of variables, and resources of its own
    changed: tuple[tuple[Location, str], ...]  #: where it is not the queue's, and whose it is


def customize(queue: Queue, variables: Sequence[Variable], order: Order) -> Customized:
    """Refuses what the queue's rules do not allow."""
    writes_pods = _writes_pods(queue)
    own = set(allow.RESOURCES) - {variable.name for variable in variables} if writes_pods else set()
    resources = allow.accepted({name: value for name, value in order.values.items() if name in own})
    values = {name: value for name, value in order.values.items() if name not in own}
    config, bound = bind(queue.config, variables, values, queue=queue.name)
    if not isinstance(config, Mapping):
        raise BadInput(f"The config of queue {queue.name!r} is not a mapping.")
    asked = allow.Request(
        image=order.image, resources=resources, workdir=order.workdir, volumes=order.volumes
    )
    set_by_launch: tuple[Location, ...] = ()
    if writes_pods:
        config, set_by_launch = allow.apply(config, asked, allow=queue.policy.allow, queue=queue.name)
    else:
        allow.refuse(asked, queue=queue.name)
    overridden: tuple[Location, ...] = ()
    if order.overrides:
        config, overridden = override.apply(
            config,
            order.overrides,
            # Counts of pods are not in a pod template: its shape is the launch's.
            overridable=() if writes_pods and queue.policy.overridable is None else queue.policy.overridable,
            queue=queue.name,
            root=ROOTS[queue.engine](config) if queue.engine in ROOTS else (),
        )
    return Customized(
        config=config,
        values={**bound, **resources},
        changed=(
            *((place, LAUNCH) for place in set_by_launch),
            *((place, OVERRIDE) for place in overridden),
        ),
    )


def takes_value(queue: Queue, name: str) -> bool:
    """May a launch give this value?"""
    is_resource = name in allow.RESOURCES and Allowed.RESOURCES in queue.policy.allow
    return name in queue.variables or (is_resource and _writes_pods(queue))


def _writes_pods(queue: Queue) -> bool:
    return queue.engine == "kubernetes" and kubernetes.is_template(queue.config)


def image_for(queue: Queue, config: Mapping[str, Any], *, asked: str | None) -> str | None:
    """The run's image, else the queue's; refused where the template needs one and there is none."""
    image = asked or queue.policy.default_image
    if image is None and "image_uri" in find_macros(config):
        raise BadInput(
            f"Queue {queue.name!r} runs images, and this launch names none.",
            hint="Give one with -d IMAGE; the queue's owner may set a `default_image`.",
            facts={"field": "image", "queue": queue.name},
        )
    return image


def origins_of(queue: Queue, made: Customized, order: Order) -> Origins:
    """Where the parts of a run came from, for its preview."""
    label = f"queue v{queue.version}"
    changed = {change.what.partition(".")[0] for change in order.changed}

    def recorded(what: str) -> str:
        return LAUNCH if order.version is None or what in changed else JOB

    words = [recorded("entrypoint")] * len(order.entrypoint or ())
    words += [recorded("arguments")] * (len(order.command) - len(words))
    return Origins(
        config=config_sources(queue.config, made.config, made.changed, queue=label),
        image=recorded("image") if order.image else label,
        command=words,
        inputs=recorded("config"),
        training=recorded("training"),
    )
