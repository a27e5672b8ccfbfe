"""Groups: launched in one batch, found by their id, stopped together."""

from __future__ import annotations

from typing import Any

import pytest

from muster.domain.access import Actor, Role
from muster.domain.errors import BadInput, BadInputValue, NotAllowed, NotFound
from muster.domain.grid import Grid
from muster.domain.inputs import InputDeclaration
from muster.domain.run import Run, RunState
from muster.service import group, launch
from muster.store.groups import Group
from muster.store.runlist import Filter, page
from world import World, order

GRID = Grid.from_data({"optimizer.lr": [0.1, 0.01], "seed": [1, 2, 3]})


def launch_grid(world: World, grid: Grid = GRID, *, group_id: str = "g123456789", **asked: Any) -> list[Run]:
    orders = group.spread(order(**asked), grid, random=world.random)
    return world.do(
        lambda tx: launch.launch(tx, world.owner, orders, now=world.now, random=world.random, group=group_id)
    )


def found(world: World, actor: Actor | None = None) -> Group:
    return world.do(lambda tx: group.find(tx.conn, actor or world.owner, "g123456789"))


def stop(world: World, actor: Actor | None = None) -> group.Stopped:
    return world.do(lambda tx: group.stop(tx, actor or world.owner, "g123456789", now=world.now))


def test_a_grid_is_a_group_of_named_runs_each_with_its_inputs(world: World) -> None:
    made = launch_grid(world, name="sweep", inputs={"optimizer": {"name": "sgd"}})
    assert [run.name for run in made] == [f"sweep-{number}" for number in range(1, 7)]
    assert [run.spec.inputs["optimizer"] for run in made[::3]] == [
        {"name": "sgd", "lr": 0.1},
        {"name": "sgd", "lr": 0.01},
    ]
    assert {world.run(run.id).group for run in made} == {"g123456789"}
    assert found(world).states == {RunState.QUEUED: 6}


def test_runs_without_a_name_share_one_that_was_made_up(world: World) -> None:
    bases = {run.name.rpartition("-")[0] for run in launch_grid(world)}
    assert len(bases) == 1


def test_one_bad_point_launches_nothing(world: World) -> None:
    schema = {"properties": {"seed": {"type": "integer", "maximum": 2}}}
    with pytest.raises(BadInputValue, match="seed=3 is above the maximum of 2"):
        launch_grid(world, declaration=InputDeclaration.parse({"schema": schema}))
    with pytest.raises(NotFound):
        found(world)


def test_a_list_is_narrowed_to_a_group_and_further(world: World) -> None:
    world.launch(order())
    made = launch_grid(world)
    world.stop(made[0].id)

    def listed(**narrow: Any) -> list[str]:
        wanted = Filter(group="g123456789", **narrow)
        return world.do(lambda tx: [run.id for _, run in page(tx.conn, wanted, limit=99)])

    assert listed() == [run.id for run in reversed(made)]
    assert listed(entities=("ann",), states=(RunState.STOPPED,)) == [made[0].id]
    assert listed(entities=("bob",)) == []


def test_stopping_a_group_stops_what_is_live_and_tells_how_many(world: World) -> None:
    made = launch_grid(world)
    worker = world.agent(max_jobs=2)
    worker.poll()
    world.stop(made[5].id)
    before = found(world).version
    done = stop(world)
    assert done.asked == 5
    assert done.group.states == {RunState.STOPPING: 2, RunState.STOPPED: 4}
    assert done.group.version > before
    assert f"agent:{worker.agent.id}" in world.told
    assert stop(world).asked == 0
    assert {item.run_id for item in worker.poll().stops} == set(worker.held)


def test_a_group_is_seen_and_stopped_only_by_those_who_may(world: World) -> None:
    launch_grid(world)
    stranger, viewer, member = (
        world.user("eve"),
        world.user("vic", ann=Role.VIEWER),
        world.user("bob", ann=Role.MEMBER),
    )
    for act in (found, stop):
        with pytest.raises(NotFound):
            act(world, stranger)
    assert found(world, viewer).total == 6
    with pytest.raises(NotAllowed):
        stop(world, viewer)
    assert stop(world, member).asked == 6


DECLARED = InputDeclaration.parse(
    {
        "schema": {"properties": {"lr": {"type": "number", "default": 0.1}, "opt": {"type": "object"}}},
        "arguments": ["lr"],
        "files": {"conf.yaml": ["opt"], "all.json": True},
    }
)


def test_what_the_job_declares_is_kept_with_the_run(world: World) -> None:
    no_files = InputDeclaration.parse({**DECLARED.to_data(), "files": {}})
    run = world.run(world.launch_one(command=("train.py", "--x"), declaration=no_files))
    assert run.spec.inputs == {"lr": 0.1}
    assert run.spec.command == ("train.py", "--x")
    assert run.spec.whole_command == ("train.py", "--x", "--lr=0.1")


def test_files_of_the_code_are_managed_only_where_there_is_code(world: World) -> None:
    with pytest.raises(BadInput, match="but no code is launched"):
        world.launch(order(declaration=DECLARED))


def test_a_preview_comes_before_the_code(world: World) -> None:
    asked = order(declaration=DECLARED)
    found = world.do(
        lambda tx: launch.preview(tx.conn, world.owner, asked, now=world.now, random=world.random)
    )
    assert found.rendered.manifest["replicas"][0]["command"][-1] == "--lr=0.1"
