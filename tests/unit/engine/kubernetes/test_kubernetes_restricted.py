"""`security: restricted`: what it adds, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import job, work
from muster.domain.errors import BadTemplate
from muster.domain.policy import Security
from muster.engine.kubernetes.pods import find
from muster.engine.kubernetes.render import render
from muster.engine.kubernetes.restricted import violations


def restricted(config: dict[str, Any]) -> Any:
    return render(work(config, "true", security=Security.RESTRICTED)).manifest


def test_a_silent_template_passes_the_restricted_standard() -> None:
    made = restricted(job({}, {"image": "side"}, pod={"initContainers": [{"image": "x"}]}))
    (pod,) = find(made)
    assert list(violations(pod)) == []
    assert pod.spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_without_it_a_silent_template_may_run_as_root() -> None:
    (pod,) = find(render(work(job(), "true")).manifest)
    assert list(violations(pod)) == ["no runAsNonRoot: true in container launch0"]


def test_a_user_the_owner_names_stands() -> None:
    made = restricted(job({"securityContext": {"runAsUser": 7}}, pod={"securityContext": {"fsGroup": 8}}))
    (pod,) = find(made)
    assert pod.containers[0]["securityContext"]["runAsUser"] == 7
    assert pod.spec["securityContext"]["fsGroup"] == 8


CONTEXTS: list[tuple[dict[str, Any], str]] = [
    ({"privileged": True}, "privileged: true"),
    ({"runAsUser": 0}, "runAsUser: 0"),
    ({"runAsNonRoot": False}, "runAsNonRoot: false"),
    ({"allowPrivilegeEscalation": True}, "allowPrivilegeEscalation"),
    ({"capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}, "the capability SYS_PTRACE"),
    ({"capabilities": {"drop": ["KILL"]}}, "capabilities that are not dropped"),
    ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile: Unconfined"),
    ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile: Unconfined"),
    ({"procMount": "Unmasked"}, "procMount: Unmasked"),
    ({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions"),
    ({"windowsOptions": {"hostProcess": True}}, "hostProcess"),
]
PODS: list[tuple[dict[str, Any], str]] = [
    ({"hostNetwork": True}, "hostNetwork: true"),
    ({"hostPID": True}, "hostPID"),
    ({"hostIPC": True}, "hostIPC"),
    ({"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "a volume of kind hostPath"),
    ({"volumes": [{"name": "x", "nfs": {"server": "s", "path": "/"}}]}, "a volume of kind nfs"),
    ({"securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": "1"}]}}, "the sysctl kernel.shmmax"),
]
BAD = [
    *((job({"securityContext": context}), told) for context, told in CONTEXTS),
    *((job(pod=spec), told) for spec, told in PODS),
    (job({"ports": [{"containerPort": 1, "hostPort": 1}]}), "hostPort: 1"),
]


@pytest.mark.parametrize(("config", "told"), BAD)
def test_what_the_standard_forbids_is_refused_by_name(config: dict[str, Any], told: str) -> None:
    with pytest.raises(BadTemplate, match=told):
        restricted(config)
