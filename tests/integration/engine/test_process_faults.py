"""The process engine when things go wrong: agents and shims killed, daemons, races, no memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from integration.engine.contract import DEADLINE, KEY, Bench
from muster.domain.errors import CannotPlace, LocalProblem, MusterError, Overtaken
from muster.domain.observation import AttemptKey, Noted, ReplicaState
from muster.domain.resources import Resources
from muster.domain.training import Training
from muster.engine.process import proc, start
from muster.engine.process.devices import SPARE
from muster.engine.process.engine import ProcessEngine
from muster.engine.process.lock import RunLocks, try_lock
from muster.engine.process.render import render
from muster.engine.process.spare import Spares
from muster.engine.process.spawn import spawn

#: Starts one attempt, says so, and waits to be killed.
AGENT = """
import asyncio, json, sys
from pathlib import Path
from integration.engine.contract import Bench
from muster.domain.training import Training
from muster.engine.process.engine import ProcessEngine
from muster.engine.process.render import render

async def main():
    directory, script, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    engine = ProcessEngine(directory / "engine", lock_dir=directory / "locks")
    bench = Bench(engine=engine, render=render, config=options["config"], directory=directory)
    await bench.shell(script, training=Training(nodes=options["nodes"]) if options["nodes"] else None)
    if options["stop"]:
        await bench.says(b"up")
        await bench.engine.stop(list(await bench.engine.leftovers())[0])
    print("started", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def bench_in(
    directory: Path, *, environ: Mapping[str, str] | None = None, locks: Path | None = None
) -> AsyncIterator[Bench]:
    engine = ProcessEngine(directory / "engine", lock_dir=locks or directory / "locks", environ=environ)
    bench = Bench(engine=engine, render=render, config={"stop_grace": 10}, directory=directory)
    listening = asyncio.create_task(bench.listen())
    try:
        yield bench
    finally:
        for key in await engine.leftovers():
            with contextlib.suppress(MusterError):
                await engine.discard(key)
        await engine.close()
        await asyncio.wait_for(listening, DEADLINE)


def kill_an_agent_that_started(
    directory: Path,
    script: str,
    *,
    nodes: int = 0,
    stop: bool = False,
    config: Mapping[str, Any] | None = None,
) -> None:
    """A whole agent process starts the attempt and is killed, its children left to init."""
    options = json.dumps({"nodes": nodes, "stop": stop, "config": {"stop_grace": 10, **(config or {})}})
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, str(directory), script, options],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"started\n"
        agent.kill()


def processes_of(key: AttemptKey) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MUSTER_RUN_ID") == key.run_id and process.status() != "zombie":
                found.append(process)
    return found


@pytest.fixture
def key(request: pytest.FixtureRequest) -> AttemptKey:
    """A run of its own, so that its processes can be told from those of other tests."""
    return AttemptKey(run_id=f"t{abs(hash(request.node.name)) % 10**9:09d}", attempt=1)


# the agent is killed


def test_a_run_survives_its_agent_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        go = tmp_path / "go"
        kill_an_agent_that_started(
            tmp_path, f"echo before; until [ -e {go} ]; do sleep 0.02; done; echo after; exit 6"
        )
        async with bench_in(tmp_path) as bench:
            assert await bench.engine.adopt(KEY, 2)
            await bench.running()
            go.touch()
            replica = await bench.only()
            assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 6)
            assert bench.log() == b"before\nafter\n"
            assert replica.log_bytes == 13

    asyncio.run(scenario())


def test_a_run_that_ended_while_no_agent_lived_is_told_as_it_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        kill_an_agent_that_started(tmp_path, "echo done")
        async with bench_in(tmp_path) as bench:
            await bench.until((tmp_path / f"engine/runs/{KEY.run_id}.1/r0.exit").exists, "its end")
            assert await bench.engine.adopt(KEY, 2)
            replica = await bench.only()
            assert replica.state is ReplicaState.SUCCEEDED
            assert bench.states() == [ReplicaState.SUCCEEDED]
            assert replica.log_bytes == 5

    asyncio.run(scenario())


