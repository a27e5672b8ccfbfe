"""A run becomes the objects to create in a cluster. Pure: the server previews with the same code.

The manifest is the workload itself or, where the queue's config has several objects, a `v1` List of them.
It is final: `$${x}` has become `${x}`, and macros that nobody knew are left as they were.
"""

from __future__ import annotations

import re
from typing import Any

from muster.domain.errors import BadCommand, BadInput, BadTemplate, BadTraining
from muster.domain.path import at
from muster.domain.policy import Security
from muster.domain.provenance import INJECTED, LAUNCH, Origins, Sources
from muster.domain.resources import Resources
from muster.domain.template import fill, find_macros
from muster.engine.facts import run_env, run_macros
from muster.engine.kubernetes import config, inject, pods, restricted
from muster.engine.kubernetes.names import legal_label, legal_name, make_legal, secret_name
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.write import Tracer, Writer
from muster.engine.port import Rendered, Work

PREFIX = "muster.dev"
#: What the program is told by reference: these keys of the attempt's Secret, which `submit` creates.
SECRETS = ("MUSTER_URL", "MUSTER_API_KEY")

# Kubernetes reads `$(NAME)` and `$$` in commands and environments; what a launch brought is text.
_EXPANDED = re.compile(r"\$(?=[$(])")
_NOWHERE = Origins()


def render(work: Work) -> Rendered:
    """What `submit` will create."""
    return _build(work, _filled(work), Writer(), _NOWHERE)


def trace(work: Work, origins: Origins) -> tuple[Rendered, Sources]:
    """The same, and where each of its values came from."""
    filled = _filled(work)
    tracer = Tracer(filled, origins.config)
    rendered = _build(work, filled, tracer, origins)
    return rendered, tracer.sources(rendered.manifest)


def _filled(work: Work) -> Any:
    filled = fill(work.config, run_macros(work))
    make_legal(work.config, filled)
    return filled


def _build(work: Work, filled: Any, writer: Writer, origins: Origins) -> Rendered:
    _check(work)
    layout = config.read(filled)
    workload = at(filled, layout.workload)
    companions = [at(filled, place) for place in layout.objects if place != layout.workload]
    _name_objects(work, writer, workload, companions)
    replicas, resources = _write_workload(work, writer, workload, origins)
    for item in companions:
        _identify(work, writer, item)
        for pod in pods.find(item):
            resources += _write_pod(work, writer, pod, inject.NO_RULES) * pod.count
    objects = [at(filled, place) for place in layout.objects]
    for item in objects:
        _arrange(item)
    manifest = {"apiVersion": "v1", "kind": "List", "items": objects} if companions else workload
    return Rendered(
        key=work.key, engine="kubernetes", manifest=manifest, replicas=replicas, resources=resources
    )


def _arrange(item: dict[str, Any]) -> None:
    """In the order people know."""
    rest = dict(item)
    item.clear()
    for key in ("apiVersion", "kind", "metadata"):
        if key in rest:
            item[key] = rest.pop(key)
    item.update(rest)


def _check(work: Work) -> None:
    if work.has_code:
        raise BadInput(
            f"Queue {work.queue!r} is for Kubernetes, where this version of Muster runs images, "
            "not a folder or a repository.",
            hint="Build the code into an image and launch that: -d IMAGE.",
        )
    if work.training is not None and (work.training.nodes, work.training.procs_per_node) != (1, 1):
        raise BadTraining(
            f"The template of queue {work.queue!r} says itself how many pods there are.",
            hint="Leave out --nodes and --procs-per-node; change its counts with --override.",
        )


def _name_objects(
    work: Work, writer: Writer, workload: dict[str, Any], companions: list[dict[str, Any]]
) -> None:
    """Names and kinds for those that have none."""
    for item in (workload, *companions):
        writer.fill(item, {"kind": "Job"})
        version = config.API_VERSIONS.get(item["kind"])
        if version is not None:
            writer.fill(item, {"apiVersion": version})
    own = f"{work.key.run_id}-{work.key.attempt}"
    metadata = writer.mapping(workload, "metadata")
    if "name" not in metadata:
        prefix = str(metadata.pop("generateName", "muster-"))  # a name of ours is found again, theirs is not
        writer.put(metadata, "name", legal_name(prefix + own))
    if not isinstance(metadata["name"], str):
        raise BadTemplate(
            f"metadata.name is {metadata['name']!r}, which is not text.",
            hint="Put it in quotes; a variable in it must be of type string.",
        )
    for number, item in enumerate(companions):
        name = metadata["name"] if number == 0 else f"{metadata['name']}-{number}"
        writer.fill(writer.mapping(item, "metadata"), {"name": legal_name(name)})


def _write_workload(
    work: Work, writer: Writer, workload: dict[str, Any], origins: Origins
) -> tuple[int, Resources]:
    _identify(work, writer, workload)
    rules = inject.RULES.get((config.group_of(workload), workload["kind"]), inject.NO_RULES)
    templates = pods.find(workload)
    inject.bound_lifetime(writer, workload, templates, rules)
    resources = Resources()
    for pod in templates:
        resources += _write_pod(work, writer, pod, rules) * pod.count
    mains = [_main(workload, pod) for pod in templates]
    count = sum(pod.count for pod in templates)
    trainer = at(workload, ("spec", "trainer")) if workload["kind"] == "TrainJob" else None
    if isinstance(trainer, dict):  # its pods are described elsewhere, in a runtime
        nodes = trainer.get("numNodes", 1)
        count = nodes if isinstance(nodes, int) else 1
        resources += pods.asked_by_node(trainer.get("resourcesPerNode")) * count
        mains = [trainer]
    _write_image(work, writer, mains, origins, is_optional=isinstance(trainer, dict))
    _write_command(work, writer, workload, mains, origins)
    _write_env(work, writer, templates, mains, origins)
    return max(count, 1), resources


