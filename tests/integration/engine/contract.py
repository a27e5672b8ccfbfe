"""What every engine must do. An engine's test module subclasses `EngineContract` and says how to make one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from muster.domain.errors import CannotPlace, Conflict, ImpossibleRequest, Overtaken
from muster.domain.observation import AttemptKey, Observation, Replica, ReplicaSeen, ReplicaState
from muster.domain.training import Training
from muster.engine.port import Engine, Place, Rendered, Sample, Work

T = TypeVar("T")
DEADLINE = 60.0
KEY = AttemptKey(run_id="r123456789", attempt=1)


@dataclass
class Bench:
    """An engine under test, and all it has said."""

    engine: Engine
    render: Callable[[Work], Rendered]
    config: Mapping[str, Any]
    directory: Path
    deadline: float = DEADLINE  #: seconds that it waits for anything
    seen: list[Observation] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        async for observation in self.engine.observe():
            self.seen.append(observation)
            self.news.set()

    async def submit(self, *command: str, epoch: int = 1, **options: Any) -> None:
        await self.engine.submit(self.render(self.work(*command, **options)), self.place(epoch))

    def work(
        self,
        *command: str,
        key: AttemptKey = KEY,
        training: Training | None = None,
        config: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Work:
        return Work(
            key=key,
            run_name="my run",
            project="proj",
            entity="ann",
            queue="local",
            author="ann",
            config={**self.config, **(config or {})},
            command=command,
            training=training,
            env=env or {},
            inputs=inputs or {},
        )

    async def shell(self, script: str, **options: Any) -> None:
        await self.submit("sh", "-c", script, **options)

    async def patiently(self, script: str, **options: Any) -> None:
        """As an agent does: again, while there is no room yet."""
        deadline = time.monotonic() + self.deadline
        while True:
            try:
                return await self.shell(script, **options)
            except CannotPlace:
                assert time.monotonic() < deadline, "there was no room in time"
                await asyncio.sleep(0.1)

    def place(self, epoch: int = 1) -> Place:
        for name in ("work", "out"):
            (self.directory / name).mkdir(exist_ok=True)
        return Place(
            epoch=epoch,
            workdir=self.directory / "work",
            output_dir=self.directory / "out",
            env={"MUSTER_URL": "http://127.0.0.1:1", "MUSTER_API_KEY": "not-a-real-key"},
        )

    async def until(self, look: Callable[[], T | bool | None], what: str) -> T:
        """Wait for news until `look` finds something."""
        deadline = time.monotonic() + self.deadline
        while True:
            self.news.clear()
            found = look()
            if found:
                return found  # type: ignore[return-value]
            left = deadline - time.monotonic()
            assert left > 0, f"not seen in time: {what}; seen: {self.seen}"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), min(left, 0.05))

    def replicas(self, key: AttemptKey = KEY) -> dict[int, Replica]:
        """Each member as last told."""
        facts = [seen.fact for seen in self.seen if seen.key == key]
        return {fact.replica.rank: fact.replica for fact in facts if isinstance(fact, ReplicaSeen)}

    def states(self, key: AttemptKey = KEY, rank: int = 0) -> list[ReplicaState]:
        """As told, from when it runs."""
        facts = [seen.fact for seen in self.seen if seen.key == key]
        told = [f.replica.state for f in facts if isinstance(f, ReplicaSeen) and f.replica.rank == rank]
        return [state for state in told if state not in (ReplicaState.PENDING, ReplicaState.STARTING)]

    async def running(self, key: AttemptKey = KEY, *, members: int = 1) -> dict[int, Replica]:
        def look() -> dict[int, Replica] | None:
            up = {r: m for r, m in self.replicas(key).items() if m.state is ReplicaState.RUNNING}
            return up if len(up) == members else None

        return await self.until(look, f"{members} running")

    async def ended(self, key: AttemptKey = KEY, *, members: int = 1) -> dict[int, Replica]:
        def look() -> dict[int, Replica] | None:
            down = {r: m for r, m in self.replicas(key).items() if m.state.ended}
            return down if len(down) == members else None

        return await self.until(look, f"{members} ended")

    async def only(self, key: AttemptKey = KEY) -> Replica:
        return (await self.ended(key))[0]

    def log(self, key: AttemptKey = KEY, rank: int = 0) -> bytes:
        path = self.engine.log_path(key, rank)
        return path.read_bytes() if path.exists() else b""

    async def says(self, text: bytes, key: AttemptKey = KEY, rank: int = 0) -> None:
        await self.until(lambda: text in self.log(key, rank), f"{text!r} in the log")


class EngineContract(ABC):
    """The configs in these tests are `{env, resources, stop_grace}`, as the process engine takes them; an
    engine that writes them otherwise translates them in `render`."""

    config: Mapping[str, Any] = {"stop_grace": 10}
    master = "127.0.0.1"  #: where rank 0 of KEY is found

    def how(self, replica: Replica) -> tuple[int | None, int | None]:
        """(exit code, signal), with 137 and SIGKILL taken for the same: only some engines tell them apart."""
        code = replica.exit_code
        return (None, code - 128) if code is not None and code > 128 else (code, replica.signal)

    @abstractmethod
    def make(self, directory: Path) -> Engine:
        """An agent's engine. Another one with the same directory is another agent that sees the same."""

    @abstractmethod
    def render(self, work: Work) -> Rendered: ...

    @contextlib.asynccontextmanager
    async def bench(self, directory: Path) -> AsyncIterator[Bench]:
        bench = Bench(
            engine=self.make(directory), render=self.render, config=self.config, directory=directory
        )
        listening = asyncio.create_task(bench.listen())
        try:
            yield bench
        finally:
            for key in await bench.engine.leftovers():
                with contextlib.suppress(Conflict, Overtaken):
                    await bench.engine.discard(key)
            await bench.engine.close()
            await asyncio.wait_for(listening, DEADLINE)

    async def samples(self, bench: Bench, *, members: int) -> list[Sample]:
        """Once there is one of each: what measures on another machine needs a moment to notice them."""
        deadline = time.monotonic() + DEADLINE
        while len(found := await bench.engine.usage()) < members:
            assert time.monotonic() < deadline, f"no sample of {members} members in time: {found}"
            await asyncio.sleep(0.1)
        return found

    # one member

    def test_a_command_that_ends_well_is_seen_to_run_and_to_succeed(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("echo hello; sleep 0.5")
                replica = await bench.only()
                assert bench.states() == [ReplicaState.RUNNING, ReplicaState.SUCCEEDED]
                assert replica.exit_code == 0
                assert replica.signal is None
                assert replica.handle
                assert replica.node
                assert replica.started_at is not None
                assert replica.ended_at is not None
                assert bench.log() == b"hello\n"
                assert replica.log_bytes == 6

        asyncio.run(scenario())

    @pytest.mark.parametrize(
        ("script", "exit_code", "signum"),
        [
            ("exit 3", 3, None),
            ("sh -c 'kill -KILL $$'; exit $?", None, 9),
            ("sh -c 'kill -SEGV $$'; exit $?", None, 11),
            ("no-such-program", 127, None),
        ],
    )
    def test_how_it_failed_is_told(
        self, tmp_path: Path, script: str, exit_code: int | None, signum: int | None
    ) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(script)
                replica = await bench.only()
                assert replica.state is ReplicaState.FAILED
                assert self.how(replica) == (exit_code, signum)

        asyncio.run(scenario())

    def test_a_macro_nobody_knows_is_left_as_it_is(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                texts = {"A": "${NOBODY}", "B": "$${run_id}", "C": "$${NOBODY}", "D": "${run_id}/${NOBODY}"}
                await bench.shell('printf "%s\\n" "$A" "$B" "$C" "$D"', config={"env": texts})
                await bench.only()
                assert bench.log().decode().splitlines() == [
                    "${NOBODY}",
                    "${run_id}",
                    "${NOBODY}",
                    f"{KEY.run_id}/${{NOBODY}}",
                ]

        asyncio.run(scenario())

    # stopping

    def test_stopping_asks_first(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done")
                await bench.says(b"up")
                await bench.engine.stop(KEY)
                await bench.engine.stop(KEY)
                replica = await bench.only()
                assert replica.state is ReplicaState.STOPPED
                assert bench.log().endswith(b"bye\n")
                await bench.engine.stop(KEY)
                assert bench.states().count(ReplicaState.STOPPED) == 1

        asyncio.run(scenario())

    def test_who_does_not_listen_is_killed_after_the_grace(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(
                    "trap '' TERM; echo up; while :; do sleep 0.02; done", config={"stop_grace": 0.2}
                )
                await bench.says(b"up")
                await bench.engine.stop(KEY)
                replica = await bench.only()
                assert replica.state is ReplicaState.STOPPED
                assert replica.signal == 9

        asyncio.run(scenario())

    def test_stopping_what_never_was_is_harmless(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.engine.stop(KEY)
                await bench.engine.forget(KEY)
                await bench.engine.clean(KEY)

        asyncio.run(scenario())

    # several members

    def test_when_a_member_fails_the_others_are_ended(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(
                    'echo up; if [ "$NODE_RANK" = 1 ]; then exit 5; fi; exec sleep 60',
                    training=Training(nodes=3),
                )
                replicas = await bench.ended(members=3)
                assert replicas[1].state is ReplicaState.FAILED
                assert replicas[1].exit_code == 5
                for rank in (0, 2):
                    assert replicas[rank].state is ReplicaState.STOPPED
                    assert "rank 1 failed" in replicas[rank].reason

        asyncio.run(scenario())

    def test_a_member_that_is_done_early_leaves_the_others_alone(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                go = tmp_path / "go"
                await bench.shell(
                    f'if [ "$NODE_RANK" = 1 ]; then exit 0; fi; until [ -e {go} ]; do sleep 0.02; done',
                    training=Training(nodes=2),
                )
                await bench.until(
                    lambda: bench.replicas().get(1) and bench.replicas()[1].state.ended, "rank 1 done"
                )
                assert bench.replicas()[0].state is ReplicaState.RUNNING
                go.touch()
                replicas = await bench.ended(members=2)
                assert {replica.state for replica in replicas.values()} == {ReplicaState.SUCCEEDED}

        asyncio.run(scenario())

    def test_every_process_of_every_member_knows_its_place(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(
                    'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $NODE_RANK/$NNODES $MASTER_ADDR $MASTER_PORT"',
                    training=Training(nodes=2, procs_per_node=2),
                )
                await bench.ended(members=2)
                lines = [sorted(bench.log(rank=rank).decode().splitlines()) for rank in (0, 1)]
                port = lines[0][0].split()[-1]
                assert int(port) > 0
                assert lines == [
                    [f"{rank}/4 {rank % 2} {rank // 2}/2 {self.master} {port}" for rank in ranks]
                    for ranks in ((0, 1), (2, 3))
                ]

        asyncio.run(scenario())

    # agents come and go

    def test_submitting_the_same_attempt_again_starts_nothing_new(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                for _ in range(2):
                    await bench.shell("echo once; sleep 60")
                await bench.says(b"once")
                await bench.engine.stop(KEY)
                await bench.only()
                await bench.shell("echo once; sleep 60")
                assert bench.log() == b"once\n"
                assert bench.states()[-1] is ReplicaState.STOPPED

        asyncio.run(scenario())

    def test_another_agent_takes_over_a_running_attempt(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as old, self.bench(tmp_path) as new:
                go = tmp_path / "go"
                await old.shell(f"echo up; until [ -e {go} ]; do sleep 0.02; done; exit 4")
                before = await old.running()
                await old.engine.forget(KEY)
                assert await new.engine.adopt(KEY, 2)
                after = await new.running()
                assert after[0].handle == before[0].handle
                assert after[0].started_at == before[0].started_at
                go.touch()
                replica = await new.only()
                assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 4)
                assert replica.log_bytes == 3
                assert old.states() == [ReplicaState.RUNNING]

        asyncio.run(scenario())

    def test_an_end_that_nobody_saw_is_told_to_who_takes_over(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as old, self.bench(tmp_path) as new:
                await old.shell("echo hello; exit 7")
                await old.only()
                assert await new.engine.adopt(KEY, 2)
                replica = await new.only()
                assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 7)
                assert replica.log_bytes == 6

        asyncio.run(scenario())

    def test_what_never_was_cannot_be_taken_over(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                assert not await bench.engine.adopt(KEY, 2)
                await bench.shell("true", epoch=2)
                assert (await bench.only()).state is ReplicaState.SUCCEEDED

        asyncio.run(scenario())

    def test_a_zombie_agent_can_neither_start_nor_stop_nor_take_back(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as zombie, self.bench(tmp_path) as new:
                await zombie.shell("echo up; sleep 60")
                await zombie.says(b"up")
                assert await new.engine.adopt(KEY, 2)
                with pytest.raises(Overtaken):
                    await zombie.engine.stop(KEY)
                with pytest.raises(Overtaken):
                    await zombie.engine.adopt(KEY, 1)
                with pytest.raises(Overtaken):
                    await zombie.shell("echo again", epoch=1)
                await new.running()
                await new.engine.stop(KEY)
                assert (await new.only()).state is ReplicaState.STOPPED

        asyncio.run(scenario())

    def test_a_new_attempt_ends_what_is_left_of_the_old_one_first(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as old, self.bench(tmp_path) as new:
                second = AttemptKey(run_id=KEY.run_id, attempt=2)
                alive = tmp_path / "alive"
                await old.shell(f"trap '' TERM; echo up; while :; do touch {alive}; sleep 0.02; done")
                await old.says(b"up")
                assert not await new.engine.adopt(second, 2)
                script = f"rm {alive}; sleep 0.2; [ ! -e {alive} ] && echo second"
                await new.patiently(script, key=second, epoch=2)
                assert (await new.only(second)).state is ReplicaState.SUCCEEDED
                assert new.log(second) == b"second\n"

        asyncio.run(scenario())

    def test_after_forgetting_nothing_more_is_told(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                other = AttemptKey(run_id="other12345", attempt=1)
                go, done = tmp_path / "go", tmp_path / "done"
                await bench.shell(f"until [ -e {go} ]; do sleep 0.02; done; touch {done}")
                await bench.running()
                await bench.engine.forget(KEY)
                go.touch()
                await bench.until(done.exists, "its last word")
                await bench.shell("true", key=other)
                await bench.only(other)
                assert bench.states() == [ReplicaState.RUNNING]

        asyncio.run(scenario())

    # afterwards

    def test_discarding_ends_and_removes(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as old, self.bench(tmp_path) as new:
                await old.shell("trap '' TERM; echo up; while :; do sleep 0.02; done")
                await old.says(b"up")
                assert await new.engine.leftovers() == [KEY]
                await new.engine.discard(KEY)
                assert await new.engine.leftovers() == []

        asyncio.run(scenario())

    def test_each_live_member_has_a_sample(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("echo up; while :; do :; done", training=Training(nodes=2))
                await bench.says(b"up", rank=0)
                await bench.says(b"up", rank=1)
                samples = await self.samples(bench, members=2)
                assert [(sample.key, sample.rank) for sample in samples] == [(KEY, 0), (KEY, 1)]
                for sample in samples:
                    assert sample.memory is not None
                    assert sample.memory > 0
                await bench.engine.stop(KEY)
                await bench.ended(members=2)
                assert await bench.engine.usage() == []

        asyncio.run(scenario())


class HostContract(EngineContract):
    """What an engine must do beside that starts processes on the agent's own machine."""

    def test_a_zombie_is_known_also_when_all_is_over(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as zombie, self.bench(tmp_path) as new:
                await zombie.shell("true")
                await zombie.only()
                assert await new.engine.adopt(KEY, 2)
                await new.only()
                await new.engine.clean(KEY)
                with pytest.raises(Overtaken):
                    await zombie.shell("echo again", epoch=1)

        asyncio.run(scenario())

    def test_a_signal_is_told_apart_from_an_exit_code(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("kill -KILL $$")
                replica = await bench.only()
                assert (replica.exit_code, replica.signal) == (None, 9)

        asyncio.run(scenario())

    # where they run

    def test_the_program_finds_its_place_and_values(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.submit(
                    "sh",
                    "-c",
                    'pwd; echo "$MUSTER_RUN_ID $MUSTER_RUN_NAME $MUSTER_ATTEMPT $MUSTER_OUTPUT_DIR";'
                    'echo "$MUSTER_CONFIG"; echo "$A $B $C"; echo "$1"',
                    "sh",
                    "${workdir}",
                    config={"env": {"A": "queue", "B": "queue"}},
                    env={"B": "launch", "C": "${run_id}"},
                    inputs={"lr": 0.1, "path": "${workdir}"},
                )
                await bench.only()
                where, place, config, env, argument = bench.log().decode().splitlines()
                assert where == str(tmp_path / "work")
                assert place == f"{KEY.run_id} my run 1 {tmp_path / 'out'}"
                assert json.loads(config) == {"lr": 0.1, "path": "${workdir}"}
                assert env == "queue launch ${run_id}"
                assert argument == "${workdir}"

        asyncio.run(scenario())

    def test_output_is_kept_byte_for_byte_and_in_order(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell(r"printf 'a\0\377\r\nb'; printf err >&2; printf '\n\nend'")
                replica = await bench.only()
                assert bench.log() == b"a\0\xff\r\nberr\n\nend"
                assert replica.log_bytes == len(bench.log())

        asyncio.run(scenario())

    # room

    def test_what_can_never_fit_is_refused(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                with pytest.raises(ImpossibleRequest):
                    await bench.shell("true", config={"resources": {"cpus": 100_000}})

        asyncio.run(scenario())

    def test_what_does_not_fit_now_fits_once_there_is_room(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                other = AttemptKey(run_id="other12345", attempt=1)
                total = (await bench.engine.inventory()).total
                config = {"resources": {"cpus": f"{total.millicpus}m"}}
                await bench.shell("echo up; exec sleep 60", config=config)
                assert (await bench.engine.free()).millicpus == 0
                with pytest.raises(CannotPlace):
                    await bench.shell("true", key=other, config=config)
                await bench.engine.stop(KEY)
                await bench.only()
                assert (await bench.engine.free()).millicpus == total.millicpus
                await bench.shell("true", key=other, config=config)
                assert (await bench.only(other)).state is ReplicaState.SUCCEEDED

        asyncio.run(scenario())

    # afterwards

    def test_cleaning_leaves_nothing(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with self.bench(tmp_path) as bench:
                await bench.shell("echo up; exec sleep 60")
                await bench.says(b"up")
                with pytest.raises(Conflict):
                    await bench.engine.clean(KEY)
                await bench.engine.stop(KEY)
                await bench.only()
                assert await bench.engine.leftovers() == [KEY]
                await bench.engine.clean(KEY)
                await bench.engine.clean(KEY)
                assert await bench.engine.leftovers() == []
                assert not bench.engine.log_path(KEY, 0).exists()

        asyncio.run(scenario())
