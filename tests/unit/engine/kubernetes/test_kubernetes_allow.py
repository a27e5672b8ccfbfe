"""What a launch sets of pods that Muster writes, where the queue lets it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from clusters import IMAGE, job
from muster.domain.errors import BadInput, BadOverride
from muster.domain.path import at
from muster.domain.policy import Allowed
from muster.domain.volume import Volume
from muster.engine.kubernetes.allow import Request, accepted, apply

ALL = frozenset(Allowed)
MAIN = ("template", "spec", "containers", 0)


def template(main: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {"kind": "Job", "template": {"spec": {"containers": [main or {}, {"image": "side"}], **pod}}}


def made(config: dict[str, Any], **asked: Any) -> Any:
    before = copy.deepcopy(config)
    done, places = apply(config, Request(**asked), allow=ALL, queue="q")
    assert config == before
    for place in places:
        assert at(done, place) is not None
    return done


@pytest.mark.parametrize(
    ("have", "asked", "want"),
    [
        ({}, {"cpus": "1500m"}, {"limits": {"cpu": "1.5"}}),
        ({}, {"cpus_request": "1500m"}, {"requests": {"cpu": "1.5"}}),
        (
            {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
            {"cpus": 4, "cpus_request": 2, "memory": "8Gi", "memory_request": "2Gi"},
            {"limits": {"memory": "8Gi", "cpu": "4"}, "requests": {"cpu": "2", "memory": "2Gi"}},
        ),
        ({"requests": {"cpu": 1}}, {"cpus": 2}, {"requests": {"cpu": "2"}}),
        (
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi", "cpu": 1}},
            {"memory": " 4Gi"},
            {"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi", "cpu": 1}},
        ),
        ({}, {"gpus": "2"}, {"limits": {"nvidia.com/gpu": 2}}),
        ({"limits": {"amd.com/gpu": 1}}, {"gpus": 0}, {"limits": {"amd.com/gpu": 0}}),
    ],
)
def test_resources_go_where_the_template_has_them_else_they_become_limits(
    have: dict[str, Any], asked: dict[str, Any], want: dict[str, Any]
) -> None:
    config = made(template({"resources": have} if have else {}), resources=accepted(asked))
    assert at(config, MAIN)["resources"] == want


def test_a_request_above_its_limit_is_refused() -> None:
    with pytest.raises(BadInput, match=r"above its limit: 8 CPUs \(4 at most\)") as refused:
        accepted({"cpus": 4, "cpus_request": 8, "memory_request": "1Gi"})
    assert "Lower it" in refused.value.hint


def test_volumes_are_added_to_those_of_the_template_and_one_claim_is_one_volume() -> None:
    own = {"volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    volumes = tuple(map(Volume.parse, ("data:/data:ro", "data:/more", "cache:/cache")))
    config = made(template(own, volumes=[{"name": "own", "emptyDir": {}}]), volumes=volumes)
    assert config["template"]["spec"]["volumes"] == [
        {"name": "own", "emptyDir": {}},
        {"name": "muster-claim-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "muster-claim-1", "persistentVolumeClaim": {"claimName": "cache"}},
    ]
    assert at(config, MAIN)["volumeMounts"] == [
        {"name": "own", "mountPath": "/own"},
        {"name": "muster-claim-0", "mountPath": "/data", "readOnly": True},
        {"name": "muster-claim-0", "mountPath": "/more"},
        {"name": "muster-claim-1", "mountPath": "/cache"},
    ]
    with pytest.raises(BadInput, match="mounted at /own already"):
        made(template(own), volumes=(Volume.parse("data:/own"),))
    with pytest.raises(BadInput, match="mounted at /a already"):
        made(template(), volumes=(Volume.parse("data:/a"), Volume.parse("more:/a")))


@pytest.mark.parametrize(
    ("own", "allow", "want"),
    [
        ("mine:1", ALL, IMAGE),
        ("mine:1", frozenset(), "mine:1"),
        ("${image_uri}", ALL, "${image_uri}"),
        (None, ALL, None),
    ],
)
def test_an_image_of_the_template_is_replaced_only_where_that_is_allowed(
    own: str | None, allow: frozenset[Allowed], want: str | None
) -> None:
    config, _ = apply(template({"image": own}), Request(image=IMAGE), allow=allow, queue="q")
    assert at(config, MAIN)["image"] == want


def test_nothing_that_is_set_is_read_as_a_template() -> None:
    config = made({"kubernetes": template()}, workdir="/a/${run_id}")
    assert at(config["kubernetes"], MAIN)["workingDir"] == "/a/$${run_id}"


@pytest.mark.parametrize("path", ["", "/a/../b", "..", "a\nb", "/" + "a" * 1024])
def test_what_cannot_be_a_working_directory_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="cannot be a working directory"):
        made(template(), workdir=path)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"resources": {"gpus": 1}}, 'Queue "q" does not let a launch set resources'),
        ({"workdir": "/a"}, "set a working directory"),
        ({"volumes": (Volume.parse("a:/a"),)}, "set volumes"),
    ],
)
def test_each_needs_the_owners_word(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(BadOverride, match=told):
        apply(template(), Request(**asked), allow={Allowed.IMAGE}, queue="q")
    for config in (template(), job()):
        with pytest.raises(BadOverride, match=told):
            apply(config, Request(**asked), allow=(), queue="q")
