"""The role of an agent as objects to apply: exactly the rows of `muster.engine.kubernetes.access`.

One service account, in the first namespace; in each namespace a role that is bound to it; and, for what
belongs to the whole cluster, a cluster role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from muster.engine.kubernetes.access import Right

_GROUP = "rbac.authorization.k8s.io"
LABELS = {"app.kubernetes.io/name": "muster-agent", "app.kubernetes.io/part-of": "muster"}


def manifests(
    rights: Iterable[Right], *, namespaces: Sequence[str], account: str, with_token: bool = False
) -> list[dict[str, Any]]:
    """`with_token`: and a token of the account that does not expire, for an agent outside the cluster."""
    rows = list(rights)
    home = namespaces[0]
    made = [_object("v1", "ServiceAccount", account, home)]
    if with_token:
        secret = _object("v1", "Secret", f"{account}-token", home)
        secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": account}
        made.append({**secret, "type": "kubernetes.io/service-account-token"})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    inside = rules(row for row in rows if not row.everywhere)
    for namespace in namespaces:
        made += _bound("Role", account, namespace, inside, subject)
    outside = rules(row for row in rows if row.everywhere)
    if outside:  # its name is the whole cluster's, where other agents have theirs
        made += _bound("ClusterRole", f"{home}:{account}", None, outside, subject)
    return made


def rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """As a role has them."""
    return [
        {"apiGroups": [right.kind.group], "resources": [right.kind.plural], "verbs": list(right.verbs)}
        for right in rights
    ]


def _bound(
    kind: str, name: str, namespace: str | None, its_rules: list[dict[str, Any]], subject: dict[str, str]
) -> list[dict[str, Any]]:
    version = f"{_GROUP}/v1"
    return [
        _object(version, kind, name, namespace) | {"rules": its_rules},
        _object(version, f"{kind}Binding", name, namespace)
        | {"roleRef": {"apiGroup": _GROUP, "kind": kind, "name": name}, "subjects": [dict(subject)]},
    ]


def _object(version: str, kind: str, name: str, namespace: str | None) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **where, "labels": dict(LABELS)},
    }
