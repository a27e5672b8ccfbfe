"""What an agent sees of the cluster: by one watch for each kind, however many runs there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cluster.accounts import account, user_of
from cluster.cluster import Cluster
from cluster.images import BUSYBOX
from cluster.runs import bench_in, job, key
from muster.domain.errors import CannotPlace
from muster.domain.observation import ReplicaState
from muster.engine.kubernetes import view
from muster.engine.kubernetes.access import rights
from muster.engine.kubernetes.api import PODS, Api, Object
from muster.engine.kubernetes.connect import ClusterSettings, connect
from muster.engine.kubernetes.engine import KubernetesEngine
from muster.engine.kubernetes.watch import Watch

RUNS = 8


def test_one_watch_for_each_kind_serves_all_runs(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    kubeconfig = account(cluster, namespace, list(rights()))

    async def scenario() -> None:
        async with bench_in(cluster, namespace, tmp_path, kubeconfig=kubeconfig) as bench:
            for number in range(RUNS):
                await bench.shell("echo done", key=key(number), config=job())
            ended = await asyncio.gather(*(bench.only(key(number)) for number in range(RUNS)))
            assert {one.state for one in ended} == {ReplicaState.SUCCEEDED}

    asyncio.run(scenario())
    asked = [one for one in cluster.requests(user=user_of(namespace)) if one.verb in ("list", "watch")]
    times = Counter((one.verb, one.resource) for one in asked)
    wanted = {(verb, kind) for verb in ("list", "watch") for kind in ("pods", "events", "jobs")}
    assert times.keys() == wanted
    assert max(times.values()) == 1, times


def test_a_place_that_the_api_server_has_forgotten_is_listed_anew(cluster: Cluster, namespace: str) -> None:
    """Its answer is 410, as after a long time without a word; what went meanwhile is told as gone."""

    async def scenario() -> None:
        api = Api(connect(ClusterSettings(kubeconfig=cluster.kubeconfig, namespace=namespace)))
        seen: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

        def saw(item: Object, there: bool) -> None:
            seen.put_nowait((item["metadata"]["name"], there))

        spec = {
            "containers": [{"name": "main", "image": BUSYBOX}],
            "schedulingGates": [{"name": "muster.test/never"}],
        }
        pod = {"metadata": {"name": "later"}, "spec": spec}
        await api.create(PODS, namespace, pod)
        await asyncio.to_thread(cluster.restart_apiserver)  # it forgets what was before
        watch = Watch(api, PODS, namespace, saw)
        watch._there = {"of-another-time": {"metadata": {"name": "earlier", "uid": "u"}, "unseen": True}}
        watch._version = "1"
        running = asyncio.create_task(watch.run())
        try:
            async with asyncio.timeout(60):
                assert await seen.get() == ("later", True)
                assert await seen.get() == ("earlier", False)
                assert watch._version not in ("1", None)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await api.close()

    asyncio.run(scenario())


def test_what_may_not_be_seen_is_named_at_once(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "SYNC_WAIT", 3600.0)
    blind = [right for right in rights() if right.kind.plural != "pods"]
    kubeconfig = account(cluster, namespace, blind)

    async def scenario() -> None:
        connection = connect(ClusterSettings(kubeconfig=kubeconfig, namespace=namespace))
        engine = KubernetesEngine(connection, tmp_path, agent="test")
        try:
            async with asyncio.timeout(60):
                with pytest.raises(CannotPlace, match=r"cannot be seen: pods is forbidden: .* cannot list"):
                    await engine.leftovers()
        finally:
            await engine.close()

    asyncio.run(scenario())
