"""What a launch may make of its queue's template, on each database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters import IMAGE, cluster_queue, job
from muster.domain.errors import BadInput, BadOverride, BadTemplate
from muster.domain.policy import Policy
from muster.domain.queue import Queue
from muster.service import queue
from muster.service.render import render, work_of
from muster.store import queues
from muster.store.database import Tx
from world import World, order


def launched(world: World, **asked: Any) -> Any:
    """The run, as it is kept."""
    (run,) = world.launch(order(**{"queue": "cluster", "command": (), **asked}))
    return world.run(run.id)


def test_what_an_owner_opens_can_be_changed_and_is_kept(world: World) -> None:
    cluster_queue(world, job(), overridable=["spec.template.spec.containers[0].resources"])
    path = "spec.template.spec.containers[0].resources.limits.memory"
    run = launched(world, image=IMAGE, overrides={path: "2Gi"})
    assert run.spec.overrides == {path: "2Gi"}
    assert run.spec.resources.memory == 2 * 2**30
    assert (run.queue_version, run.spec.image) == (2, IMAGE)
    with pytest.raises(BadOverride):  # what is open by default is not, once the owner says what is
        launched(world, image=IMAGE, overrides={"spec.parallelism": 2})


def test_an_override_is_never_read_as_a_template(world: World) -> None:
    cluster_queue(world, job(), overridable=["spec.template.metadata"])
    path = "spec.template.metadata.annotations"
    text = "${run_id} {{gpus}} $${x}"
    run = launched(world, image=IMAGE, overrides={path: {"note": text}})
    made: Any = render("kubernetes", work_of(run)).manifest
    assert made["spec"]["template"]["metadata"]["annotations"]["note"] == text


def test_the_image_is_the_launchs_else_the_queues(world: World) -> None:
    cluster_queue(world, job({"image": "${image_uri}"}), default_image="acme/base:1")
    assert launched(world).spec.image == "acme/base:1"
    assert launched(world, image=IMAGE).spec.image == IMAGE


def test_no_image_where_the_template_uses_one_is_refused(world: World) -> None:
    cluster_queue(world, job({"image": "${image_uri}"}))
    with pytest.raises(BadInput, match="names none"):
        launched(world)


def test_an_image_needs_no_command_and_may_have_one(world: World) -> None:
    cluster_queue(world, job())
    assert launched(world, image=IMAGE).spec.command == ()
    assert launched(world, image=IMAGE, command=("nvidia-smi",)).spec.command == ("nvidia-smi",)


def test_a_restricted_queue_makes_restricted_runs_and_says_so_to_agents(world: World) -> None:
    cluster_queue(world, job(), security="restricted")
    assert launched(world, image=IMAGE).spec.security == "restricted"


def test_a_restricted_queue_refuses_what_its_standard_forbids(world: World) -> None:
    cluster_queue(world, job(pod={"hostNetwork": True}), security="restricted")
    with pytest.raises(BadTemplate, match="hostNetwork"):
        launched(world, image=IMAGE)


def test_a_restricted_queue_cannot_be_edited_into_what_its_standard_forbids(world: World) -> None:
    cluster_queue(world, job(), security="restricted")

    def edit(config: dict[str, Any]) -> Queue:
        return world.do(
            lambda tx: queue.edit(
                tx, world.owner, "cluster", entity=None, config=config, variables=None, now=world.now
            )
        )

    with pytest.raises(BadTemplate, match="hostPID"):
        edit(job(pod={"hostPID": True}))
    assert edit(job(parallelism=2)).version == 3


def test_a_process_queue_opens_nothing_until_its_owner_says_so(world: World) -> None:
    with pytest.raises(BadOverride, match="does not let"):
        world.launch_one(overrides={"stop_grace": 5})

    def open_it(tx: Tx) -> None:
        found = queues.find(tx.conn, "ann", "gpu")
        assert found is not None
        newer = replace(found, version=2, policy=Policy(overridable=("stop_grace",)))
        queues.add_version(tx.conn, newer, at=world.now, by="ann")

    world.do(open_it)
    assert world.run(world.launch_one(overrides={"stop_grace": 5})).spec.config["stop_grace"] == 5
