"""What a run printed is here byte for byte, whoever follows it and whatever breaks in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.cluster import Cluster
from cluster.runs import ClusterBench, bench_in, job, key
from muster.domain.observation import ReplicaState
from muster.engine.kubernetes import follow

LINES = 100_000


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last + 1))


def test_a_flood_and_a_very_long_line_arrive_whole_and_once(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            # On a busy machine containerd 1.6 itself loses what a container printed right before its end:
            # `kubectl logs` has it neither. So these live on for a moment.
            await bench.shell(f"seq 1 {LINES}; sleep 3", key=key(1), config=job())
            long = "echo before; head -c 700000 /dev/zero | tr '\\0' x; echo; echo after; sleep 3"
            await bench.shell(long, key=key(2), config=job())
            flood, line = await asyncio.gather(bench.only(key(1)), bench.only(key(2)))
            assert bench.log(key(1)) == numbers(1, LINES)
            assert flood.log_bytes == len(bench.log(key(1)))
            assert bench.log(key(2)) == b"before\n" + b"x" * 700_000 + b"\nafter\n"
            assert line.log_bytes == len(bench.log(key(2)))
            async with bench_in(cluster, namespace, tmp_path, agent="late") as late:
                assert await late.engine.adopt(key(1), 2)
                assert (await late.only(key(1))).log_bytes == flood.log_bytes
                assert late.log(key(1)) == numbers(1, LINES)

    asyncio.run(scenario())


def test_whoever_takes_over_goes_on_where_the_log_was_safe(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """In the middle of a flood; each of three agents knows of another stretch."""
    bursts, size = 8, 5000
    script = (
        f"for b in $(seq 0 {bursts - 1}); do seq $((b * {size} + 1)) $(((b + 1) * {size})); sleep 0.4; done"
    )
    whole = numbers(1, bursts * size)

    async def take_over(old: ClusterBench, new: ClusterBench, *, epoch: int, after: int) -> int:
        await old.until(lambda: len(old.log(key(1))) >= after, f"{after} bytes")
        end = old.engine.log_mark(key(1), 0, after)
        assert end is not None
        assert 0 < end.length <= after
        assert await new.engine.adopt(key(1), epoch, {0: end})
        return end.length

    async def scenario() -> None:
        async with (
            bench_in(cluster, namespace, tmp_path, agent="first") as first,
            bench_in(cluster, namespace, tmp_path, agent="second") as second,
            bench_in(cluster, namespace, tmp_path, agent="third") as third,
        ):
            await first.shell(script, key=key(1), config=job())
            one = await take_over(first, second, epoch=2, after=len(whole) // 7)
            two = await take_over(second, third, epoch=3, after=len(whole) // 2)
            replica = await third.only(key(1))
            assert replica.state is ReplicaState.SUCCEEDED
            assert replica.log_bytes == len(whole)
            safe = first.log(key(1))[:one] + second.log(key(1))[one:two] + third.log(key(1))[two:]
            assert safe == whole

    asyncio.run(scenario())


def test_an_api_server_that_is_restarted_leaves_no_gap_and_no_repeat(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    shared = {"volumes": [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]}
    script = "i=0; until [ -e /shared/go ]; do i=$((i + 1)); echo $i; sleep 0.01; done; echo end; exit 3"

    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            await bench.shell(script, key=key(1), config=job(mount, pod=shared))
            await bench.says(b"\n50\n", key(1))
            before = len(bench.log(key(1)))
            await asyncio.to_thread(cluster.restart_apiserver)
            await bench.until(lambda: len(bench.log(key(1))) > before + 500, "more of the log")
            go.touch()
            replica = await bench.only(key(1))
            assert (replica.state, replica.exit_code) == (ReplicaState.FAILED, 3)
            lines = bench.log(key(1)).splitlines()
            assert lines == [*(b"%d" % number for number in range(1, len(lines))), b"end"]

    asyncio.run(scenario())


def test_what_is_printed_while_the_kubelet_is_away_is_there_too(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the stream with it, which then ends in good order; soon after, so does the container."""
    monkeypatch.setattr(follow, "STATUS_WAIT", 120.0)  # as long as a kubelet of a busy machine takes
    mount = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    shared = {"volumes": [{"name": "shared", "hostPath": {"path": str(tmp_path)}}]}
    script = "echo first; until [ -e /shared/go ]; do sleep 0.05; done; echo rest; touch /shared/gone"

    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path) as bench:
            await bench.shell(script, key=key(1), config=job(mount, pod=shared))
            await bench.says(b"first\n", key(1))
            await asyncio.to_thread(cluster.room.stop, "kubelet")
            try:
                (tmp_path / "go").touch()
                await bench.until((tmp_path / "gone").exists, "the container ends")
            finally:
                await asyncio.to_thread(cluster.start_kubelet)
            replica = await bench.only(key(1))
            assert (replica.state, bench.log(key(1))) == (ReplicaState.SUCCEEDED, b"first\nrest\n")

    asyncio.run(scenario())
