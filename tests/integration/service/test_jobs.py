"""Jobs: what launches file, what is launched again, who sees it."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from muster.domain.access import Role
from muster.domain.errors import AlreadyExists, BadInput, MusterError, NotAllowed, NotFound
from muster.domain.job import Defaults, Job, JobContent, JobName, JobVersion, Source
from muster.domain.relaunch import Change
from muster.domain.run import Priority, Run
from muster.domain.source import GitSource, JobRef
from muster.domain.training import Training
from muster.service import job as service
from muster.service import launch as launching
from muster.service import rerun as rerunning
from muster.service.job import Place
from muster.service.launch import Order
from muster.service.rerun import Changes
from muster.store import jobs
from muster.store.database import Database
from muster.store.runlist import Filter, page
from world import DAWN, VARIABLES, World, order

GIT = GitSource(url="https://host/acme/train.git", ref="main", commit="a" * 40)
HERE = Place()
TRAIN = JobName(name="job-acme_train")


def of_git(*command: str, **asked: Any) -> Order:
    return order(git=GIT, command=command or ("train.py", "--epochs", "3"), **asked)


def job(world: World, name: str = "job-acme_train", place: Place = HERE) -> Job:
    return world.do(lambda tx: service.find(tx.conn, world.owner, JobName.parse(name), place))


def versions(world: World, found: Job) -> list[JobVersion]:
    return world.do(lambda tx: jobs.versions(tx.conn, found.id, before=None, limit=100))


def runs_of(world: World, found: Job, version: int | None = None) -> list[str]:
    narrow = Filter(entities=("ann",), job_id=found.id, job_version=version)
    return [run.id for _, run in world.do(lambda tx: page(tx.conn, narrow, limit=100))]


def rerun(world: World, run_id: str, **changes: Any) -> Run:
    return world.do(
        lambda tx: rerunning.rerun(
            tx, world.owner, run_id, Changes(**changes), now=world.now, random=world.random
        )
    )


# --- filing ----------------------------------------------------------------------------------------


def test_a_launch_of_a_source_files_a_version(world: World) -> None:
    (run,) = world.launch(of_git(inputs={"lr": 0.1}, values={"gpus": 2}, training=Training(nodes=2)))
    filed = job(world)
    assert run.job == world.run(run.id).job == JobRef(id=filed.id, version=0)
    (version,) = versions(world, filed)
    assert version.content == JobContent(
        source=Source(git=GIT), entrypoint=("train.py",), training=Training(nodes=2)
    )
    assert version.defaults == Defaults(arguments=("--epochs", "3"), config={"lr": 0.1})


def test_a_bare_command_files_none(world: World) -> None:
    assert world.run(world.launch_one()).job is None
    assert world.do(lambda tx: jobs.page(tx.conn, None, project=None, text=None, after=None, limit=9)) == []


def test_the_same_content_is_the_same_version_and_other_content_the_next(world: World) -> None:
    first, again, other = (
        world.launch(asked)[0].job for asked in (of_git(), of_git("train.py", "--lr", "1"), of_git("eval.py"))
    )
    assert first is not None
    assert again == first
    assert other == replace(first, version=1)
    found = job(world)
    assert (found.newest, found.resolve("latest")) == (1, 1)
    assert versions(world, found)[1].defaults.arguments == ("--epochs", "3")  # of the one that filed it
    assert len(runs_of(world, found)) == 3
    assert len(runs_of(world, found, version=0)) == 2


def test_projects_have_jobs_of_their_own(world: World) -> None:
    world.launch(of_git(), of_git("eval.py", project="vision"))
    assert job(world).newest == job(world, "vision/job-acme_train").newest == 0
    assert job(world).id != job(world, "vision/job-acme_train").id


def test_a_refused_launch_files_nothing(world: World) -> None:
    with pytest.raises(MusterError):
        world.launch(of_git(), of_git("eval.py", values={"gpus": -1}))
    with pytest.raises(NotFound):
        job(world)


def test_a_batch_of_one_source_is_looked_up_once(world: World) -> None:
    orders = [of_git("train.py", "--seed", str(seed)) for seed in range(2000)]
    began = time.perf_counter()
    made = world.launch(*orders)
    took = time.perf_counter() - began
    assert {run.job for run in made} == {made[0].job}
    assert len(runs_of(world, job(world))) == 100
    assert took < 10  # a look for each would take longer; how fast exactly is measured in bench/


def test_two_servers_that_file_the_same_at_once_file_it_once(world: World) -> None:
    """Each has its own connection; on SQLite there is but one writer."""
    others = [Database(world.db.url.render_as_string(hide_password=False)) for _ in range(4)]
    failed: list[BaseException] = []

    def launch(db: Database, number: int) -> None:
        dice = random.Random(number).randbytes  # noqa: S311 - it has to repeat
        try:
            for command in ("a.py", "b.py", "c.py"):
                orders = [of_git(command)]
                db.write_now(
                    partial(launching.launch, actor=world.owner, orders=orders, now=DAWN, random=dice)
                )
        except BaseException as error:  # noqa: BLE001 - the test's own thread tells it
            failed.append(error)

    if not world.db.shared:
        others = others[:1]
    threads = [threading.Thread(target=launch, args=(db, number)) for number, db in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for db in others:
        db.close()
    assert failed == []
    found = job(world)
    assert sorted(version.version for version in versions(world, found)) == [0, 1, 2]
    assert len(runs_of(world, found)) == 3 * len(others)


# --- relaunch --------------------------------------------------------------------------------------


def test_a_job_is_launched_as_recorded(world: World) -> None:
    first = world.launch(of_git(inputs={"lr": 0.1}, training=Training(nodes=2)))[0]
    run = world.launch(order(command=(), job="job-acme_train:latest"))[0]
    assert (run.job, run.spec.changed) == (first.job, ())
    for name in ("command", "inputs", "training", "git"):
        assert getattr(run.spec, name) == getattr(first.spec, name), name


def test_what_is_given_replaces_what_is_recorded_and_is_kept_as_changed(world: World) -> None:
    world.launch(of_git(inputs={"lr": 0.1, "optim": {"name": "sgd"}}, training=Training(nodes=2)))
    run_id = world.launch_one(
        command=(),
        job="job-acme_train:v0",
        arguments=("--epochs", "5"),
        inputs={"lr": 0.01},
        training=Training(procs_per_node=2),
        training_given=frozenset({"procs_per_node"}),
    )
    run = world.run(run_id)
    assert run.spec.command == ("train.py", "--epochs", "5")
    assert run.spec.inputs == {"lr": 0.01, "optim": {"name": "sgd"}}
    assert run.spec.training == Training(nodes=2, procs_per_node=2)
    assert run.spec.changed == (
        Change(what="arguments", before=["--epochs", "3"], after=["--epochs", "5"]),
        Change(what="config.lr", before=0.1, after=0.01),
        Change(what="training.procs_per_node", before=1, after=2),
    )
    assert job(world).newest == 0  # a relaunch files nothing


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"job": "job-acme_tain"}, "no job 'job-acme_tain'. Did you mean 'job-acme_train'"),
        ({"job": "job-acme_train:v7"}, "It has v0 … v0, and the aliases latest"),
        ({"job": "job-acme_train", "project": "vision"}, "default/job-acme_train"),
        ({"job": "job-acme_train", "command": ("x",)}, "A job has its own command"),
        ({"job": "job-acme_train", "git": GIT}, "A job has its own source"),
        ({"arguments": ("x",), "command": ("y",)}, "there is none here"),
    ],
)
def test_a_launch_of_a_job_that_cannot_be_is_refused(world: World, asked: dict[str, Any], told: str) -> None:
    world.launch(of_git())
    with pytest.raises(MusterError) as refused:
        world.launch(order(**{"command": (), **asked}))
    assert told in str(refused.value)


def test_a_run_is_launched_again_as_it_was(world: World) -> None:
    first = world.launch(
        of_git(
            inputs={"lr": 0.1},
            values={"gpus": 2},
            env={"A": "1"},
            priority=Priority.HIGH,
            project="vision",
            name="first",
        )
    )[0]
    again = rerun(world, first.id)
    assert again.name != first.name
    assert (again.queue, again.project, again.priority, again.job) == (
        "gpu",
        "vision",
        Priority.HIGH,
        first.job,
    )
    assert again.spec == replace(first.spec, rerun_of=first.id)


def test_a_rerun_says_what_is_not_as_it_was(world: World) -> None:
    first = world.launch(order(command=("sh", "-c", "x"), inputs={"lr": 0.1}, values={"gpus": 2}))[0]
    again = rerun(
        world,
        first.id,
        config={"lr": 0.2},
        values={"gpus": "2", "cpus": "3"},
        env={"B": "1"},
        arguments=("-c", "y"),
        name="again",
    )
    assert (again.name, again.job, again.spec.command) == ("again", None, ("sh", "-c", "y"))
    assert [change.what for change in world.run(again.id).spec.changed] == [
        "arguments",
        "config.lr",
        "values.cpus",
        "env.B",
    ]


def test_values_another_queue_does_not_know_stay_behind(world: World) -> None:
    small = {"gpus": VARIABLES["gpus"]}
    world.queue("other", config={"resources": {"gpus": "{{gpus}}"}}, variables=small)
    first = world.launch_one(values={"gpus": 2, "cpus": 3})
    again = rerun(world, first, queue="other")
    assert (again.queue, again.spec.values) == ("other", {"gpus": 2})
    assert again.spec.changed[0] == Change(what="queue", before="gpu", after="other")


def test_a_run_of_others_cannot_be_launched_again(world: World) -> None:
    run_id = world.launch_one()
    eve, viv = world.user("eve"), world.user("viv", ann=Role.VIEWER)
    for actor, error in ((eve, NotFound), (viv, NotAllowed)):
        with pytest.raises(error):
            world.do(
                lambda tx, actor=actor: rerunning.rerun(  # type: ignore[misc]
                    tx, actor, run_id, Changes(), now=world.now, random=world.random
                )
            )


# --- keeping ---------------------------------------------------------------------------------------


def create(world: World, **given: Any) -> tuple[Job, JobVersion]:
    content = JobContent(source=Source(image="acme/train:main"), entrypoint=("train.py",))
    asked = {"name": None, "folder": None, "content": content, "defaults": Defaults(), **given}
    return world.do(
        lambda tx: service.create(tx, world.owner, HERE, now=world.now, random=world.random, **asked)
    )


def test_a_job_is_made_without_launching_it(world: World) -> None:
    made, version = create(world)
    assert (made.name, version.version) == ("job-acme_train", 0)
    assert create(world)[1] == version
    assert create(world, name="mine")[0].name == "mine"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (JobContent(source=Source(), entrypoint=("x",)), "needs a source"),
        (JobContent(source=Source(git=GIT), entrypoint=()), "needs a command"),
        (JobContent(source=Source(snapshot="s"), entrypoint=("x",)), "Upload the code first"),
    ],
)
def test_a_job_without_what_it_needs_is_refused(world: World, content: JobContent, told: str) -> None:
    with pytest.raises(MusterError, match=told):
        create(world, content=content)


def test_an_alias_stays_where_it_is_set(world: World) -> None:
    world.launch(of_git())
    world.do(
        lambda tx: service.set_alias(
            tx,
            world.owner,
            JobName(name="job-acme_train"),
            HERE,
            alias="best",
            version="latest",
            now=world.now,
        )
    )
    world.launch(of_git("eval.py"))
    assert (job(world).resolve("best"), job(world).resolve("latest")) == (0, 1)
    run = world.launch(order(command=(), job="job-acme_train:best"))[0]
    assert run.spec.command[0] == "train.py"
    world.do(lambda tx: service.remove_alias(tx, world.owner, TRAIN, HERE, alias="best", now=world.now))
    assert job(world).aliases == {}


def test_launches_find_their_job_under_its_new_name(world: World) -> None:
    world.launch(of_git())
    world.do(lambda tx: service.rename(tx, world.owner, TRAIN, HERE, to="trainer", now=world.now))
    world.launch(of_git("eval.py"))
    assert job(world, "trainer").newest == 1
    create(world, name="taken")
    with pytest.raises(AlreadyExists):
        world.do(
            lambda tx: service.rename(
                tx, world.owner, JobName(name="trainer"), HERE, to="taken", now=world.now
            )
        )


def test_a_deleted_job_is_gone_but_its_runs_still_lead_to_it(world: World) -> None:
    (run,) = world.launch(of_git())
    assert run.job is not None
    old = job(world)
    world.do(lambda tx: service.delete(tx, world.owner, TRAIN, HERE, now=world.now))
    with pytest.raises(NotFound):
        job(world)
    assert world.run(run.id).job == run.job
    assert world.do(lambda tx: jobs.names(tx.conn, [old.id])) == {old.id: "job-acme_train"}
    assert rerun(world, run.id).job == run.job
    world.launch(of_git())
    assert job(world).id != old.id  # the name is free again


def test_others_neither_see_nor_change_a_job(world: World) -> None:
    world.launch(of_git())
    eve, viv = world.user("eve"), world.user("viv", ann=Role.VIEWER)
    name, place = JobName(name="job-acme_train"), Place(entity="ann")
    with pytest.raises(NotAllowed):
        world.do(lambda tx: service.find(tx.conn, eve, name, place))
    assert world.do(lambda tx: service.find(tx.conn, viv, name, place)).newest == 0
    with pytest.raises(NotAllowed):
        world.do(lambda tx: service.delete(tx, viv, name, place, now=world.now))
    assert service.visible(eve, None) == ("eve",)


def test_a_list_of_jobs_goes_on_where_the_page_ended(world: World) -> None:
    for name in ("b", "a", "c"):
        create(world, name=name)
    first = world.do(lambda tx: jobs.page(tx.conn, ["ann"], project=None, text=None, after=None, limit=2))
    last = first[-1]
    rest = world.do(
        lambda tx: jobs.page(
            tx.conn, ["ann"], project=None, text=None, after=(last.entity, last.project, last.name), limit=2
        )
    )
    assert [job.name for job in (*first, *rest)] == ["a", "b", "c"]


def test_both_snapshot_and_repository_are_refused(world: World) -> None:
    with pytest.raises(BadInput, match="two sources of code"):
        world.launch(replace(of_git("x"), snapshot="s"))
