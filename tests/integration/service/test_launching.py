"""Launching: what is refused, with which words, and that nothing half-made stays behind."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from sqlalchemy import func, select

from muster.domain.access import Role
from muster.domain.errors import (
    BadCommand,
    BadInput,
    BadName,
    BadTraining,
    BadVariable,
    ImpossibleRequest,
    MusterError,
    NotAllowed,
    NotFound,
)
from muster.domain.observation import ReplicaState
from muster.domain.resources import Resources
from muster.domain.run import Priority, RunState
from muster.domain.snapshot import Snapshot, SnapshotFile
from muster.domain.training import Training
from muster.service import code, launch, queue
from muster.store import records
from muster.store.database import Tx
from muster.store.schema import attempts, events, projects, runs
from world import MACHINE, World, member, order

SCRIPT = b"print('hello')\n"
CODE = Snapshot(
    files=(
        SnapshotFile(
            path="train.py", mode=0o644, size=len(SCRIPT), sha256=hashlib.sha256(SCRIPT).hexdigest()
        ),
    )
)


def counts(world: World) -> dict[str, int]:
    """How much there is of what a launch makes."""

    def work(tx: Tx) -> dict[str, int]:
        tables = (runs, events, attempts, projects)
        return {t.name: tx.conn.execute(select(func.count()).select_from(t)).scalar_one() for t in tables}

    return world.do(work)


def upload(world: World, *, complete: bool) -> None:
    def work(tx: Tx) -> None:
        code.announce(tx, world.owner, None, CODE, now=world.now)
        if complete:
            records.complete_snapshot(tx.conn, "ann", CODE.id)

    world.do(work)


BAD: list[tuple[dict[str, Any], type[MusterError], str]] = [
    ({"queue": "gpuu"}, NotFound, r"no queue 'gpuu'\. Did you mean 'gpu'\?"),
    ({"queue": "elsewhere"}, NotFound, "`muster queue list` shows what there is"),
    ({"values": {"gpus": 5}}, ImpossibleRequest, r"No machine of queue 'gpu' .* 5 GPUs \(4 there\)"),
    ({"values": {"memory": "65Gi"}}, ImpossibleRequest, "65.0 GiB of memory"),
    ({"values": {"gpus": 2}, "training": Training(nodes=3)}, ImpossibleRequest, "6 GPUs"),
    ({"values": {"gpus": "two"}}, BadVariable, "gpus=two is not the integer"),
    ({"values": {"gpus": -1}}, BadVariable, "below the minimum of 0"),
    ({"values": {"memory": "8Gx"}}, BadVariable, "memory=8Gx is not the quantity"),
    ({"values": {"gpu": 1}}, BadInput, "gpus"),
    ({"command": ()}, BadCommand, "no command"),
    ({"command": ("  ",)}, BadCommand, "no command"),
    ({"command": ("echo", "a\0b")}, BadCommand, "NUL"),
    ({"command": ("echo", "x" * 300_000)}, BadCommand, "256 KiB"),
    ({"env": {"": "x"}}, BadInput, "cannot be set in the environment"),
    ({"env": {"A=B": "x"}}, BadInput, "'A=B' cannot be set"),
    ({"env": {"MUSTER_RUN_ID": "x"}}, BadInput, "begin with MUSTER_"),
    ({"env": {"A": "x\0y"}}, BadCommand, "NUL"),
    ({"image": "pytorch:latest"}, BadInput, "cannot run the image 'pytorch:latest'"),
    ({"snapshot": "0" * 64}, NotFound, "Upload the code first"),
    ({"name": "no spaces"}, BadName, "not a valid run name"),
    ({"project": "../up"}, BadName, "not a valid project name"),
    ({"training": Training(procs_per_node="gpu")}, BadTraining, "needs GPUs"),
    ({"entity": "bob"}, NotAllowed, "may not launch in 'bob'"),
]


@pytest.mark.parametrize(("asked", "error", "words"), BAD, ids=[words for _, _, words in BAD])
def test_a_bad_launch_is_refused_with_the_reason_and_leaves_nothing(
    world: World, asked: dict[str, Any], error: type[MusterError], words: str
) -> None:
    world.agent()
    eve = world.user("eve", ann=Role.MEMBER)
    world.user("bob")
    before = counts(world)
    asked = {"entity": "ann", **asked}
    with pytest.raises(error) as caught:
        world.launch(order(entity="ann", project="fresh"), order(**{"project": "fresh", **asked}), actor=eve)
    assert caught.match(words)
    assert counts(world) == before


@pytest.mark.parametrize(("asked", "error", "words"), BAD, ids=[words for _, _, words in BAD])
def test_a_preview_refuses_what_a_launch_refuses(
    world: World, asked: dict[str, Any], error: type[MusterError], words: str
) -> None:
    world.agent()
    eve = world.user("eve", ann=Role.MEMBER)
    world.user("bob")
    bad = order(**{"entity": "ann", **asked})
    with pytest.raises(error, match=words):
        world.do(lambda tx: launch.preview(tx.conn, eve, bad, now=world.now, random=world.random))


def test_a_batch_is_launched_whole(world: World) -> None:
    made = world.launch(*[order(name=f"run-{i}", project="sweep") for i in range(50)])
    assert [run.name for run in made] == [f"run-{i}" for i in range(50)]
    assert len({run.id for run in made}) == 50
    assert counts(world) == {"runs": 50, "events": 50, "attempts": 0, "projects": 1}


def test_alike_launches_of_a_batch_differ_in_id_and_name_alone(world: World) -> None:
    asked = {"values": {"cpus": 2}, "inputs": {"lr": 0.1}}
    one, two, three = (
        world.run(run.id)
        for run in world.launch(order(**asked), order(**asked), order(name="third", **asked))
    )
    assert one.spec == two.spec == three.spec == world.run(world.launch_one(**asked)).spec
    assert len({one.id, two.id, three.id}) == len({one.name, two.name, three.name}) == 3
    assert three.name == "third"
    assert one.spec.resources.millicpus == 2000


def test_launches_that_python_calls_equal_are_not_alike(world: World) -> None:
    made = world.launch(*(order(inputs={"x": value}) for value in (1, True, 1.0)))
    assert [repr(world.run(run.id).spec.inputs["x"]) for run in made] == ["1", "True", "1.0"]
    with pytest.raises(BadVariable):
        world.launch(order(values={"gpus": 1}), order(values={"gpus": True}))


def test_a_launch_says_what_was_accepted(world: World) -> None:
    run_id = world.launch_one(
        values={"gpus": "2"}, training=Training(nodes=2), env={"A": "1"}, inputs={"lr": 0.1}
    )
    run = world.run(run_id)
    assert run.spec.values == {"cpus": 1, "memory": "0", "gpus": 2}
    assert run.spec.config == {"resources": {"cpus": 1, "memory": "0", "gpus": 2}}
    assert run.spec.resources == Resources(millicpus=2000, gpus=4)
    assert (run.state, run.author, run.project, run.head.nodes) == (RunState.QUEUED, "ann", "default", 2)
    assert run.name.count("-") == 2


def test_an_agent_yet_unknown_gets_the_benefit_of_the_doubt(world: World) -> None:
    run_id = world.launch_one(values={"gpus": 500})
    assert world.run(run_id).state is RunState.QUEUED
    assert world.agent().poll().claims == ()


def test_a_snapshot_that_is_not_complete_cannot_be_launched(world: World) -> None:
    upload(world, complete=False)
    with pytest.raises(NotFound, match="Upload the code first"):
        world.launch_one(snapshot=CODE.id, command=("train.py",))


@pytest.mark.parametrize("script", ["train.py", "./train.py", "/opt/tools/eval.py", "bash"])
def test_a_script_of_the_snapshot_can_be_launched(world: World, script: str) -> None:
    upload(world, complete=True)
    assert world.launch_one(snapshot=CODE.id, command=(script,))


def test_a_script_that_is_not_in_the_snapshot_is_named_with_the_nearest(world: World) -> None:
    upload(world, complete=True)
    with pytest.raises(BadCommand, match=r"'trian.py' is not among the files.* Did you mean 'train.py'\?"):
        world.launch_one(snapshot=CODE.id, command=("trian.py",))


def test_code_of_another_entity_cannot_be_launched(world: World) -> None:
    upload(world, complete=True)
    eve = world.user("eve")
    world.queue("gpu", actor=eve)
    with pytest.raises(NotFound):
        world.launch(order(snapshot=CODE.id, command=("train.py",)), actor=eve)


def test_runs_go_out_by_priority_then_by_age(world: World) -> None:
    agent = world.agent(max_jobs=100, total=MACHINE * 100)
    for place, priority in enumerate(
        (Priority.LOW, Priority.MEDIUM, Priority.CRITICAL, Priority.HIGH, Priority.MEDIUM)
    ):
        world.launch_one(priority=priority, name=f"r{place}")
        world.clock.advance(1)
    assert [claim.run.name for claim in agent.poll().claims] == ["r2", "r3", "r1", "r4", "r0"]


def test_a_waiting_run_keeps_the_version_of_the_queue_it_was_launched_with(world: World) -> None:
    run_id = world.launch_one()
    config = {"resources": {"cpus": "{{cpus}}", "memory": "{{memory}}", "gpus": "{{gpus}}"}, "stop_grace": 5}
    world.do(
        lambda tx: queue.edit(
            tx, world.owner, "gpu", entity=None, config=config, variables=None, now=world.now
        )
    )
    newer = world.launch_one()
    assert (world.run(run_id).queue_version, world.run(newer).queue_version) == (1, 2)
    assert "stop_grace" not in world.run(run_id).spec.config
    assert world.run(newer).spec.config["stop_grace"] == 5


def test_a_big_run_is_not_starved_by_a_stream_of_small_ones(world: World) -> None:
    agent = world.agent(max_jobs=100)
    for _ in range(4):
        world.launch_one(values={"gpus": 1})
    agent.poll()
    world.clock.advance(1)
    big = world.launch_one(values={"gpus": 4})
    for _ in range(8):
        world.clock.advance(1)
        world.launch_one(values={"gpus": 1})
        oldest = next(iter(agent.held.values()))
        agent.report(oldest, member(0, ReplicaState.SUCCEEDED))
        del agent.held[oldest.key.run_id]
        used = sum((world.run(run_id).spec.resources for run_id in agent.held), start=Resources())
        agent.poll(free=MACHINE - used)
        if big in agent.held:
            return
    pytest.fail("the big run never got its turn")
