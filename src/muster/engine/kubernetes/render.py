"""A run becomes the objects to create in a cluster. Pure: the server previews with the same code.

The manifest is the workload itself or, where there are several objects, a `v1` List of them. It is final:
`$${x}` has become `${x}`, and macros that nobody knew are left as they were.

A queue's config has whole objects, which are filled in; or, for the workload, a kind and a pod template,
and Muster writes the object in the shape of the training (`muster.engine.kubernetes.kinds`).
"""

from __future__ import annotations

from typing import Any

from muster.domain.errors import BadInput, BadTemplate, BadTraining
from muster.domain.path import at
from muster.domain.policy import Security
from muster.domain.provenance import INJECTED, Origins, Sources
from muster.domain.resources import Resources
from muster.domain.template import fill
from muster.domain.training import Launcher
from muster.engine.facts import run_macros
from muster.engine.kubernetes import code, config, inject, launcher, pods, program, restricted
from muster.engine.kubernetes.gang import Gang, Meeting
from muster.engine.kubernetes.kinds.kind import Form, Kind, Rules
from muster.engine.kubernetes.names import MAX, legal_label, legal_name, make_legal
from muster.engine.kubernetes.pod import FIRST_RANK, PER_JOB
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.program import Program
from muster.engine.kubernetes.write import Tracer, Writer
from muster.engine.port import Rendered, Work

PREFIX = "muster.dev"
GANG = f"{PREFIX}/gang"  #: on a workload whose members go on together, or not at all

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
    layout = config.read(filled)
    _check(work, layout.form)
    workload = at(filled, layout.workload)
    companions = [at(filled, place) for place in layout.objects if place != layout.workload]
    _name_objects(work, writer, workload, companions, layout.form)
    meeting = _gather(work, writer, workload, layout.form, origins.training) if layout.form else None
    replicas, resources = _write_workload(work, writer, workload, origins, meeting)
    for item in companions:
        for pod in _pods_of(item):
            resources += _write_pod(work, writer, pod, Rules()) * pod.count
    objects = [*(at(filled, place) for place in layout.objects), *(meeting.companions if meeting else ())]
    for item in objects:
        _identify(work, writer, item)
        _arrange(item)
    manifest = {"apiVersion": "v1", "kind": "List", "items": objects} if len(objects) > 1 else workload
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


def _check(work: Work, form: Form | None) -> None:
    shape = work.training
    if form is not None or shape is None:
        return
    if (shape.nodes, shape.procs_per_node) != (1, 1):
        raise BadTraining(
            f"The template of queue {work.queue!r} says itself how many pods there are.",
            hint="Leave out --nodes and --procs-per-node; change its counts with --override.",
        )
    if shape.launcher is Launcher.TORCHRUN or shape.max_restarts:
        raise BadTraining(
            f"The template of queue {work.queue!r} says itself how its program is started.",
            hint="Leave out --launcher and --max-restarts, or use a queue whose config is a pod template.",
        )


