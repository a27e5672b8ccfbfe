"""The containers that run the launch's program: their image, their command, what they are told."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.domain.errors import BadCommand, BadInput
from muster.domain.path import at
from muster.domain.provenance import INJECTED, LAUNCH, Origins
from muster.domain.template import find_macros
from muster.engine.facts import run_env
from muster.engine.kubernetes.gang import EnvValue, value
from muster.engine.kubernetes.names import secret_name
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.write import Writer
from muster.engine.port import Work

#: What the program is told by reference: these keys of the attempt's Secret, which `submit` creates.
SECRETS = ("MUSTER_URL", "MUSTER_API_KEY")

# Kubernetes reads `$(NAME)` and `$$` in commands and environments; what a launch brought is text.
_EXPANDED = re.compile(r"\$(?=[$(])")


@dataclass(frozen=True, kw_only=True)
class Program:
    """How the launch's command is started."""

    prefix: tuple[str, ...] = ()  #: words before it
    shape: Mapping[str, EnvValue] = field(default_factory=dict)  #: what the training says
    env: Mapping[str, EnvValue] = field(default_factory=dict)  #: Muster's word, whatever others say
    defaults: Mapping[str, EnvValue] = field(default_factory=dict)  #: unless the owner or the launch says so


def literal(text: str) -> str:
    """What Kubernetes gives a container as exactly this text."""
    return _EXPANDED.sub("$$", text)


def secret(work: Work, key: str) -> EnvValue:
    """Key by key, so that nobody gets what is meant for another."""
    return {"valueFrom": {"secretKeyRef": {"name": secret_name(work.key), "key": key}}}


def write_image(
    work: Work, writer: Writer, mains: list[dict[str, Any]], origins: Origins, *, is_optional: bool
) -> None:
    without = [container for container in mains if not container.get("image")]
    if work.image:
        for container in without:
            writer.put(container, "image", work.image, origins.image)
        taken = without or any(container.get("image") == work.image for container in mains)
        if not taken and "image_uri" not in find_macros(work.config):
            raise BadInput(
                f"The template of queue {work.queue!r} has its own image, and no place for {work.image!r}.",
                hint="Launch without an image, or ask its owner to write image: ${image_uri}.",
            )
    elif without and not is_optional:
        raise BadInput(
            f"Queue {work.queue!r} runs images, and this launch names none.",
            hint="Give one with -d IMAGE; the queue's owner may set a `default_image`.",
        )


def write_command(
    work: Work,
    writer: Writer,
    workload: dict[str, Any],
    mains: list[dict[str, Any]],
    origins: Origins,
    program: Program,
) -> None:
    """The launch's command, where the owner left room for it: what the owner wrote stands."""
    if not work.command:
        return
    words = [literal(word) for word in work.command]
    torchrun = at(workload, ("spec", "torchrunConfig", "enabled")) is True
    prefix = program.prefix or (("python",) if words[0].endswith(".py") and not torchrun else ())
    for container in mains:
        has_command, has_args = bool(container.get("command")), bool(container.get("args"))
        if has_args or (torchrun and has_command):
            raise BadCommand(
                f"The template of queue {work.queue!r} says itself what container "
                f"{container.get('name', 0)!r} runs.",
                hint="Launch without a command, or ask its owner to leave out `args`.",
            )
        key = "args" if has_command or torchrun else "command"
        whole = [*prefix, *words]
        writer.put(container, key, whole, LAUNCH)
        for place in range(len(whole)):
            own = place - len(prefix)
            writer.credit(whole, place, origins.of_word(own) if own >= 0 else INJECTED)
    if not mains:
        raise BadCommand(
            f"The {workload['kind']} of queue {work.queue!r} has no container to run a command in.",
            hint="Launch without a command.",
        )


def write_env(
    work: Work,
    writer: Writer,
    templates: list[PodTemplate],
    mains: list[dict[str, Any]],
    origins: Origins,
    program: Program,
) -> None:
    """Muster's own in every container; the launch's, and what is secret, only where its image runs, not in
    an owner's sidecar."""
    own = {name: (value(literal(text)), INJECTED) for name, text in run_env(work).items()}
    own["MUSTER_CONFIG"] = (own["MUSTER_CONFIG"][0], origins.inputs if work.inputs else INJECTED)
    launch = {name: (value(literal(text)), origins.of_env(name)) for name, text in work.env.items()}
    ours = {
        **{name: (body, origins.training) for name, body in program.shape.items()},
        **{name: (body, INJECTED) for name, body in program.env.items()},
    }
    defaults = {**{name: secret(work, name) for name in SECRETS}, **program.defaults}
    containers = [container for pod in templates for container in pod.containers]
    is_main = {id(container) for container in mains}
    for container in containers or mains:
        if id(container) in is_main or (work.image and container.get("image") == work.image):
            known = {*env_of(container), *launch}
            fresh = {name: (body, INJECTED) for name, body in defaults.items() if name not in known}
            set_env(writer, container, {**launch, **own, **fresh, **ours})
        else:
            set_env(writer, container, own)


def set_env(writer: Writer, container: dict[str, Any], values: Mapping[str, tuple[EnvValue, str]]) -> None:
    """Each with its source."""
    known = env_of(container)
    fresh = []
    for name, (body, source) in values.items():
        item = known.get(name)
        if item is None:
            fresh.append(({"name": name, **copy.deepcopy(dict(body))}, source))
            continue
        item.pop("value", None)
        item.pop("valueFrom", None)
        for key, part in body.items():
            writer.put(item, key, copy.deepcopy(part), source)
    if fresh:  # first, so that the owner's own values can refer to them
        writer.prepend(container, "env", fresh)


def env_of(container: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    """By name."""
    return {item.get("name"): item for item in container.get("env") or () if isinstance(item, dict)}
