"""The restricted Pod Security Standard: what a pod must not have, and what it must.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from muster.domain.errors import BadTemplate
from muster.domain.path import at
from muster.engine.kubernetes.config import read
from muster.engine.kubernetes.inject import secure
from muster.engine.kubernetes.pods import PodTemplate, find
from muster.engine.kubernetes.write import Writer

_VOLUMES = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split()
)
_SYSCTLS = frozenset(
    """
    kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
    net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range net.ipv4.tcp_fin_timeout
    net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_keepalive_time net.ipv4.tcp_rmem
    net.ipv4.tcp_syncookies net.ipv4.tcp_wmem
    """.split()
)
_SECCOMP = ("RuntimeDefault", "Localhost")
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


def check(pod: PodTemplate) -> None:
    """Refuse a pod that a namespace with this standard would refuse."""
    found = list(violations(pod))
    if found:
        raise BadTemplate(
            f"The queue says `security: restricted`, and its template has {', '.join(found)}.",
            hint="Remove that from the template, or say `security: baseline`.",
            facts={"violations": found},
        )


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse a queue whose pods could never start under this standard, before anybody launches."""
    trial = copy.deepcopy(dict(config))
    for place in read(trial).objects:
        for pod in find(at(trial, place)):
            secure(Writer(), pod, restricted=True)
            check(pod)


def violations(pod: PodTemplate) -> Iterator[str]:
    spec = pod.spec
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field}: true"
    for volume in spec.get("volumes") or ():
        for kind in (key for key in volume if key != "name"):
            if kind not in _VOLUMES:
                yield f"a volume of kind {kind}"
    whole = _mapping(spec.get("securityContext"))
    yield from _of_context(whole, "the pod")
    for sysctl in whole.get("sysctls") or ():
        if _mapping(sysctl).get("name") not in _SYSCTLS:
            yield f"the sysctl {_mapping(sysctl).get('name')}"
    for container in (*pod.containers, *pod.init_containers):
        name = f"container {container.get('name', '')}".strip()
        context = _mapping(container.get("securityContext"))
        yield from _of_context(context, name)
        yield from _of_container(context, whole, name)
        for port in container.get("ports") or ():
            if _mapping(port).get("hostPort"):
                yield f"hostPort: {port['hostPort']} in {name}"


def _of_context(context: Mapping[str, Any], where: str) -> Iterator[str]:
    if context.get("runAsUser") == 0:
        yield f"runAsUser: 0 in {where}"
    if context.get("runAsNonRoot") is False:
        yield f"runAsNonRoot: false in {where}"
    seccomp = _mapping(context.get("seccompProfile")).get("type")
    if seccomp is not None and seccomp not in _SECCOMP:
        yield f"seccompProfile: {seccomp} in {where}"
    if _mapping(context.get("appArmorProfile")).get("type") == "Unconfined":
        yield f"appArmorProfile: Unconfined in {where}"
    selinux = _mapping(context.get("seLinuxOptions"))
    if selinux.get("type", "") not in _SELINUX or selinux.get("user") or selinux.get("role"):
        yield f"seLinuxOptions in {where}"
    if _mapping(context.get("windowsOptions")).get("hostProcess"):
        yield f"windowsOptions.hostProcess in {where}"


def _of_container(context: Mapping[str, Any], whole: Mapping[str, Any], where: str) -> Iterator[str]:
    if context.get("privileged"):
        yield f"privileged: true in {where}"
        return
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"allowPrivilegeEscalation in {where}"
    if context.get("procMount", "Default") != "Default":
        yield f"procMount: {context['procMount']} in {where}"
    capabilities = _mapping(context.get("capabilities"))
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"capabilities that are not dropped in {where}"
    for added in capabilities.get("add") or ():
        if added != "NET_BIND_SERVICE":
            yield f"the capability {added} in {where}"
    if context.get("runAsNonRoot", whole.get("runAsNonRoot")) is not True:
        yield f"no runAsNonRoot: true in {where}"
    if not (_mapping(context.get("seccompProfile")) or _mapping(whole.get("seccompProfile"))):
        yield f"no seccompProfile in {where}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