def _name_objects(
    work: Work,
    writer: Writer,
    workload: dict[str, Any],
    companions: list[dict[str, Any]],
    form: Form | None,
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
    longest = form.longest_name(_nodes(work)) if form else MAX
    if len(metadata["name"]) > longest:
        metadata["name"] = legal_name(metadata["name"], longest)
    for number, item in enumerate(companions):
        name = metadata["name"] if number == 0 else f"{metadata['name']}-{number}"
        writer.fill(writer.mapping(item, "metadata"), {"name": legal_name(name)})


def _nodes(work: Work) -> int:
    return work.training.nodes if work.training else 1


def _gather(work: Work, writer: Writer, workload: dict[str, Any], form: Form, source: str) -> Meeting:
    """Write the workload, and what its members need to meet."""
    metadata = workload["metadata"]
    gang = Gang(key=work.key, name=metadata["name"], nodes=_nodes(work), source=source)
    meeting = form.write(writer, workload, gang)
    writer.put(writer.mapping(metadata, "annotations"), GANG, "true")
    if work.training is not None:
        meeting.companions.append(launcher.config_map(gang))
    for item in meeting.companions:
        if "namespace" in metadata:
            item["metadata"]["namespace"] = metadata["namespace"]
    return meeting


def _pods_of(item: dict[str, Any]) -> list[PodTemplate]:
    found = pods.find(item)
    for pod in found:
        pods.check(pod)
    return found


def _write_workload(
    work: Work, writer: Writer, workload: dict[str, Any], origins: Origins, meeting: Meeting | None
) -> tuple[int, Resources]:
    """Everything inside of it; how many members it has, and what they ask for at a time."""
    kind = config.known_kind(workload)
    rules = kind.rules
    templates, trainer = _in_order(kind, workload, _pods_of(workload)), _trainer_of(workload)
    mains = [trainer] if trainer is not None else [pods.main_of(pod, kind.main) for pod in templates]
    program.write_image(work, writer, mains, origins, is_optional=trainer is not None)
    if work.has_code:
        _bring_code(work, writer, workload, templates)
    inject.bound_lifetime(writer, workload, templates, rules)
    resources = Resources()
    for pod in templates:
        main = pods.main_of(pod, kind.main)
        shm = inject.shared_memory_for(work.training, pod, main, by_limit=meeting is not None)
        said = origins.training if work.training and work.training.shm else INJECTED
        resources += _write_pod(work, writer, pod, rules, shm, said) * pod.count
    _number(writer, templates)
    members = sum(pod.members for pod in templates)
    if trainer is not None:
        nodes = trainer.get("numNodes", 1)
        members = nodes if isinstance(nodes, int) else 1
        resources += pods.asked_by_node(trainer.get("resourcesPerNode")) * members
    started = Program()
    if meeting is not None:
        for pod, main in zip(templates, mains, strict=True):
            started = _start(work, writer, pod, main, meeting)
    program.write_command(work, writer, workload, mains, origins, started)
    program.write_env(work, writer, templates, mains, origins, started)
    return max(members, 1), resources


def _in_order(kind: Kind, workload: dict[str, Any], templates: list[PodTemplate]) -> list[PodTemplate]:
    """By rank: the leader's role first."""
    leader = at(workload, kind.leader) if kind.leader else None
    return sorted(templates, key=lambda pod: leader is not None and pod.around is not leader)


def _number(writer: Writer, templates: list[PodTemplate]) -> None:
    """Say on the pods where their role begins, where the cluster numbers them by role, or by inner Job."""
    first = 0
    for pod in templates:
        notes = {}
        if len(templates) > 1:
            notes[FIRST_RANK] = str(first)
        if pod.inner != pod.members:
            notes[PER_JOB] = str(pod.inner)
        if notes:
            annotations = writer.mapping(writer.mapping(pod.node, "metadata"), "annotations")
            for name, text in notes.items():
                writer.put(annotations, name, text)
        first += pod.members


def _trainer_of(workload: dict[str, Any]) -> dict[str, Any] | None:
    """Of a TrainJob, whose pods are described elsewhere, in a runtime."""
    trainer = at(workload, ("spec", "trainer")) if workload["kind"] == "TrainJob" else None
    return trainer if isinstance(trainer, dict) else None


def _bring_code(work: Work, writer: Writer, workload: dict[str, Any], templates: list[PodTemplate]) -> None:
    if not templates:
        raise BadInput(
            f"The {workload['kind']} of queue {work.queue!r} has no pods of its own to bring code into.",
            hint="Build the code into an image and launch that: -d IMAGE.",
        )
    for pod in templates:
        code.bring(work, writer, pod, pods.main_of(pod, config.known_kind(workload).main))


def _start(work: Work, writer: Writer, pod: PodTemplate, main: dict[str, Any], meeting: Meeting) -> Program:
    """How the program of a workload that Muster wrote is started."""
    writer.fill(main, {"terminationMessagePolicy": "FallbackToLogsOnError"})
    inject.limit_gpus(writer, main)
    if work.training is None:
        return Program()
    launcher.mount(writer, pod, main, meeting.gang)
    return launcher.program(work, work.training, main, meeting)


def _write_pod(
    work: Work,
    writer: Writer,
    pod: PodTemplate,
    rules: Rules,
    shm: str | None = None,
    shm_source: str = INJECTED,
) -> Resources:
    """What every pod gets, whatever it runs. Returns what one of them asks for."""
    is_restricted = work.security is Security.RESTRICTED
    inject.name_containers(writer, pod, rules)
    inject.secure(writer, pod, restricted=is_restricted)
    inject.mount_shared_memory(writer, pod, shm, shm_source)
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
