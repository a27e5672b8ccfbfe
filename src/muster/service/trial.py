"""What a queue's config would make of a launch, before it is a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from muster.domain.access import Actor
from muster.domain.definition import read_definition
from muster.domain.observation import AttemptKey
from muster.domain.policy import Policy
from muster.domain.provenance import pointers
from muster.domain.queue import Queue, engine_for
from muster.domain.template import find_macros
from muster.domain.variables import Variable
from muster.engine.port import Rendered, Work
from muster.service.customize import Customized, customize, origins_of
from muster.service.launch import Order
from muster.service.queue import check_rules, checked_variables
from muster.service.render import TRACERS

SAMPLE_IMAGE = "your/image:tag"
_SAMPLE_RUN = "preview000"
#: What is launched: an image knows itself what it runs, a process does not.
_SAMPLE_COMMANDS: Mapping[str, tuple[str, ...]] = {"process": ("train.py",)}


@dataclass(frozen=True, kw_only=True)
class Trial:
    rendered: Rendered
    values: Mapping[str, Any]  #: of the variables, as they were tried
    sources: Mapping[str, str]  #: JSON pointer in the manifest → source


def trial(
    actor: Actor,
    text: str,
    *,
    name: str,
    resource: str,
    variables: Mapping[str, Any],
    policy: Policy,
    values: Mapping[str, Any],
    now: datetime,
) -> Trial:
    """Launch something small into it, in thought. Refuses what creating the queue would refuse.

    A variable that is given no value has its default, or one that its rules allow.
    """
    written = read_definition(text, resource=resource)
    config = written.config or {}
    engine = engine_for(resource)
    declared = checked_variables(engine, config, {**(written.variables or {}), **variables})
    queue = Queue(
        id="preview",
        entity=actor.default_entity,
        name=name,
        engine=engine,
        version=1,
        config=config,
        variables=declared,
        policy=Policy.parse({**written.policy, **policy.to_data()}),
        created_at=now,
        created_by=actor.name,
    )
    check_rules(queue)
    known = [Variable.parse(key, rule) for key, rule in declared.items()]
    order = Order(queue=name, values={**{v.name: v.example() for v in known}, **values})
    made = customize(queue, known, order)
    rendered, sources = TRACERS[engine](_work(actor, queue, made), origins_of(queue, made, order))
    return Trial(rendered=rendered, values=made.values, sources=pointers(sources))


def _work(actor: Actor, queue: Queue, made: Customized) -> Work:
    image = queue.policy.default_image
    if image is None and queue.engine != "process" and _takes_image(made.config):
        image = SAMPLE_IMAGE
    return Work(
        key=AttemptKey(run_id=_SAMPLE_RUN, attempt=1),
        run_name="preview",
        project="default",
        entity=queue.entity,
        queue=queue.name,
        author=actor.name,
        config=made.config,
        command=_SAMPLE_COMMANDS.get(queue.engine, ()),
        image=image,
        security=queue.policy.security,
    )


def _takes_image(config: Mapping[str, Any]) -> bool:
    """Is there a place for the launch's image: its macro, or a container that names none?"""
    return "image_uri" in find_macros(config) or any(
        not container.get("image") for container in _containers(config)
    )


def _containers(tree: Any) -> list[Mapping[str, Any]]:
    """The first container of each pod, wherever the kind has its pods."""
    if isinstance(tree, list):
        return [found for item in tree for found in _containers(item)]
    if not isinstance(tree, Mapping):
        return []
    listed = tree.get("containers")
    own = [listed[0]] if isinstance(listed, list) and listed and isinstance(listed[0], Mapping) else []
    return own + [found for value in tree.values() for found in _containers(value)]