def test_a_stop_is_carried_on_by_the_next_agent(tmp_path: Path) -> None:
    async def scenario() -> None:
        kill_an_agent_that_started(
            tmp_path,
            "trap 'echo asked' TERM; echo up; while :; do sleep 0.02; done",
            stop=True,
            config={"stop_grace": 1},
        )
        async with bench_in(tmp_path) as bench:
            assert await bench.engine.adopt(KEY, 2)
            replica = await bench.only()
            assert (replica.state, replica.signal) == (ReplicaState.STOPPED, 9)

    asyncio.run(scenario())


def test_a_gang_that_lost_a_member_while_no_agent_lived_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        kill_an_agent_that_started(tmp_path, '[ "$NODE_RANK" = 0 ] && exec sleep 60; exit 9', nodes=2)
        async with bench_in(tmp_path) as bench:
            await bench.until((tmp_path / f"engine/runs/{KEY.run_id}.1/r1.exit").exists, "its end")
            assert await bench.engine.adopt(KEY, 2)
            replicas = await bench.ended(members=2)
            assert (replicas[1].state, replicas[1].exit_code) == (ReplicaState.FAILED, 9)
            assert replicas[0].state is ReplicaState.STOPPED
            assert "rank 1" in replicas[0].reason

    asyncio.run(scenario())


def test_an_agent_frozen_while_it_acts_holds_up_nobody_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        frozen = RunLocks(tmp_path / "engine" / "locks")
        async with bench_in(tmp_path) as bench, frozen.guard(KEY.run_id):
            other = AttemptKey(run_id="other12345", attempt=1)
            await bench.shell("true", key=other)
            assert (await bench.only(other)).state is ReplicaState.SUCCEEDED
            with pytest.raises(CannotPlace, match="acting on run"):
                async with RunLocks(tmp_path / "engine" / "locks").guard(KEY.run_id, wait=0.1):
                    pass

    asyncio.run(scenario())


# a shim is killed


def test_a_killed_shim_takes_its_command_with_it(tmp_path: Path, key: AttemptKey) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            await bench.shell("echo up; exec sleep 60", key=key)
            await bench.says(b"up", key)
            shim = int((await bench.running(key))[0].handle)
            os.kill(shim, signal.SIGKILL)
            replica = await bench.only(key)
            assert (replica.state, replica.signal) == (ReplicaState.FAILED, 9)
            assert "shim" in replica.reason
            assert processes_of(key) == []

    asyncio.run(scenario())


def test_a_shim_killed_while_no_agent_lived_is_lost_and_its_command_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        kill_an_agent_that_started(tmp_path, "echo up; exec sleep 61")
        async with bench_in(tmp_path) as bench:
            await bench.says(b"up")
            mark = str(tmp_path / f"engine/runs/{KEY.run_id}.1/r0")
            (shim,) = proc.find_shims({mark: proc.Owner(key=KEY, rank=0)}).values()
            command = psutil.Process(shim.pid).children()[0]
            psutil.Process(shim.pid).kill()
            await bench.until(lambda: not psutil.pid_exists(shim.pid), "shim gone")
            assert command.is_running()
            assert await bench.engine.adopt(KEY, 2)
            replica = await bench.only()
            assert replica.state is ReplicaState.LOST
            await bench.until(lambda: is_over(command), "command gone")  # its memory goes first

    asyncio.run(scenario())


