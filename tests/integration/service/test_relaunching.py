"""Jobs, reruns and previews of what is launched on a cluster's queue, and of what declares its inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters import IMAGE, cluster_queue, job
from muster.domain.errors import BadInput, ImpossibleRequest
from muster.domain.inputs import InputDeclaration
from muster.domain.job import JobName
from muster.domain.policy import Limit, Policy
from muster.domain.relaunch import Change
from muster.domain.run import Priority, Run
from muster.domain.source import GitSource
from muster.service import job as job_service
from muster.service import launch, rerun
from muster.service.job import Place
from muster.service.launch import Preview
from muster.service.rerun import Changes
from muster.store import accounts, jobs, queues
from muster.store.database import Tx
from world import World, order

GIT = GitSource(url="https://host/acme/train.git", commit="a" * 40)
FIRST = "/spec/template/spec/containers/0"
DECLARED = InputDeclaration.parse(
    {
        "schema": {
            "type": "object",
            "properties": {"lr": {"type": "number", "default": 0.1, "maximum": 1}, "seed": {"default": 0}},
        },
        "arguments": ["lr"],
        "files": {"conf/train.yaml": ["lr"]},
    }
)


def launched(world: World, **asked: Any) -> Run:
    """The run, as it is kept."""
    (run,) = world.launch(order(**{"queue": "cluster", "command": (), **asked}))
    return world.run(run.id)


def again(world: World, run: Run, **changes: Any) -> Run:
    made = world.do(
        lambda tx: rerun.rerun(
            tx, world.owner, run.id, Changes(**changes), now=world.now, random=world.random
        )
    )
    return world.run(made.id)


def previewed(world: World, **asked: Any) -> Preview:
    wanted = order(**{"queue": "cluster", "command": (), **asked})
    return world.do(
        lambda tx: launch.preview(tx.conn, world.owner, wanted, now=world.now, random=world.random)
    )


def names(world: World) -> list[str]:
    found = world.do(lambda tx: jobs.page(tx.conn, None, project=None, text=None, after=None, limit=9))
    return [job.name for job in found]


def set_rules(world: World, name: str, **rules: Any) -> None:
    def work(tx: Tx) -> None:
        found = queues.find(tx.conn, "ann", name)
        assert found is not None
        newer = replace(found, version=found.version + 1, policy=Policy.parse(rules))
        queues.add_version(tx.conn, newer, at=world.now, by="ann")

    world.do(work)


# --- images on a cluster ---------------------------------------------------------------------------


def test_an_image_on_a_cluster_files_a_job_that_is_launched_again_with_other_arguments(world: World) -> None:
    cluster_queue(world, job())
    first = launched(world, image=IMAGE, command=("train.py", "--epochs", "3"))
    assert names(world) == ["job-acme_train"]
    second = launched(world, job="job-acme_train:latest", arguments=("--epochs", "5"))
    assert (second.job, second.spec.image) == (first.job, IMAGE)
    assert second.spec.command == ("train.py", "--epochs", "5")
    third = again(world, second, overrides={"spec.parallelism": 2})
    assert (third.job, third.spec.image, third.spec.command) == (first.job, IMAGE, second.spec.command)
    assert third.spec.changed == (Change(what="overrides.spec.parallelism", before=None, after=2),)
    assert again(world, third).spec.overrides == {"spec.parallelism": 2}


def test_an_image_of_the_queue_stays_the_queues_when_a_run_is_launched_again(world: World) -> None:
    cluster_queue(world, job({"image": "${image_uri}"}), default_image="acme/base:1")
    first = launched(world, command=("nvidia-smi",))
    set_rules(world, "cluster", default_image="acme/base:2")
    second = again(world, first)
    assert (second.spec.image, second.job) == ("acme/base:2", None)
    assert names(world) == []


def test_a_run_beside_a_default_image_is_launched_again_where_there_are_no_images(world: World) -> None:
    set_rules(world, "gpu", default_image="acme/base:1")
    first = world.run(world.launch_one())
    assert again(world, first).spec.command == first.spec.command


def test_a_repository_is_refused_on_a_cluster_by_launch_and_preview_alike(world: World) -> None:
    cluster_queue(world, job(), default_image=IMAGE)
    for ask in (launched, previewed):
        with pytest.raises(BadInput, match="repositories are not fetched yet"):
            ask(world, command=("train.py",), git=GIT)


@pytest.mark.parametrize("image", ["-v", "a b", "a\nb", "https://host/acme", "acme/train:", "a" * 600])
def test_what_cannot_be_an_image_is_refused(world: World, image: str) -> None:
    cluster_queue(world, job())
    with pytest.raises(BadInput, match="is not the name of an image"):
        launched(world, image=image)
    assert names(world) == []


# --- where values came from ------------------------------------------------------------------------


def test_a_preview_tells_what_the_job_brought_from_what_the_launch_did(world: World) -> None:
    cluster_queue(world, job())
    launched(world, image=IMAGE, command=("train.py", "--epochs", "3"), inputs={"lr": 0.1})
    recorded = previewed(world, job="job-acme_train").sources
    config = next(key for key in recorded if recorded[key] == "job" and "/env/" in key)
    assert recorded[f"{FIRST}/image"] == "job"
    assert [recorded[f"{FIRST}/command/{place}"] for place in range(4)] == ["injected", *["job"] * 3]
    given = previewed(world, job="job-acme_train", inputs={"lr": 1}, arguments=("--epochs", "5")).sources
    assert given[f"{FIRST}/image"] == "job"
    assert [given[f"{FIRST}/command/{place}"] for place in (1, 2, 3)] == ["job", "launch", "launch"]
    assert given[config] == "launch"


def test_a_preview_knows_arguments_that_were_made_of_recorded_inputs(world: World) -> None:
    launched(world, **of_git(declaration=DECLARED, inputs={"lr": 0.2}))
    for inputs, source in (({}, "job"), ({"lr": 0.3}, "launch")):
        found = previewed(world, queue="gpu", job="job-acme_train", inputs=inputs).sources
        words = [found[f"/replicas/0/command/{place}"] for place in range(5)]
        assert words == ["injected", "job", "job", "job", source]


# --- rules -----------------------------------------------------------------------------------------


def test_a_run_is_launched_again_where_priorities_were_turned_off(world: World) -> None:
    first = world.run(world.launch_one(priority=Priority.HIGH))
    set_rules(world, "gpu", priorities=False)
    assert again(world, first).priority is Priority.MEDIUM
    with pytest.raises(BadInput, match="priorities turned off"):
        again(world, first, priority=Priority.LOW)


def test_more_gpus_than_the_entity_may_ever_have_are_refused(world: World) -> None:
    world.do(lambda tx: accounts.set_limits(tx.conn, "ann", Limit(gpus=2)))
    world.launch_one(values={"gpus": 2})
    with pytest.raises(ImpossibleRequest, match="ann may have 2 GPUs at once in all its"):
        world.launch_one(values={"gpus": 3})


# --- inputs ----------------------------------------------------------------------------------------


def of_git(**asked: Any) -> dict[str, Any]:
    return {"queue": "gpu", "git": GIT, "command": ("train.py", "--epochs", "3"), **asked}


def test_inputs_of_a_run_launched_again_are_delivered_once(world: World) -> None:
    first = launched(world, **of_git(declaration=DECLARED, inputs={"lr": 0.2}))
    assert first.spec.whole_command == ("train.py", "--epochs", "3", "--lr=0.2")
    second = again(world, again(world, first))
    assert (second.spec.whole_command, second.spec.managed_files) == (
        first.spec.whole_command,
        first.spec.managed_files,
    )
    third = again(world, second, config={"lr": 0.3})
    assert third.spec.whole_command == ("train.py", "--epochs", "3", "--lr=0.3")
    assert third.spec.changed == (Change(what="config.lr", before=0.2, after=0.3),)


def test_arguments_from_inputs_stay_where_no_job_remembers_the_declaration(world: World) -> None:
    plain = InputDeclaration.parse({"arguments": ["lr"]})
    first = world.run(world.launch_one(command=("fit", "x"), declaration=plain, inputs={"lr": 1}))
    assert again(world, first).spec.whole_command == first.spec.whole_command == ("fit", "x", "--lr=1")


def test_a_nested_input_that_was_not_there_is_named_by_its_way(world: World) -> None:
    launched(world, **of_git())
    run = launched(world, queue="gpu", job="job-acme_train", inputs={"optim": {"lr": 1}})
    assert run.spec.changed == (Change(what="config.optim.lr", before=None, after=1),)


def test_a_name_that_the_code_gives_itself_is_the_jobs(world: World) -> None:
    first = launched(world, **of_git(job_name="fitter"))
    assert names(world) == ["fitter"]
    name = JobName(name="fitter")
    world.do(lambda tx: job_service.rename(tx, world.owner, name, Place(), to="trainer", now=world.now))
    assert launched(world, **of_git(job_name="fitter")).job == first.job