def _main(workload: dict[str, Any], pod: PodTemplate) -> dict[str, Any]:
    """The container that runs the program: the first one."""
    if workload["kind"] == "PyTorchTrainingJob":  # whose controller prefers this name
        return next((one for one in pod.containers if one.get("name") == "python"), pod.containers[0])
    return pod.containers[0]


def _write_pod(work: Work, writer: Writer, pod: PodTemplate, rules: inject.Rules) -> Resources:
    """What every pod gets, whatever it runs. Returns what one of them asks for."""
    pods.check(pod)
    is_restricted = work.security is Security.RESTRICTED
    inject.name_containers(writer, pod, rules)
    inject.secure(writer, pod, restricted=is_restricted)
    inject.mount_shared_memory(writer, pod)
    _identify(work, writer, pod.node)
    if is_restricted:
        restricted.check(pod)
    return pods.resources_of(pod)


def _identify(work: Work, writer: Writer, node: dict[str, Any]) -> None:
    """Labels to find it by, on the object and on its pods."""
    metadata = writer.mapping(node, "metadata")
    labels = writer.mapping(metadata, "labels")
    for name, value in (
        ("run-id", work.key.run_id),
        ("attempt", str(work.key.attempt)),
        ("queue", work.queue),
        ("project", work.project),
        ("entity", work.entity),
    ):
        writer.put(labels, f"{PREFIX}/{name}", legal_label(value))
    annotations = writer.mapping(metadata, "annotations")
    writer.put(annotations, f"{PREFIX}/run-name", work.run_name)
    writer.put(annotations, f"{PREFIX}/author", work.author)


def _write_image(
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


def _write_command(
    work: Work, writer: Writer, workload: dict[str, Any], mains: list[dict[str, Any]], origins: Origins
) -> None:
    """The launch's command, where the owner left room for it: what the owner wrote stands."""
    if not work.command:
        return
    words = [_EXPANDED.sub("$$", word) for word in work.command]
    torchrun = at(workload, ("spec", "torchrunConfig", "enabled")) is True
    is_script = words[0].endswith(".py") and not torchrun
    for container in mains:
        has_command, has_args = bool(container.get("command")), bool(container.get("args"))
        if has_args or (torchrun and has_command):
            raise BadCommand(
                f"The template of queue {work.queue!r} says itself what container "
                f"{container.get('name', 0)!r} runs.",
                hint="Launch without a command, or ask its owner to leave out `args`.",
            )
        key = "args" if has_command or torchrun else "command"
        whole = ["python", *words] if is_script else list(words)
        writer.put(container, key, whole, LAUNCH)
        for place in range(len(whole)):
            own = place - len(whole) + len(words)
            writer.credit(whole, place, origins.of_word(own) if own >= 0 else INJECTED)
    if not mains:
        raise BadCommand(
            f"The {workload['kind']} of queue {work.queue!r} has no container to run a command in.",
            hint="Launch without a command.",
        )


def _write_env(
    work: Work, writer: Writer, templates: list[PodTemplate], mains: list[dict[str, Any]], origins: Origins
) -> None:
    """Muster's own in every container; the launch's, and what is secret, only where its image runs, not in
    an owner's sidecar."""
    own = {name: (_EXPANDED.sub("$$", value), INJECTED) for name, value in run_env(work).items()}
    own["MUSTER_CONFIG"] = (own["MUSTER_CONFIG"][0], origins.inputs if work.inputs else INJECTED)
    launch = {name: (_EXPANDED.sub("$$", value), origins.of_env(name)) for name, value in work.env.items()}
    containers = [container for pod in templates for container in pod.containers]
    is_main = {id(container) for container in mains}
    for container in containers or mains:
        if id(container) in is_main or (work.image and container.get("image") == work.image):
            _refer_to_secrets(work, writer, container)
            _set_env(writer, container, {**launch, **own})
        else:
            _set_env(writer, container, own)


def _refer_to_secrets(work: Work, writer: Writer, container: dict[str, Any]) -> None:
    """Key by key, so that nobody gets what is meant for another; what the owner set himself stands."""
    known = _env_of(container)
    fresh = [(name, {"name": secret_name(work.key), "key": name}) for name in SECRETS if name not in known]
    items = [({"name": name, "valueFrom": {"secretKeyRef": ref}}, INJECTED) for name, ref in fresh]
    writer.prepend(container, "env", items)


def _set_env(writer: Writer, container: dict[str, Any], values: dict[str, tuple[str, str]]) -> None:
    known = _env_of(container)
    fresh = []
    for name, (value, source) in values.items():
        item = known.get(name)
        if item is None:
            fresh.append(({"name": name, "value": value}, source))
            continue
        item.pop("valueFrom", None)
        writer.put(item, "value", value, source)
    if fresh:  # first, so that the owner's own values can refer to them
        writer.prepend(container, "env", fresh)


def _env_of(container: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    return {item.get("name"): item for item in container.get("env") or () if isinstance(item, dict)}
