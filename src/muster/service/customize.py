"""What a launch makes of its queue's template: variables bound, overrides applied, the image chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.domain import override
from muster.domain.errors import BadInput
from muster.domain.path import Location
from muster.domain.provenance import JOB, LAUNCH, Origins, config_sources
from muster.domain.queue import Queue
from muster.domain.template import bind, find_macros
from muster.domain.variables import Variable
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
    values: Mapping[str, Any]
    overridden: tuple[Location, ...]


def customize(
    queue: Queue, variables: Sequence[Variable], values: Mapping[str, Any], overrides: Mapping[str, Any]
) -> Customized:
    """Refuses what the queue's rules do not allow."""
    config, bound = bind(queue.config, variables, values, queue=queue.name)
    if not isinstance(config, Mapping):
        raise BadInput(f"The config of queue {queue.name!r} is not a mapping.")
    overridden: tuple[Location, ...] = ()
    if overrides:
        config, overridden = override.apply(
            config,
            overrides,
            overridable=queue.policy.overridable,
            queue=queue.name,
            root=ROOTS[queue.engine](config) if queue.engine in ROOTS else (),
        )
    return Customized(config=config, values=bound, overridden=overridden)


def image_for(queue: Queue, config: Mapping[str, Any], *, asked: str | None) -> str | None:
    """The run's image, else the queue's; refused where the template needs one and there is none."""
    image = asked or queue.policy.default_image
    if image is None and "image_uri" in find_macros(config):
        raise BadInput(
            f"Queue {queue.name!r} runs images, and this launch names none.",
            hint="Give one with -d IMAGE; the queue's owner may set a `default_image`.",
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
        config=config_sources(queue.config, made.config, made.overridden, queue=label),
        image=recorded("image") if order.image else label,
        command=words,
        inputs=recorded("config"),
        training=recorded("training"),
    )
