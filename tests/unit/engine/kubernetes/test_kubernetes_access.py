"""The rights of an agent, and the role that is written from them."""

from __future__ import annotations

import pytest

from muster.domain.errors import BadConfigFile
from muster.engine.kubernetes.access import JOBS, KNOWN, Extra, KindName, kind_named, rights
from muster.engine.kubernetes.kinds import KINDS
from muster.engine.kubernetes.role import manifests, rules

PYTORCH = KindName(plural="pytorchjobs", group="kubeflow.org")


@pytest.mark.parametrize("text", ["PyTorchJob", "PyTorchJob.kubeflow.org", "pytorchjobs.kubeflow.org"])
def test_a_kind_is_named_as_people_name_it(text: str) -> None:
    assert kind_named(text) == PYTORCH


@pytest.mark.parametrize("text", ["Widget", "Widget.acme.example", "PyTorchJob.acme.example", "", ".x"])
def test_a_plural_is_not_guessed(text: str) -> None:
    with pytest.raises(BadConfigFile, match="plural of kind"):
        kind_named(text)


def test_a_kind_that_muster_does_not_know_is_given_by_its_plural() -> None:
    assert kind_named("widgets.acme.example") == KindName(plural="widgets", group="acme.example")
    assert kind_named("Job.batch.volcano.sh") == KindName(plural="jobs", group="batch.volcano.sh")


def test_the_kinds_that_muster_knows_are_known_by_name() -> None:
    assert set(KINDS) <= {(known.group, name.partition(".")[0]) for name, known in KNOWN.items()}


def test_secrets_are_never_read() -> None:
    [row] = [right for right in rights(extras=list(Extra)) if right.kind.plural == "secrets"]
    assert set(row.verbs) == {"create", "delete"}


def test_nothing_is_asked_for_the_whole_cluster_but_by_choice() -> None:
    assert not [right for right in rights() if right.everywhere or right.extra]
    made = manifests(rights(), namespaces=["ml"], account="muster-agent")
    assert [item["kind"] for item in made] == ["ServiceAccount", "Role", "RoleBinding"]
    assert {item["metadata"]["namespace"] for item in made} == {"ml"}


def test_a_role_has_no_star() -> None:
    for rule in rules(rights(workloads=(JOBS, PYTORCH), extras=list(Extra))):
        assert "*" not in "".join([*rule["apiGroups"], *rule["resources"], *rule["verbs"]])


def test_a_kind_that_is_named_twice_has_one_row() -> None:
    pods = KindName(plural="pods")
    rows = list(rights(workloads=(JOBS, JOBS, pods)))
    assert len({right.kind for right in rows}) == len(rows)
    [row] = [right for right in rows if right.kind == pods]
    assert set(row.verbs) == {"create", "get", "list", "watch", "patch", "delete"}


def test_one_account_is_bound_in_each_namespace() -> None:
    made = manifests(rights(extras=[Extra.NODES]), namespaces=["ml", "lab"], account="agent", with_token=True)
    assert [(item["kind"], item["metadata"].get("namespace")) for item in made] == [
        ("ServiceAccount", "ml"),
        ("Secret", "ml"),
        ("Role", "ml"),
        ("RoleBinding", "ml"),
        ("Role", "lab"),
        ("RoleBinding", "lab"),
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
    ]
    bindings = [item for item in made if item["kind"].endswith("Binding")]
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": "ml"}
    assert all(item["subjects"] == [subject] for item in bindings)
    assert bindings[-1]["metadata"]["name"] == "ml:agent"
