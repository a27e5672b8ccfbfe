"""One training on every kind of workload, and what can happen to it: the table of the proof.

Each cell tells the run's state and reason, and of each member its state, reason, restarts and log. Each kind
is tried on its real controller; all that happens to one kind happens at the same time.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.cluster import GPUS, Cluster
from cluster.field import Field
from cluster.images import PYTHON
from cluster.kinds import CASES, Case
from cluster.outcome import Expected, Outcome, Told, engine_outcome, run_outcome, said
from cluster.runs import ClusterBench, bench_in, key
from muster.domain.observation import AttemptKey, ReplicaState
from muster.domain.run import RunState
from muster.domain.training import Training

CODE = Path(__file__).resolve().parents[2] / "examples" / "ddp"
PAIR = Training(nodes=2)
STAY = 'echo "rank $RANK"; exec sleep 300'
NO_IMAGE = "127.0.0.1:1/nothing:1"  #: its registry refuses the connection
SUCCEEDED, FAILED, STOPPED = ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED
PREEMPTED, PENDING, RUNNING = ReplicaState.PREEMPTED, ReplicaState.PENDING, ReplicaState.RUNNING
STARTING = ReplicaState.STARTING

Play = Callable[[Case, ClusterBench, AttemptKey, Path], Awaitable[Outcome]]


@dataclass(frozen=True, kw_only=True)
class Row:
    title: str
    play: Play | None = None
    expected: Callable[[Case], Expected]


async def nothing_is_left(case: Case, bench: ClusterBench, key: AttemptKey) -> None:
    """Neither of Muster nor of its controller."""
    kinds = {"jobs.batch", "pods", "secrets", "services", "configmaps", case.resource, *case.makes}
    deadline = asyncio.get_running_loop().time() + bench.deadline
    while True:
        names = (await bench.kubectl("get", ",".join(sorted(kinds)), "--output=name")).split()
        left = [name for name in names if key.run_id in name]
        if not left:
            return
        assert asyncio.get_running_loop().time() < deadline, f"left: {left}"
        await asyncio.sleep(0.5)


async def meets(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    """All know who they are, and where the first is."""
    script = (
        'if [ "$RANK" = 0 ]; then echo met | nc -l -p $MASTER_PORT; '
        'else until nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; fi; echo "$RANK of $WORLD_SIZE"'
    )
    await bench.shell(script, key=key, config=case.training(), training=PAIR)
    await bench.ended(key, members=2)
    outcome = engine_outcome(bench, key)
    await bench.engine.discard(key)
    await nothing_is_left(case, bench, key)
    return outcome


async def is_started_again(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    """A worker crashes once, and its owner's template has it started again. The first waits for that."""
    kept = f"/kept/{case.name}"
    script = (
        f"RANK=${{RANK:-$JOB_COMPLETION_INDEX}}; if [ $RANK = 0 ]; then echo rank 0; touch {kept}-up; "
        f"until [ -e {kept}-again ]; do sleep 0.1; done; exit; fi; "
        f"until [ -e {kept}-up ]; do sleep 0.1; done; echo rank 1; "
        f"if mkdir {kept} 2>/dev/null; then exit 3; fi; echo again; touch {kept}-again"
    )
    config = case.template(
        container={"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]},
        volumes=[{"name": "kept", "hostPath": {"path": str(folder)}}],
    )
    await bench.shell(script, key=key, config=config)
    await bench.ended(key, members=2)
    return engine_outcome(bench, key)


async def is_evicted(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    await _stays(case, bench, key)
    await bench.evict(bench.replicas(key)[1].handle)
    await bench.ended(key, members=2)
    return engine_outcome(bench, key)


async def crashes(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    """The last, once the first has said that it is there."""
    script = (
        'echo "rank $RANK"; if [ "$RANK" = 0 ]; then nc -l -p $MASTER_PORT </dev/null; exec sleep 300; fi; '
        "until nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done >/dev/null 2>&1; sleep 2; exit 7"
    )
    await bench.shell(script, key=key, config=case.training(), training=PAIR)
    await bench.ended(key, members=2)
    return engine_outcome(bench, key)


async def has_no_image(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    config = case.training(image=NO_IMAGE, imagePullPolicy="IfNotPresent")
    await bench.shell("true", key=key, config=config, training=PAIR)
    await bench.ended(key, members=2)
    outcome = engine_outcome(bench, key)
    await nothing_is_left(case, bench, key)  # what was given up on must not come up later
    return outcome


async def is_stopped(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    await _stays(case, bench, key)
    await bench.engine.stop(key)
    await bench.ended(key, members=2)
    outcome = engine_outcome(bench, key, stop=True)
    await nothing_is_left(case, bench, key)
    return outcome


async def is_deleted(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    """By somebody else."""
    await _stays(case, bench, key)
    label = f"--selector=muster.dev/run-id={key.run_id}"
    await bench.kubectl("delete", case.resource, label, "--wait=false")
    await bench.ended(key, members=2)
    outcome = engine_outcome(bench, key)
    await nothing_is_left(case, bench, key)
    return outcome


async def does_not_fit(case: Case, bench: ClusterBench, key: AttemptKey, folder: Path) -> Outcome:
    """Two nodes that have room only one after the other: as told while they wait."""
    config = case.training(resources={"limits": {"nvidia.com/gpu": GPUS // 2 + 1}})
    await bench.shell(STAY, key=key, config=config, training=PAIR)

    def waits() -> bool:
        told = bench.replicas(key)
        is_told = any(re.fullmatch(case.waits, one.reason) for one in told.values())
        up = [rank for rank, one in told.items() if one.state is RUNNING]
        follows = case.follows_first and 1 in told and told[1].state is STARTING
        return is_told and (case.all_or_none or follows or any(said(bench, key, rank) for rank in up))

    await bench.until(waits, f"{case.waits}; told: {bench.replicas(key)}")
    outcome = engine_outcome(bench, key)
    await bench.engine.stop(key)
    ended = await bench.ended(key, members=2)
    assert {one.state for one in ended.values()} == {STOPPED}, ended
    return outcome


async def _stays(case: Case, bench: ClusterBench, key: AttemptKey) -> None:
    """Until both run, and have said so."""
    await bench.shell(STAY, key=key, config=case.training(), training=PAIR)
    await bench.running(key, members=2)
    for rank in range(2):
        await bench.says(b"rank", key, rank)


def always(state: RunState, *members: Told, summary: str = "") -> Callable[[Case], Expected]:
    """The same on every kind."""
    return lambda case: Expected(state=state, summary=summary, members=[[member] for member in members])


def _restarted(case: Case) -> Expected:
    lives = 2 if case.restarts_all else 1
    first = Told(state=SUCCEEDED, restarts=lives - 1, log="rank 0\n" * lives)
    second = Told(state=SUCCEEDED, restarts=1, log="rank 1\nrank 1\nagain\n")
    return Expected(state=RunState.SUCCEEDED, members=[[first], [second]])


def _without_image(case: Case) -> Expected:
    """Whoever is given up on first ends the other."""
    hopeless = Told(state=FAILED, reason=f"(ErrImagePull|ImagePullBackOff): .*{re.escape(NO_IMAGE)}.*")
    members = [
        [hopeless, Told(state=STOPPED, reason=f"It was ended because rank {1 - rank} failed.")]
        for rank in range(2)
    ]
    said = r"Replica \d could not start: its image could not be had: .*connection refused\."
    return Expected(state=RunState.FAILED, summary=said, members=members)


def _without_room(case: Case) -> Expected:
    waits = Told(state=PENDING, reason=case.waits)
    if case.all_or_none:
        return Expected(state=RunState.PENDING, members=[[waits], [waits]])
    members = [[waits, Told(state=RUNNING, log=f"rank {rank}\n")] for rank in range(2)]
    if case.follows_first:
        members[1].append(Told(state=STARTING, log=r"(\[init-\S+\].*\n)*"))
    return Expected(state=RunState.STARTING, members=members)


def _both(state: ReplicaState, reason: str) -> list[Told]:
    return [Told(state=state, reason=reason, log=f"rank {rank}\n") for rank in range(2)]


ROWS = (
    Row(
        title="meets",
        play=meets,
        expected=always(
            RunState.SUCCEEDED,
            Told(state=SUCCEEDED, log="(.*\n)?0 of 2\n"),
            Told(state=SUCCEEDED, log="(.*\n)?1 of 2\n"),
        ),
    ),
    Row(title="crashes once", play=is_started_again, expected=_restarted),
    Row(
        title="crashes",
        play=crashes,
        expected=always(
            RunState.FAILED,
            Told(state=STOPPED, reason=r"It was ended because rank 1 failed\.", log="rank 0\n"),
            Told(state=FAILED, log="rank 1\n"),
            summary=r"Replica 1 exited with code 7; the last line printed: rank 1\.",
        ),
    ),
    Row(
        title="is evicted",
        play=is_evicted,
        expected=always(
            RunState.QUEUED,
            Told(state=STOPPED, reason=r"It was ended because rank 1 was taken away\.", log="rank 0\n"),
            Told(
                state=PREEMPTED,
                reason=r"Pod \S+ was taken away \(EvictionByEvictionAPI\): Eviction API: evicting",
                log="rank 1\n",
            ),
            summary=r".*was taken away by the cluster \(EvictionByEvictionAPI\): Eviction API: evicting\.",
        ),
    ),
    Row(title="does not fit", play=does_not_fit, expected=_without_room),
    Row(title="has no image", play=has_no_image, expected=_without_image),
    Row(
        title="is stopped",
        play=is_stopped,
        expected=always(RunState.STOPPED, *_both(STOPPED, r"It was stopped on request\.")),
    ),
    Row(
        title="is deleted by somebody",
        play=is_deleted,
        expected=always(
            RunState.FAILED,
            *_both(STOPPED, r"\w+ \S+ was deleted from outside Muster\."),
            summary=r".*was deleted from outside Muster\.",
        ),
    ),
)
#: Through all of Muster.
TRAINS = Row(
    title="trains with PyTorch",
    expected=always(
        RunState.SUCCEEDED,
        Told(
            state=SUCCEEDED,
            log=r"rank 0 of 2 is here .*epoch 1/3 +loss 0\.[4-9].*epoch 3/3 +loss 0\.[0-3].*",
        ),
        Told(state=SUCCEEDED, log="rank 1 of 2 is here .*"),
        summary=r"It succeeded.*\.",
    ),
)


class Table:
    """All rows of a kind are played at once, when one of them is asked for."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._played: dict[str, dict[str, Outcome | BaseException]] = {}

    def outcome(self, case: Case, row: Row) -> Outcome:
        if row is TRAINS:
            return self._train(case)
        if case.name not in self._played:
            self._played[case.name] = self._play(case)
        found = self._played[case.name][row.title]
        if isinstance(found, BaseException):
            raise found
        return found

    def _train(self, case: Case) -> Outcome:
        """PyTorch is in no image here: its environment, and the Python under it, are folders of the node."""
        python = Path(os.environ["MUSTER_TEST_TORCH_PYTHON"])
        folders = {"torch": python.parents[1], "python": Path(sys.base_prefix), "code": CODE}
        config = case.training(
            resources={"requests": {"cpu": "200m"}},
            workingDir=str(CODE),
            env=[{"name": "PATH", "value": f"{python.parent}:/usr/bin:/bin"}],
            volumeMounts=[
                {"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()
            ],
        )
        config["template"]["spec"]["volumes"] = [
            {"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()
        ]
        with self._place(f"pytorch-{case.name}") as (namespace, folder):
            field = Field(folder, self._cluster, namespace)
            try:
                with case.controller(self._cluster, namespace, folder):
                    field.queue("training", config)
                    field.start_agent("training")
                    shape = {"nodes": 2, "procs_per_node": 1}
                    run = field.launch("training", ["train.py"], image=PYTHON, training=shape)
                    run.wait(600)
                    return run_outcome(field.client, run)
            finally:
                field.close()

    @contextmanager
    def _place(self, name: str) -> Iterator[tuple[str, Path]]:
        """A namespace, and a folder."""
        folder = self._folder / name
        folder.mkdir()
        self._cluster.kubectl("create", "namespace", name)
        yield name, folder
        self._cluster.kubectl("delete", "namespace", name, "--wait=false")

    def _play(self, case: Case) -> dict[str, Outcome | BaseException]:
        async def scenario(namespace: str, folder: Path) -> list[Outcome | BaseException]:
            async with bench_in(self._cluster, namespace, folder) as bench:
                played = (
                    row.play(case, bench, key(number), folder) for number, row in enumerate(ROWS) if row.play
                )
                return await asyncio.gather(*played, return_exceptions=True)

        with (
            self._place(f"training-{case.name}") as (namespace, folder),
            case.controller(self._cluster, namespace, folder),
        ):
            found = asyncio.run(scenario(namespace, folder))
        return {row.title: outcome for row, outcome in zip(ROWS, found, strict=True)}


@pytest.fixture(scope="module")
def table(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(cluster, tmp_path_factory.mktemp("training"))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(TRAINS, id=TRAINS.title, marks=pytest.mark.torch),
        *(pytest.param(row, id=row.title) for row in ROWS),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_a_training_on_every_kind_and_what_can_happen_to_it(table: Table, case: Case, row: Row) -> None:
    row.expected(case).check(table.outcome(case, row))
