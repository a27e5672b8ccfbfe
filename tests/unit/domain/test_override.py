"""Overrides: what a path means, what is open, and what never is by accident."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.domain.errors import BadOverride
from muster.domain.override import COUNTS, GUARDED, apply
from muster.domain.path import Every, Where, parse, split
from muster.domain.policy import Policy
from muster.domain.template import fill

TEXT = st.text(max_size=20) | st.sampled_from(["{{gpus}}", "${run_id}", "$${x}", "$$${x}", "a${x}b{{y}}"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def volcano() -> dict[str, Any]:
    return {
        "kind": "Job",
        "spec": {
            "minAvailable": 1,
            "tasks": [
                {"name": "master", "replicas": 1, "template": {"spec": {"containers": [{"name": "m"}]}}},
                {
                    "name": "worker",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "w",
                                    "resources": {"limits": {"cpu": 1}},
                                    "securityContext": {"runAsNonRoot": True},
                                },
                                {"name": "sidecar"},
                            ]
                        }
                    },
                },
            ],
        },
    }


WORKER = "spec.tasks[name=worker].template.spec"


def changed(overrides: Mapping[str, Any], overridable: Sequence[str] | None = None) -> Any:
    tree = volcano()
    before = copy.deepcopy(tree)
    result, _ = apply(tree, overrides, overridable=overridable, queue="gpu")
    assert tree == before
    return result


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("spec.parallelism", ("spec", "parallelism")),
        (
            "spec.tasks[name=worker].replicas",
            ("spec", "tasks", Where(key="name", value="worker"), "replicas"),
        ),
        ("containers[0].resources", ("containers", 0, "resources")),
        ('limits["nvidia.com/gpu"]', ("limits", "nvidia.com/gpu")),
        ("limits['nvidia.com/gpu'].x", ("limits", "nvidia.com/gpu", "x")),
        ("spec.tasks[*].replicas", ("spec", "tasks", Every.ITEM, "replicas")),
        ("spec.pytorchReplicaSpecs.*.replicas", ("spec", "pytorchReplicaSpecs", Every.KEY, "replicas")),
        ("a[0][1]", ("a", 0, 1)),
    ],
)
def test_a_path_is_read(text: str, steps: tuple[object, ...]) -> None:
    assert parse(text) == steps


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x", "a b", "a=b", "a[-1]", "a]", 'a["]', "a[0]b", "[=x]"],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(BadOverride, match="is not a path"):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_is_refused(text: str) -> None:
    with suppress(BadOverride):
        assert parse(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.b=1", ("a.b", "1")),
        ("spec.tasks[name=worker].replicas=3", ("spec.tasks[name=worker].replicas", "3")),
        ("a=b=c", ("a", "b=c")),
        ("a=[x]", ("a", "[x]")),
        ("a[name=b]", None),
        ("a", None),
    ],
)
def test_a_path_ends_at_the_first_equals_sign_outside_of_brackets(text: str, parts: object) -> None:
    assert split(text) == parts


def test_a_count_can_be_changed_where_the_owner_says_nothing() -> None:
    tree = changed({"spec.tasks[name=worker].replicas": 3, "spec.minAvailable": 4})
    assert [task["replicas"] for task in tree["spec"]["tasks"]] == [1, 3]
    assert tree["spec"]["minAvailable"] == 4


def test_what_is_not_there_yet_can_be_added_below_an_open_path() -> None:
    tree = changed(
        {f'{WORKER}.containers[1].resources.limits["nvidia.com/gpu"]': 2},
        [f"{WORKER}.containers[name=sidecar].resources"],
    )
    containers = tree["spec"]["tasks"][1]["template"]["spec"]["containers"]
    assert containers[1] == {"name": "sidecar", "resources": {"limits": {"nvidia.com/gpu": 2}}}


def test_paths_start_at_the_root_they_are_given() -> None:
    tree, places = apply(
        {"kubernetes": volcano()}, {"spec.minAvailable": 2}, overridable=None, queue="q", root=("kubernetes",)
    )
    assert tree["kubernetes"]["spec"]["minAvailable"] == 2
    assert places == (("kubernetes", "spec", "minAvailable"),)


@pytest.mark.parametrize(
    ("overrides", "overridable", "told"),
    [
        ({"spec.schedulerName": "x"}, None, "does not let a launch change spec.schedulerName"),
        ({"spec.tasks[name=worker].replicas": 3}, [], "It opens nothing"),
        ({"spec.minAvailable": 3}, ["spec.tasks[*].replicas"], r"It opens spec.tasks\[\*\].replicas"),
        ({"spec.tasks[name=master].replicas": 3}, ["spec.tasks[name=worker].replicas"], "does not let"),
        ({"spec.tasks": []}, ["spec.tasks[*].replicas"], "does not let a launch change spec.tasks"),
        ({"spec": {}}, None, "does not let"),
        ({"kind": "CronJob"}, None, "does not let"),
        ({"spec.tasks[name=workers].replicas": 3}, None, "no item with name=workers.* mean name=worker?"),
        ({"spec.tasks[2].replicas": 3}, None, "has 2 items, counted from 0"),
        ({"spec.tasks.replicas": 3}, None, "spec.tasks is a list"),
        ({"spec.minAvailable.x": 3}, None, "is a number"),
        ({"spec.minAvailable[0]": 3}, None, "not a list"),
        ({"spec.jobs[0].replicas": 3}, None, "spec.jobs is not there"),
        ({"spec.tasks[*].replicas": 3}, None, "one value at a time"),
        ({"spec.minAvailable": "three"}, None, "is not a count"),
        ({"spec.minAvailable": -1}, None, "is not a count"),
        ({"spec.minAvailable": True}, None, "is not a count"),
        ({"spec.minAvailable": 2**31}, None, "is not a count"),
        ({"spec.tasks[1].replicas": 1, "spec.tasks[name=worker].replicas": 2}, None, "the same thing"),
        ({"spec.a": {}, "spec.a.b": 2}, ["spec.a"], "the same thing"),
        ({"spec.a[": 1}, None, "is not a path"),
    ],
)
def test_what_is_not_open_or_not_there_is_refused(
    overrides: dict[str, Any], overridable: list[str] | None, told: str
) -> None:
    with pytest.raises(BadOverride, match=told):
        changed(overrides, overridable)


def test_a_refusal_names_the_path_what_is_open_and_what_to_do() -> None:
    with pytest.raises(BadOverride) as refused:
        changed({"spec.schedulerName": "x"})
    assert refused.value.facts == {"path": "spec.schedulerName", "queue": "gpu"}
    assert refused.value.hint == (
        "It opens spec.minAvailable, spec.tasks[*].replicas. "
        "Use --set for its variables, or ask its owner to add the path to `overridable`."
    )


@pytest.mark.parametrize("field", sorted(GUARDED))
def test_opening_a_parent_opens_nothing_that_is_guarded(field: str) -> None:
    attempts: list[dict[str, Any]] = [
        {f"{WORKER}.{field}": True},
        {f"{WORKER}.{field}.deeper": True},
        {WORKER: {"containers": [], field: {}}},
        {f"{WORKER}.volumes": [{"name": "x", field: {"path": "/"}}]},
    ]
    for overrides in attempts:
        for opened in (["spec"], ["spec.tasks[*].template"], [f"{WORKER}.*"], [WORKER]):
            with pytest.raises(BadOverride):
                changed(overrides, opened)


def test_what_is_guarded_is_open_where_the_owner_names_it() -> None:
    place = f"{WORKER}.containers[0].securityContext"
    for opened in (place, f"{place}.runAsUser", f"{WORKER}.containers[*].securityContext"):
        tree = changed({f"{place}.runAsUser": 7}, [opened])
        context = tree["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["securityContext"]
        assert context == {"runAsNonRoot": True, "runAsUser": 7}
    with pytest.raises(BadOverride, match=r"would change .*securityContext"):
        changed({f"{place}.privileged": True}, ["spec", f"{place}.runAsUser"])


def test_a_guarded_field_cannot_be_taken_away_with_its_parent() -> None:
    container = f"{WORKER}.containers[name=w]"
    kept = {"name": "w", "securityContext": {"runAsNonRoot": True}, "image": "other"}
    changed({container: kept}, [container])
    for value in ({"name": "w"}, {**kept, "securityContext": {"runAsNonRoot": False}}, None):
        with pytest.raises(BadOverride, match=r"would change .*securityContext"):
            changed({container: value}, [container])


def test_items_cannot_be_moved_to_where_a_guarded_field_is_open() -> None:
    opened = [f"{WORKER}.containers", f"{WORKER}.containers[name=sidecar].securityContext"]
    w = {"name": "w", "securityContext": {"runAsNonRoot": True}}
    changed({f"{WORKER}.containers": [w, {"name": "sidecar", "securityContext": {}}]}, opened)
    for items in (
        [w, {"name": "evil", "securityContext": {}}],
        [w, {"name": "sidecar"}, {"name": "sidecar", "securityContext": {}}],
        [{"name": "sidecar", "securityContext": {"privileged": True}}, w],
    ):
        with pytest.raises(BadOverride):
            changed({f"{WORKER}.containers": items}, opened)


@given(VALUES)
def test_a_value_arrives_as_it_is_and_is_never_read_as_a_template(value: Any) -> None:
    tree = changed({"spec.note": value}, ["spec.note"])
    filled = fill(tree, {"run_id": "EVALUATED", "x": "EVALUATED"})
    assert filled["spec"]["note"] == value


def test_a_queue_cannot_open_what_is_no_path() -> None:
    with pytest.raises(BadOverride, match=r"'spec\.\.x' is not a path"):
        Policy.parse({"overridable": ["spec.parallelism", "spec..x"]})


@pytest.mark.parametrize("pattern", COUNTS)
def test_what_is_open_by_default_is_a_path(pattern: str) -> None:
    assert parse(pattern)[-1] in {"replicas", "parallelism", "completions", "minAvailable", "numNodes"}
