"""What is added where the queue is silent, so that a run is safe and ends. What the owner wrote stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.domain.errors import BadTraining
from muster.domain.path import at
from muster.domain.resources import parse_quantity
from muster.domain.training import Training
from muster.engine.kubernetes.kinds.kind import Rules
from muster.engine.kubernetes.pods import PodTemplate
from muster.engine.kubernetes.write import Writer

SHM = "/dev/shm"  # noqa: S108 - a mount point in a container
SHM_VOLUME = "muster-shm"
USER = 1000  #: who runs in a restricted queue whose owner names nobody


def bound_lifetime(writer: Writer, item: dict[str, Any], pods: Iterable[PodTemplate], rules: Rules) -> None:
    """No retries behind Muster's back, and nothing that stays for ever."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return
    writer.fill(spec, rules.spec)
    policy = {key: value for key, value in rules.policy.items() if key not in spec}
    if policy:
        writer.fill(writer.mapping(spec, "runPolicy"), policy)
    for pod in pods:
        if "restartPolicy" not in pod.spec or "restartPolicy" not in rules.around:
            writer.fill(pod.around, rules.around)
        writer.fill(pod.spec, rules.pod)


def secure(writer: Writer, pod: PodTemplate, *, restricted: bool) -> None:
    """The `securityContext` of every container, field by field; and, if restricted, of the pod."""
    system = pod.spec.get("os")
    if isinstance(system, Mapping) and system.get("name") == "windows":
        return  # none of this exists there
    if restricted:
        context = writer.mapping(pod.spec, "securityContext")
        writer.fill(context, {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER})
        writer.fill(context, {"seccompProfile": {"type": "RuntimeDefault"}})
    whole = pod.spec.get("securityContext")
    inherited = isinstance(whole, Mapping) and "seccompProfile" in whole
    for container in (*pod.containers, *pod.init_containers):
        context = writer.mapping(container, "securityContext")
        if context.get("privileged") is True:
            continue  # a cluster refuses it together with the rest
        if not _adds_sys_admin(context):
            writer.fill(context, {"allowPrivilegeEscalation": False})
        writer.fill(context, {"capabilities": {"drop": ["ALL"]}})
        if not inherited:
            writer.fill(context, {"seccompProfile": {"type": "RuntimeDefault"}})


def _adds_sys_admin(context: Mapping[str, Any]) -> bool:
    """A cluster refuses this capability together with `allowPrivilegeEscalation: false`."""
    capabilities = context.get("capabilities")
    added = capabilities.get("add") if isinstance(capabilities, Mapping) else None
    return isinstance(added, list) and not {"SYS_ADMIN", "CAP_SYS_ADMIN", "ALL"}.isdisjoint(map(str, added))


def shared_memory_for(
    training: Training | None, pod: PodTemplate, main: Mapping[str, Any], *, by_limit: bool
) -> str | None:
    """How big `/dev/shm` is to be. What is in it counts against the memory limit of the program's container:
    so that limit, `by_limit`, where the launch does not say, and never more."""
    asked = training.shm if training else None
    given = at(main, ("resources", "limits", "memory"))
    limit = str(given) if given is not None and "${" not in str(given) else None
    if asked is None:
        return limit if by_limit else None
    if _has_shared_memory(pod):
        raise BadTraining(
            f"The template mounts its own {SHM}, so shm={asked} cannot be set.", hint="Launch without shm."
        )
    size = parse_quantity(asked, what="amount of shared memory")
    if size < 1:
        raise BadTraining(f"shm={asked} is not possible.", hint="Use an amount such as 8Gi.")
    if limit is not None and size > parse_quantity(limit):
        raise BadTraining(
            f"shm={asked} is more than the memory of each node, {limit}, which it counts against.",
            hint="Ask for less shared memory, or for more memory.",
        )
    return asked


def mount_shared_memory(writer: Writer, pod: PodTemplate, size: str | None, source: str) -> None:
    """In memory, and not the 64 MiB of a bare container, which end data loaders with SIGBUS."""
    if _has_shared_memory(pod):
        return
    for container in pod.containers:
        writer.append(container, "volumeMounts", {"name": SHM_VOLUME, "mountPath": SHM})
    volume = {"medium": "Memory"}
    if size is not None:
        writer.put(volume, "sizeLimit", size, source)
    writer.append(pod.spec, "volumes", {"name": SHM_VOLUME, "emptyDir": volume})


def _has_shared_memory(pod: PodTemplate) -> bool:
    mounts = (mount for container in pod.containers for mount in container.get("volumeMounts") or ())
    return any(isinstance(mount, Mapping) and _path(mount) == SHM for mount in mounts)


def _path(mount: Mapping[str, Any]) -> str:
    return str(mount.get("mountPath")).rstrip("/")


def limit_gpus(writer: Writer, container: dict[str, Any]) -> None:
    """A cluster takes GPUs only as limits; a request alone is refused."""
    resources = container.get("resources")
    requests = resources.get("requests") if isinstance(resources, dict) else None
    gpus = {key: count for key, count in (requests or {}).items() if str(key).endswith("/gpu")}
    if gpus:
        writer.fill(writer.mapping(container["resources"], "limits"), gpus)


def name_containers(writer: Writer, pod: PodTemplate, rules: Rules) -> None:
    for index, container in enumerate(pod.containers):
        known = rules.container if index == 0 and rules.container else f"launch{index}"
        writer.fill(container, {"name": known})
    for index, container in enumerate(pod.init_containers):
        writer.fill(container, {"name": f"init{index}"})