def is_over(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


# a directory is used again


def test_a_run_in_a_directory_used_before_sees_nothing_of_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = (AttemptKey(run_id=f"{name}123456789", attempt=1) for name in "ab")
        async with bench_in(tmp_path) as bench:
            await bench.shell("echo a long line of the first; exit 3", key=first)
            assert (await bench.only(first)).exit_code == 3
            inode = bench.engine.log_path(first, 0).stat().st_ino
            await bench.engine.clean(first)
            assert await bench.engine.leftovers() == []
            await bench.shell("echo up; exec sleep 60", key=second)
            await bench.says(b"up", second)
            assert bench.engine.log_path(second, 0).stat().st_ino == inode
            await bench.engine.stop(second)
            replica = await bench.only(second)
            assert (replica.state, replica.log_bytes) == (ReplicaState.STOPPED, 3)
            assert bench.log(second) == b"up\n"

    asyncio.run(scenario())


def test_a_directory_taken_by_an_agent_that_died_at_once_says_that_nothing_was_started(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        other = AttemptKey(run_id="other12345", attempt=1)
        async with bench_in(tmp_path) as bench:
            await bench.shell("true", key=other)
            await bench.only(other)
            await bench.engine.clean(other)
            assert Spares(tmp_path / "engine").take(str(tmp_path / f"engine/runs/{KEY.run_id}.1"))
            assert not await bench.engine.adopt(KEY, 2)
            await bench.shell("echo once", epoch=2)
            assert (await bench.only()).state is ReplicaState.SUCCEEDED
            assert bench.log() == b"once\n"

    asyncio.run(scenario())


def test_an_exit_status_that_is_not_the_runs_own_is_not_believed(tmp_path: Path) -> None:
    async def scenario() -> None:
        kill_an_agent_that_started(tmp_path, "exit 4")
        record = tmp_path / f"engine/runs/{KEY.run_id}.1/r0.exit"
        async with bench_in(tmp_path) as bench:
            own = await bench.until(lambda: record.exists() and record.read_text(), "its end")
            assert own == f"4 {record.with_suffix('')}\n"
            record.write_text(f"0 {tmp_path}/engine/runs/other12345.1/r0\n")
            assert await bench.engine.adopt(KEY, 2)
            assert (await bench.only()).state is ReplicaState.LOST

    asyncio.run(scenario())


def test_a_directory_into_which_somebody_may_still_write_is_not_used_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            await bench.shell("true")
            await bench.only()
            life = os.open(tmp_path / f"engine/locks/{KEY.run_id}.lock", os.O_RDWR)
            assert try_lock(life)
            await bench.engine.clean(KEY)
            os.close(life)
            assert os.listdir(tmp_path / "engine/spare") == []

    asyncio.run(scenario())


# what a command leaves behind

DETACH = 'import subprocess; subprocess.Popen(["sleep", "60"], start_new_session=True)'
DAEMONS = {
    "in the background": "sleep 60 & echo up",
    "deaf to SIGTERM": "(trap '' TERM; echo up; while :; do sleep 0.02; done) & sleep 0.1",
    "in a session of its own": "setsid sleep 60 & echo up",
    "with descriptors closed": f"{sys.executable} -c '{DETACH}'; echo up",
    "without its environment": "env -i setsid --wait sleep 60 & exec sleep 0.2",
}


@pytest.mark.parametrize("script", DAEMONS.values(), ids=DAEMONS.keys())
def test_what_a_command_leaves_running_is_ended(tmp_path: Path, key: AttemptKey, script: str) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            await bench.shell(script, key=key)
            replica = await bench.only(key)
            assert replica.state is ReplicaState.SUCCEEDED
            assert processes_of(key) == []
            assert replica.log_bytes == len(bench.log(key))

    asyncio.run(scenario())


def test_stopping_reaches_sessions_that_moved_away(tmp_path: Path, key: AttemptKey) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            await bench.shell("setsid sleep 60 & echo up; wait", key=key)
            await bench.says(b"up", key)
            await bench.engine.stop(key)
            assert (await bench.only(key)).state is ReplicaState.STOPPED
            assert processes_of(key) == []

    asyncio.run(scenario())


def test_output_written_after_the_command_ended_is_counted(tmp_path: Path, key: AttemptKey) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            script = "(trap 'echo late; exit' TERM; echo up; while :; do sleep 0.02; done) & sleep 0.1"
            await bench.shell(script, key=key)
            replica = await bench.only(key)
            assert b"late" in bench.log(key)
            assert replica.log_bytes == len(bench.log(key))

    asyncio.run(scenario())


# room


def test_two_agents_never_share_a_gpu(tmp_path: Path) -> None:
    """Both want two of four, again and again; whoever holds one says so in a file nobody else may have."""
    held = tmp_path / "held"
    held.mkdir()
    script = (
        'for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , " "); do '
        f"mkdir {held}/$gpu || exit 3; done; sleep 0.01; "
        f'for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , " "); do rmdir {held}/$gpu; done'
    )
    environ = {**os.environ, "MUSTER_FAKE_GPUS": "4"}

    async def agent(bench: Bench, name: str) -> int:
        refused = 0
        for turn in range(12):
            key = AttemptKey(run_id=f"{name}{turn:06d}", attempt=1)
            while True:
                try:
                    await bench.shell(script, key=key, config={"resources": {"gpus": 3 if turn % 3 else 1}})
                except CannotPlace:
                    refused += 1
                    await asyncio.sleep(0.002)
                else:
                    break
            replica = await bench.only(key)
            assert replica.state is ReplicaState.SUCCEEDED, bench.log(key)
            assert len(replica.devices) == (3 if turn % 3 else 1)
        return refused

    async def scenario() -> None:
        directories = [tmp_path / name for name in ("one", "two")]
        for directory in directories:
            directory.mkdir()
        benches = [bench_in(place, environ=environ, locks=tmp_path / "locks") for place in directories]
        async with benches[0] as one, benches[1] as two:
            refused = await asyncio.gather(agent(one, "one"), agent(one, "uno"), agent(two, "two"))
            assert sum(refused) > 0
            assert (await one.engine.free()).gpus == 4

    asyncio.run(scenario())


def test_a_gpu_is_free_once_its_last_process_is_gone_whatever_became_of_the_agent(tmp_path: Path) -> None:
    async def scenario() -> None:
        environ = {**os.environ, "MUSTER_FAKE_GPUS": "2"}
        async with bench_in(tmp_path, environ=environ) as dead, bench_in(tmp_path, environ=environ) as bench:
            config = {"resources": {"gpus": 2, "cpus": 1, "memory": "1Gi"}}
            await dead.shell("echo up; exec sleep 60", config=config)
            await dead.says(b"up")
            shim = psutil.Process(int((await dead.running())[0].handle))
            await dead.engine.forget(KEY)
            total = (await bench.engine.inventory()).total
            free = await bench.engine.free()
            assert total - free == Resources(millicpus=1000, memory=2**30, gpus=2)
            for process in (*shim.children(), shim):
                process.kill()
            deadline = time.monotonic() + DEADLINE
            while await bench.engine.free() != total:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_locks_that_nobody_holds_are_taken_again_and_do_not_pile_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        small, large = {"resources": {"cpus": "10m"}}, {"resources": {"cpus": "20m"}}
        async with bench_in(tmp_path) as bench:

            def uses() -> set[str]:
                return {path.name for path in (tmp_path / "locks").glob("use-*")}

            keys = [AttemptKey(run_id=f"a{number:09d}", attempt=1) for number in range(SPARE + 4)]
            for key in keys:
                await bench.shell("exec sleep 60", key=key, config=small)
            held = uses()
            assert len(held) == len(keys)
            for key in keys:
                await bench.engine.stop(key)
            for key in keys:
                await bench.only(key)
            await bench.shell("exec sleep 60", config=small)
            assert uses() < held
            assert len(uses()) == SPARE + 1
            taken = (await bench.engine.inventory()).total - await bench.engine.free()
            assert taken == Resources(millicpus=10)
            await bench.shell("true", key=AttemptKey(run_id="b000000000", attempt=1), config=large)
            assert len(uses() - held) == 1

    asyncio.run(scenario())


def test_if_one_member_cannot_be_started_none_is(
    tmp_path: Path, key: AttemptKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def spawn_two(*args: Any, **kwargs: Any) -> int:
        if len(started) == 2:
            raise CannotPlace("This machine cannot start another process just now.")
        started.append(spawn(*args, **kwargs))
        return started[-1]

    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            monkeypatch.setattr(start, "spawn", spawn_two)
            with pytest.raises(CannotPlace):
                await bench.shell("sleep 60", key=key, training=Training(nodes=3))
            assert processes_of(key) == []
            assert bench.seen == []
            assert await bench.engine.leftovers() == []
            monkeypatch.undo()
            await bench.shell("true", key=key, training=Training(nodes=3))
            assert len(await bench.ended(key, members=3)) == 3

    asyncio.run(scenario())


def test_a_command_larger_than_the_kernel_takes_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            with pytest.raises(MusterError, match="larger than the kernel takes"):
                await bench.shell("true", inputs={"x": "y" * 3_000_000})
            assert await bench.engine.leftovers() == []

    asyncio.run(scenario())


def test_a_root_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            (tmp_path / "engine" / "runs").rmdir()
            (tmp_path / "engine" / "runs").write_text("in the way")
            with pytest.raises(LocalProblem):
                await bench.shell("true")
            (tmp_path / "engine" / "runs").unlink()

    asyncio.run(scenario())


def test_memory_over_the_limit_is_named_where_the_machine_can_limit_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            script = f"{sys.executable} -c 'x = bytearray(600 * 2**20); print(len(x))'"
            await bench.shell(script, config={"resources": {"memory": "200Mi"}})
            replica = await bench.only()
            if any(isinstance(seen.fact, Noted) for seen in bench.seen):
                pytest.skip("this machine has no cgroup that can be written")
            assert replica.state is ReplicaState.FAILED
            assert replica.reason == "killed by the kernel: over its memory of 200Mi"

    asyncio.run(scenario())


def test_a_limit_that_is_kept_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            await bench.shell("echo hello; sleep 60 & exit 0", config={"resources": {"memory": "200Mi"}})
            replica = await bench.only()
            assert (replica.state, replica.log_bytes) == (ReplicaState.SUCCEEDED, 6)

    asyncio.run(scenario())


def test_tombstones_of_runs_long_over_are_swept_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            other = AttemptKey(run_id="other12345", attempt=1)
            await bench.shell("echo up; exec sleep 60")
            await bench.shell("true", key=other)
            await bench.only(other)
            await bench.engine.clean(other)
            locks = tmp_path / "engine" / "locks"
            RunLocks(locks).sweep(before=time.time() - 60)
            assert {path.name for path in locks.iterdir()} == {
                f"{KEY.run_id}.epoch",
                f"{KEY.run_id}.lock",
                f"{other.run_id}.epoch",
                f"{other.run_id}.lock",
            }
            RunLocks(locks).sweep(before=time.time() + 60)
            assert {path.name for path in locks.iterdir()} == {f"{KEY.run_id}.epoch", f"{KEY.run_id}.lock"}

    asyncio.run(scenario())


def test_a_restored_server_may_give_an_earlier_attempt_again(tmp_path: Path, key: AttemptKey) -> None:
    """It forgot the later one, and leapt to a greater epoch: that one counts, and never both run."""

    async def scenario() -> None:
        async with bench_in(tmp_path) as bench:
            later = AttemptKey(run_id=key.run_id, attempt=2)
            await bench.shell("echo later; exec sleep 60", key=later, epoch=7)
            await bench.says(b"later", later)
            (before,) = [process.pid for process in processes_of(key) if "sleep" in process.cmdline()]
            await bench.shell("echo again; exec sleep 60", key=key, epoch=1_000_001)
            await bench.says(b"again", key)
            assert before not in [process.pid for process in processes_of(key)]
            with pytest.raises(Overtaken):
                await bench.shell("echo no", key=later, epoch=7)

    asyncio.run(scenario())
