"""The operator as objects to apply: the resource it serves, its account with just its rights, and itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from muster.domain import document
from muster.operator.spec import GROUP, PLURAL

NAME = "muster-operator"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "muster"}
CRD = f"{PLURAL}.{GROUP}"
_RBAC = "rbac.authorization.k8s.io"


def _rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


#: Every request the operator makes has its verb here; in the namespaces it serves.
RULES: Sequence[dict[str, Any]] = (
    _rule(GROUP, PLURAL, "list", "watch"),
    _rule(GROUP, f"{PLURAL}/status", "patch"),
    _rule("", "pods", "get", "list", "watch", "create", "delete"),
    _rule("", "services", "get", "list", "watch", "create"),
    _rule("scheduling.volcano.sh", "podgroups", "get", "list", "watch", "create"),
)
#: And in the whole cluster: to see that nobody else serves the same resource.
CLUSTER_RULES: Sequence[dict[str, Any]] = (
    _rule("apiextensions.k8s.io", "customresourcedefinitions", "get") | {"resourceNames": [CRD]},
)


def crd_text() -> str:
    return resources.files("muster.operator").joinpath("crd.yaml").read_text("utf-8")


def crd() -> dict[str, Any]:
    found = document.parse(crd_text(), name="crd.yaml")
    if not isinstance(found, dict):
        raise TypeError("crd.yaml is no mapping")
    return found


def role(*, home: str, namespaces: Sequence[str]) -> list[dict[str, Any]]:
    """The account in `home`; its rights in these namespaces, or everywhere where none is named."""
    made = [_object("v1", "ServiceAccount", NAME, home)]
    everywhere = list(CLUSTER_RULES) if namespaces else [*RULES, *CLUSTER_RULES]
    # Its name is the whole cluster's, where another operator may have its own.
    made += _bound("ClusterRole", f"{home}:{NAME}", None, everywhere, home)
    for namespace in namespaces:
        made += _bound("Role", NAME, namespace, list(RULES), home)
    return made


def deployment(*, home: str, namespaces: Sequence[str], image: str) -> dict[str, Any]:
    """One pod. An update ends the old one first; two of them would do no harm, and no good."""
    container = {
        "name": "operator",
        "image": image,
        "command": ["muster", "operator", "run", *_words(namespaces)],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"serviceAccountName": NAME, "securityContext": user, "containers": [container]}
    return _object("apps/v1", "Deployment", NAME, home) | {
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": spec},
        }
    }


def _words(namespaces: Sequence[str]) -> Iterator[str]:
    for namespace in namespaces:
        yield from ("--namespace", namespace)


def _bound(
    kind: str, name: str, namespace: str | None, rules: list[dict[str, Any]], home: str
) -> list[dict[str, Any]]:
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": home}
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
    return [
        _object(f"{_RBAC}/v1", kind, name, namespace) | {"rules": rules},
        _object(f"{_RBAC}/v1", f"{kind}Binding", name, namespace)
        | {"roleRef": reference, "subjects": [subject]},
    ]


def _object(version: str, kind: str, name: str, namespace: str | None) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, "labels": dict(LABELS)},
    }
